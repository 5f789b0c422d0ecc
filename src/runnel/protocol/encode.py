"""From a plain mapping to the bytes of a response, for any API and version.

A handler gives one mapping for all versions, with every field that some version has; the version takes what it knows.
Times are whole milliseconds, and a name that Kafka ends in `Ms` ends before it here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any
from uuid import UUID

from runnel.protocol.hot import WRITTEN_BY_HAND
from runnel.protocol.schemas import NO_DEFAULT, NUMBERS, Array, Field, Structure, runs_of, schema
from runnel.records.codecs import Buffer

Put = Callable[[bytearray, Any], None]
ByHand = Callable[[Mapping[str, Any]], bytes | None]
TaggedField = tuple[int, str, Put, Any]

ZERO_UUID = bytes(16)
LONGEST_STRING = 2**15 - 1
COPIED_SIZE = 1024  # fewer bytes are sooner copied than sent as a part


class _Data(bytearray):
    """What is encoded, without the records that come in between at the positions noted."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Buffer]] = []


class Encoder:
    """Encodes the body of one API's messages in one version."""

    __slots__ = ("_by_hand", "_put", "flexible_header")

    def __init__(
        self, structure: Structure, *, flexible: bool, flexible_header: bool, by_hand: ByHand | None = None
    ) -> None:
        self.flexible_header = flexible_header
        self._put = _structure(structure, flexible)
        self._by_hand = by_hand

    def __call__(self, body: Mapping[str, Any]) -> list[Buffer]:
        """The parts of the body, one after the other. Records are parts of their own: they are not copied."""
        if self._by_hand is not None:
            whole = self._by_hand(body)
            if whole is not None:
                return [whole]
        data = _Data()
        self._put(data, body)
        if not data.records:
            return [data]
        parts: list[Buffer] = []
        start = 0
        view = memoryview(data)
        for position, records in data.records:
            parts += (view[start:position], records)
            start = position
        parts.append(view[start:])
        return parts


@cache
def response_encoder(api_key: int, version: int) -> Encoder:
    known = schema(api_key, version)
    by_hand = WRITTEN_BY_HAND.get(api_key)
    return Encoder(
        known.response,
        flexible=known.flexible_answer,
        flexible_header=known.flexible_answer_header,
        by_hand=partial(by_hand, version) if by_hand is not None else None,
    )


@cache
def request_encoder(api_key: int, version: int) -> Encoder:
    """For those who speak to a broker: a flexible request has a flexible header."""
    known = schema(api_key, version)
    return Encoder(known.request, flexible=known.flexible, flexible_header=known.flexible)


# --- structures


def _structure(structure: Structure, flexible: bool) -> Put:
    puts = [_numbers(run) if len(run) > 1 else _single(run[0], flexible) for run in runs_of(structure)]
    tagged = sorted(
        (field.tag, field.name, _value(field.kind, flexible, nullable=False), field.default)
        for field in structure
        if field.tag is not None
    )

    def put_structure(data: bytearray, body: Mapping[str, Any]) -> None:
        for put in puts:
            put(data, body)
        if tagged:
            _put_tags(data, tagged, body)
        elif flexible:
            data.append(0)

    return put_structure


def _single(field: Field, flexible: bool) -> Put:
    name, default = field.name, field.default
    put = _value(field.kind, flexible, nullable=field.nullable)

    def put_field(data: bytearray, body: Mapping[str, Any]) -> None:
        value = body.get(name, default)
        if value is NO_DEFAULT:
            raise KeyError(f"{name} has no value")
        put(data, value)

    return put_field


def _numbers(run: Sequence[Field]) -> Put:
    """Numbers one after the other are packed at once."""
    pack = struct.Struct(">" + "".join(NUMBERS[field.kind] for field in run)).pack
    names = [(field.name, field.default) for field in run]

    def put_numbers(data: bytearray, body: Mapping[str, Any]) -> None:
        values = [body.get(name, default) for name, default in names]
        if NO_DEFAULT in values:
            raise KeyError(f"{names[values.index(NO_DEFAULT)][0]} has no value")
        data += pack(*values)

    return put_numbers


