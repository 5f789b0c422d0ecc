import struct
from typing import Any
from uuid import UUID

import pytest

from runnel.errors import MalformedRequest
from runnel.protocol.decode import MOST_ITEMS, read_request, read_response
from runnel.protocol.encode import put_unsigned_varint, request_encoder, response_encoder
from runnel.protocol.frames import parse_header
from runnel.protocol.schemas import Array, Structure, schema
from runnel.protocol.versions import Api
from tests.broker_wire import Sent, request_bytes
from tests.property.protocol.kio_messages import REQUESTS, Kind, encoded, sample

every_request = pytest.mark.parametrize("kind", REQUESTS, ids=str)


def read(frame: bytes, end: int | None = None) -> dict[str, Any]:
    end = len(frame) if end is None else end
    return read_request(frame, parse_header(frame, 0, end), end)


def head(kind: Kind) -> bytes:
    flexible = schema(kind.api_key, kind.version).flexible
    return struct.pack(">hhih", kind.api_key, kind.version, 1, -1) + (b"\x00" if flexible else b"")


def varint(number: int) -> bytes:
    data = bytearray()
    put_unsigned_varint(data, number)
    return bytes(data)


METADATA = head(Kind(Api.METADATA, 12, "request"))
OLD_METADATA = head(Kind(Api.METADATA, 1, "request"))


# --- what is not whole


@every_request
def test_a_request_that_is_cut_anywhere_is_malformed(kind: Kind) -> None:
    whole = head(kind) + encoded(kind, sample(kind))
    read(whole)
    for end in range(len(head(kind)), len(whole)):
        with pytest.raises(MalformedRequest):
            read(whole[:end])


@every_request
def test_a_request_that_reaches_into_the_next_one_is_malformed(kind: Kind) -> None:
    whole = head(kind) + encoded(kind, sample(kind))
    for end in range(len(head(kind)), len(whole)):
        with pytest.raises(MalformedRequest):
            read(whole + whole, end)


@pytest.mark.parametrize("kind", [kind for kind in REQUESTS if schema(kind.api_key, kind.version).flexible], ids=str)
def test_a_flexible_request_without_the_tags_of_its_header_is_malformed(kind: Kind) -> None:
    with pytest.raises(MalformedRequest):
        read(head(kind)[:-1])


def test_a_response_that_is_cut_anywhere_is_malformed() -> None:
    kind = Kind(Api.METADATA, 13, "response")
    whole = encoded(kind, sample(kind))
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            read_response(kind.api_key, kind.version, whole[:end])


def test_the_error_says_how_much_there_was() -> None:
    with pytest.raises(MalformedRequest) as refused:
        read(METADATA + b"\x02")
    assert "in the middle of a field, after 1 byte of its body" in str(refused.value)


# --- numbers that cannot be


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1, 2**32 - 1, 2**35 - 1])
def test_an_array_cannot_have_more_items_than_bytes_follow(count: int) -> None:
    with pytest.raises(MalformedRequest):
        read(METADATA + varint(count))


@pytest.mark.parametrize("count", [1, 1000, 2**31 - 1])
def test_a_plain_array_cannot_have_more_items_than_bytes_follow(count: int) -> None:
    with pytest.raises(MalformedRequest):
        read(OLD_METADATA + struct.pack(">i", count))


def test_the_length_that_makes_another_reader_abort_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        read(METADATA + b"\xff\xff\xff\xff\x0f")


def test_text_that_is_no_utf_8_is_malformed() -> None:
    topic = bytes(16) + b"\x03\xff\xfe" + b"\x00"
    with pytest.raises(MalformedRequest, match="no UTF-8"):
        read(METADATA + b"\x02" + topic + b"\x01\x00\x00")


def topics_of_metadata(count: int) -> bytes:
    """A request of Metadata for so many topics, each as short as can be: no name."""
    return METADATA + varint(count + 1) + (bytes(16) + b"\x00\x00") * count + b"\x01\x00\x00"


def test_so_many_items_are_read_and_no_more() -> None:
    kind = head(Kind(Api.LIST_GROUPS, 5, "request"))
    assert len(read(kind + varint(MOST_ITEMS + 1) + b"\x01" * MOST_ITEMS + b"\x01\x00")["states_filter"]) == MOST_ITEMS
    with pytest.raises(MalformedRequest, match="more than 100,000 items"):
        read(kind + varint(MOST_ITEMS + 2) + b"\x01" * (MOST_ITEMS + 1) + b"\x01\x00")


