"""What we encode, kio reads, and what kio encodes, we read: every API and version that is served, both sides."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.protocol.decode import read_request, read_response
from runnel.protocol.encode import Encoder, request_encoder, response_encoder
from runnel.protocol.frames import parse_header
from runnel.protocol.schemas import Array, Field, Schema, Structure, schema, versions
from tests.property.protocol.kio_messages import KINDS, REQUESTS, Kind, decoded, encoded, messages, sample

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
flexible_kinds = [kind for kind in KINDS if kind.schema.__flexible__]

HEADER = b"\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff"  # no client id; the key and the version are not looked at again


def ours(kind: Kind, data: bytes) -> dict[str, Any]:
    """What we read, every field."""
    if kind.side == "response":
        return read_response(kind.api_key, kind.version, data)
    known = schema(kind.api_key, kind.version)
    frame = HEADER + (b"\x00" if known.flexible else b"") + data
    header = parse_header(frame, 0, len(frame))._replace(api_key=kind.api_key, version=kind.version)
    return read_request(frame, header, len(frame))


def structure_of(known: Schema, side: str) -> Structure:
    return known.request if side == "request" else known.response


def own(kind: Kind, message: dict[str, Any]) -> dict[str, Any]:
    """The part of it that this version has, in values that can be compared."""
    return _part(structure_of(schema(kind.api_key, kind.version), kind.side), message)


def _part(structure: Structure, message: dict[str, Any]) -> dict[str, Any]:
    return {field.name: _value(field.kind, message[field.name]) for field in structure}


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_value(kind.item, item) for item in value]
    if isinstance(kind, str):
        return bytes(value) if isinstance(value, memoryview) else value
    return _part(kind, value)


def our_bytes(kind: Kind, message: dict[str, Any]) -> bytes:
    encoder = (request_encoder if kind.side == "request" else response_encoder)(kind.api_key, kind.version)
    return b"".join(map(bytes, encoder(message)))


# --- at random


@every_kind
@settings(max_examples=8)
@given(data=st.data())
def test_we_read_what_kio_writes_and_kio_reads_what_we_write(kind: Kind, data: st.DataObject) -> None:
    message = data.draw(messages(kind.schema))
    assert own(kind, ours(kind, encoded(kind, message))) == message
    assert decoded(kind, our_bytes(kind, message)) == message


@every_kind
def test_a_message_with_every_field_goes_both_ways(kind: Kind) -> None:
    message = sample(kind)
    assert own(kind, ours(kind, encoded(kind, message))) == message
    assert decoded(kind, our_bytes(kind, message)) == message


@pytest.mark.parametrize("count", [0, 126, 127, 128, 16_382, 16_383])
def test_arrays_of_any_length_go_both_ways(count: int) -> None:
    plain, compact = Kind(1, 11, "request"), Kind(1, 12, "request")
    for kind in (plain, compact):
        message = deepcopy(sample(kind))
        message["forgotten_topics_data"][0]["partitions"] = list(range(count))
        assert own(kind, ours(kind, encoded(kind, message))) == message
        assert decoded(kind, our_bytes(kind, message)) == message


@pytest.mark.parametrize("size", [0, 1, 126, 127, 1024, 1025, 100_000])
@pytest.mark.parametrize("version", [4, 12], ids=["plain", "compact"])
def test_records_of_any_size_stand_in_their_place(size: int, version: int) -> None:
    kind = Kind(1, version, "response")
    message = deepcopy(sample(kind))
    for topic in message["responses"]:
        for partition in topic["partitions"]:
            partition["records"] = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert decoded(kind, our_bytes(kind, message)) == message
    assert own(kind, ours(kind, encoded(kind, message))) == message


# --- tagged fields that nobody knows


def with_unknown_tags(structure: Structure, contents: bytes) -> Structure:
    known = tuple(field._replace(kind=_with_unknown_tags(field.kind, contents)) for field in structure)
    tags = [field.tag for field in structure if field.tag is not None]
    unknown = Field("unknown", "bytes", False, max(tags, default=-1) + 3, contents + b"?")
    return (*known, unknown)


def _with_unknown_tags(kind: Any, contents: bytes) -> Any:
    if isinstance(kind, Array):
        return Array(_with_unknown_tags(kind.item, contents))
    return kind if isinstance(kind, str) else with_unknown_tags(kind, contents)


def filled(structure: Structure, message: dict[str, Any], contents: bytes) -> dict[str, Any]:
    out = {field.name: _filled(field.kind, message[field.name], contents) for field in structure}
    return out | {"unknown": contents}


def _filled(kind: Any, value: Any, contents: bytes) -> Any:
    if value is None or isinstance(kind, str):
        return value
    if isinstance(kind, Array):
        return [_filled(kind.item, item, contents) for item in value]
    return filled(kind, value, contents)


@pytest.mark.parametrize("kind", flexible_kinds, ids=str)
@settings(max_examples=3)
@given(contents=st.binary(max_size=200))
def test_unknown_tagged_fields_are_skipped_everywhere(kind: Kind, contents: bytes) -> None:
    structure = structure_of(schema(kind.api_key, kind.version), kind.side)
    encoder = Encoder(with_unknown_tags(structure, contents), flexible=True, flexible_header=True)
    message = sample(kind)
    data = b"".join(map(bytes, encoder(filled(structure, message, contents))))
    assert len(data) > len(our_bytes(kind, message)), "the tags are there"
    assert own(kind, ours(kind, data)) == message


# --- fields of other versions


def names_at(structures: list[Structure]) -> dict[str, Any]:
    """All names of the structures, and of those inside of them."""
    names: dict[str, Any] = {}
    for structure in structures:
        for field in structure:
            kind = field.kind.item if isinstance(field.kind, Array) else field.kind
            names.setdefault(field.name, []).extend([] if isinstance(kind, str) else [kind])
    return {name: names_at(inner) if inner else None for name, inner in names.items()}


def assert_has_all_names(message: dict[str, Any], names: dict[str, Any], where: str) -> None:
    assert set(message) == set(names), where
    for name, inner in names.items():
        value = message[name]
        if inner is not None and value:
            for item in value if isinstance(value, list) else [value]:
                assert_has_all_names(item, inner, f"{where}.{name}")


@every_kind
def test_a_message_has_the_fields_of_all_versions(kind: Kind) -> None:
    all_versions = [structure_of(schema(kind.api_key, each), kind.side) for each in versions(kind.api_key)]
    assert_has_all_names(ours(kind, encoded(kind, sample(kind))), names_at(all_versions), str(kind))


@pytest.mark.parametrize("kind", REQUESTS, ids=str)
def test_a_field_that_a_version_lacks_has_the_default_of_the_versions_that_have_it(kind: Kind) -> None:
    newest = {}
    for version in versions(kind.api_key):
        newest |= {field.name: field for field in schema(kind.api_key, version).request}
    request = ours(kind, encoded(kind, sample(kind)))
    present = {field.name for field in schema(kind.api_key, kind.version).request}
    for name, field in newest.items():
        if name not in present and isinstance(field.default, int | str):
            assert request[name] == field.default, name