def _put_tags(data: bytearray, tagged: list[TaggedField], body: Mapping[str, Any]) -> None:
    present = [(tag, put, body[name]) for tag, name, put, default in tagged if name in body and body[name] != default]
    put_unsigned_varint(data, len(present))
    for tag, put, value in present:
        inner = bytearray()
        put(inner, value)
        put_unsigned_varint(data, tag)
        put_unsigned_varint(data, len(inner))
        data += inner


def _value(kind: Any, flexible: bool, *, nullable: bool) -> Put:
    if isinstance(kind, str):
        return PRIMITIVES[kind, flexible]
    if isinstance(kind, Array):
        return _array(_value(kind.item, flexible, nullable=False), flexible)
    put = _structure(kind, flexible)
    return _nullable_structure(put) if nullable else put


def _nullable_structure(put: Put) -> Put:
    def put_nullable(data: bytearray, value: Any) -> None:
        data.append(0xFF if value is None else 1)
        if value is not None:
            put(data, value)

    return put_nullable


def _array(put: Put, flexible: bool) -> Put:
    def put_compact(data: bytearray, values: Iterable[Any] | None) -> None:
        if values is None:
            data.append(0)
            return
        values = tuple(values)
        put_unsigned_varint(data, len(values) + 1)
        for value in values:
            put(data, value)

    def put_plain(data: bytearray, values: Iterable[Any] | None) -> None:
        if values is None:
            data += b"\xff\xff\xff\xff"
            return
        values = tuple(values)
        data += len(values).to_bytes(4, "big")
        for value in values:
            put(data, value)

    return put_compact if flexible else put_plain


# --- single values


def put_unsigned_varint(data: bytearray, value: int) -> None:
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)


def _number(code: str) -> Put:
    pack = struct.Struct(f">{code}").pack

    def put_number(data: bytearray, value: int) -> None:
        data += pack(value)

    return put_number


def put_string(data: bytearray, value: str | None) -> None:
    if value is None:
        data += b"\xff\xff"
        return
    text = value.encode()
    if len(text) > LONGEST_STRING:  # a message of ours: names came in by the same format
        text = text[:LONGEST_STRING].decode(errors="ignore").encode()
    data += len(text).to_bytes(2, "big")
    data += text


def put_compact_string(data: bytearray, value: str | None) -> None:
    put_compact_bytes(data, None if value is None else value.encode())


def put_bytes(data: bytearray, value: bytes | None) -> None:
    if value is None:
        data += b"\xff\xff\xff\xff"
        return
    data += len(value).to_bytes(4, "big")
    data += value


def put_compact_bytes(data: bytearray, value: bytes | None) -> None:
    if value is None:
        data.append(0)
        return
    put_unsigned_varint(data, len(value) + 1)
    data += value


def _put_uuid(data: bytearray, value: UUID | None) -> None:
    data += ZERO_UUID if value is None else value.bytes


def _put_records(data: bytearray, value: Buffer | None) -> None:
    if value is None:
        data += b"\xff\xff\xff\xff"
        return
    data += len(value).to_bytes(4, "big")
    _put_apart(data, value)


def _put_compact_records(data: bytearray, value: Buffer | None) -> None:
    if value is None:
        data.append(0)
        return
    put_unsigned_varint(data, len(value) + 1)
    _put_apart(data, value)


def _put_apart(data: bytearray, value: Buffer) -> None:
    if isinstance(data, _Data) and len(value) > COPIED_SIZE:
        data.records.append((len(data), value))
    else:
        data += value


def _both(put: Put) -> tuple[Put, Put]:
    return put, put


_PUTS: dict[str, tuple[Put, Put]] = {
    **{kind: _both(_number(code)) for kind, code in NUMBERS.items()},
    "uuid": _both(_put_uuid),
    "string": (put_string, put_compact_string),
    "bytes": (put_bytes, put_compact_bytes),
    "records": (_put_records, _put_compact_records),
}
PRIMITIVES = {(kind, flexible): puts[flexible] for kind, puts in _PUTS.items() for flexible in (False, True)}