def test_an_answer_may_have_more_than_a_request() -> None:
    """Each partition comes with its replicas: of a Kafka with 15,000 partitions more than 100,000 items are told."""
    nodes = [1, 2, 3]
    partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0, "offline_replicas": ()}
    partition |= {"replica_nodes": nodes, "isr_nodes": nodes}
    topic = {"error_code": 0, "name": "t", "is_internal": False, "partitions": [partition] * (MOST_ITEMS // 6)}
    body = {"throttle_time": 0, "brokers": (), "cluster_id": "c", "controller_id": 1, "topics": [topic]}
    answer = b"".join(map(bytes, response_encoder(Api.METADATA, 9)(body)))
    (found,) = read_response(Api.METADATA, 9, answer)["topics"]
    assert len(found["partitions"]) == MOST_ITEMS // 6


def test_the_items_of_all_arrays_count_together() -> None:
    kind = head(Kind(Api.LIST_GROUPS, 5, "request"))
    half = varint(MOST_ITEMS // 2 + 2) + b"\x01" * (MOST_ITEMS // 2 + 1)
    with pytest.raises(MalformedRequest, match="more than 100,000 items"):
        read(kind + half + half + b"\x00")


def test_every_message_may_have_so_many() -> None:
    request = topics_of_metadata(MOST_ITEMS // 2 + 1)
    for _ in range(2):
        assert len(read(request)["topics"]) == MOST_ITEMS // 2 + 1


# --- null where something must be


def null_places(structure: Structure, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The fields whose type could be null on the wire and that must not be."""
    places = []
    for field in structure:
        here = (*path, field.name)
        if isinstance(field.kind, Array):
            if not field.nullable:
                places.append(here)
            if not isinstance(field.kind.item, str):
                places += null_places(field.kind.item, here)
        elif isinstance(field.kind, str):
            if not field.nullable and field.kind in ("string", "bytes", "records"):
                places.append(here)
        else:
            places += null_places(field.kind, here)
    return places


def with_null(message: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    name, *rest = path
    if not rest:
        return message | {name: None}
    inner = message[name]
    if isinstance(inner, list):
        return message | {name: [with_null(inner[0], tuple(rest))]}
    return message | {name: with_null(inner, tuple(rest))}


@every_request
def test_null_is_refused_where_something_must_be(kind: Kind) -> None:
    """Handlers rely on it; Kafka ends the connection as well."""
    accepted = []
    for path in null_places(schema(kind.api_key, kind.version).request):
        body = b"".join(map(bytes, request_encoder(kind.api_key, kind.version)(with_null(sample(kind), path))))
        try:
            read(head(kind) + body)
        except MalformedRequest:
            continue
        accepted.append(".".join(path))
    assert accepted == []


# --- tagged fields


def test_a_tagged_field_that_is_longer_than_it_says_is_malformed() -> None:
    kind = Kind(Api.FETCH, 12, "request")
    body = encoded(kind, sample(kind) | {"cluster_id": None})
    assert body.endswith(b"\x00")
    cluster_id = b"\x06nodes"
    read(head(kind) + body[:-1] + b"\x01\x00" + bytes([len(cluster_id)]) + cluster_id)
    for size in (0, 1, 5):
        with pytest.raises(MalformedRequest):
            read(head(kind) + body[:-1] + b"\x01\x00" + bytes([size]) + cluster_id[:size])


# --- values


def test_records_are_a_view_of_the_frame() -> None:
    kind = Kind(Api.PRODUCE, 9, "request")
    frame = head(kind) + encoded(kind, sample(kind))
    records = read(frame)["topic_data"][0]["partition_data"][0]["records"]
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert bytes(records) == b"records"


def test_no_records_and_empty_records_are_not_the_same() -> None:
    for version in (3, 9):
        for given in (None, b""):
            body = {"transactional_id": None, "acks": 1, "timeout": 1}
            body["topic_data"] = [{"name": "t", "partition_data": [{"index": 0, "records": given}]}]
            frame = request_bytes(Sent(Api.PRODUCE, version, 1), None, body)
            found = read(frame)["topic_data"][0]["partition_data"][0]["records"]
            assert found == given


def test_an_id_of_zeros_is_none() -> None:
    request = METADATA + b"\x02" + bytes(16) + b"\x02a\x00" + b"\x01\x00\x00"
    assert read(request)["topics"][0]["topic_id"] is None
    request = METADATA + b"\x02" + bytes(15) + b"\x01" + b"\x02a\x00" + b"\x01\x00\x00"
    assert read(request)["topics"][0]["topic_id"] == UUID(int=1)


def test_a_nullable_structure_is_null_or_there() -> None:
    kind = Kind(Api.DESCRIBE_TOPIC_PARTITIONS, 0, "request")
    without = sample(kind) | {"cursor": None}
    assert read(head(kind) + encoded(kind, without))["cursor"] is None
    assert read(head(kind) + encoded(kind, sample(kind)))["cursor"]["partition_index"] == 7
