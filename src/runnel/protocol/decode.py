"""From the bytes of a request to a plain mapping, for any API and version.

The mapping has every field that some version has: a field that this version lacks has its default, so a handler need
not know versions. Record batches are views of the frame, not copies.

The bytes come from strangers: every length is checked against what is there before anything is made of it, and a
request may have so many parts and no more, or a small frame could fill the memory.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from runnel.counted import counted
from runnel.errors import MalformedRequest
from runnel.protocol.frames import RequestHeader, skip_tags, unsigned_varint
from runnel.protocol.hot import READ_BY_HAND, ReadByHand
from runnel.protocol.schemas import NO_DEFAULT, NUMBERS, Array, Field, Schema, Structure, runs_of, schema, versions

# From the data and a position to the value and the position after it. Beyond the end of the data they raise
# struct.error or IndexError, or give a position beyond it, which `_read` notices.
Get = Callable[[bytes, int], tuple[Any, int]]
Message = dict[str, Any]
Fill = Callable[
    [Message, bytes, int], int
]  # puts one or more fields into the message; the answer is the position after

MOST_ITEMS = 100_000  # in all arrays of one request
MOST_ITEMS_OF_AN_ANSWER = 10_000_000  # whoever asks for all topics of a large Kafka wants to know them

IMPLICIT_DEFAULTS = {"string": "", "bytes": b"", "bool": False, "uuid": None, "records": None, "float64": 0.0}


class _Allowance(threading.local):
    most = items = 0  # of the message that is read, and left


_allowance = _Allowance()


def read_request(frame: bytes, header: RequestHeader, end: int) -> Message:
    """The body of the request whose header was read; the frame ends at `end`."""
    api_key, version, _, _, start = header
    flexible, by_hand = _way_of(api_key, version)
    if flexible:
        start = skip_tags(frame, start)
    if by_hand is not None:
        body = by_hand(frame, start, end, version)
        if body is not None:
            return body
    return _read(_request_reader(api_key, version), frame, start, end, MOST_ITEMS)


def read_response(api_key: int, version: int, data: bytes | bytearray, start: int = 0) -> Message:
    """The body of a response: for those who speak to a broker. Records are views of the data."""
    get = _response_reader(api_key, version)
    return _read(get, data, start, len(data), MOST_ITEMS_OF_AN_ANSWER)  # type: ignore[arg-type]  # read, not kept


def _read(get: Get, data: bytes, start: int, end: int, most_items: int) -> Message:
    _allowance.most = _allowance.items = most_items
    try:
        message, stop = get(data, start)
    except (struct.error, IndexError):
        stop = end + 1
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"a text in it is no UTF-8: {error.reason}") from None
    if stop > end:
        raise MalformedRequest(
            f"it ends in the middle of a field, after {counted(max(0, end - start), 'byte')} of its body"
        )
    return message  # type: ignore[no-any-return]


@cache
def _way_of(api_key: int, version: int) -> tuple[bool, ReadByHand | None]:
    """Whether a request is flexible, and who may read it by hand."""
    return schema(api_key, version).flexible, READ_BY_HAND.get(api_key)


@cache
def _request_reader(api_key: int, version: int) -> Get:
    known = schema(api_key, version)
    return _structure(known.request, known.flexible, _absent(api_key, "request", known.request))


@cache
def _response_reader(api_key: int, version: int) -> Get:
    known = schema(api_key, version)
    return _structure(known.response, known.flexible_answer, _absent(api_key, "response", known.response))


# --- fields that only other versions have


def _absent(api_key: int, side: str, own: Structure) -> dict[str, Any]:
    """The defaults of the fields that other versions have, in this structure and, by their path, in those inside."""
    others = [_side(schema(api_key, version), side) for version in versions(api_key)]
    return _defaults_beside(own, others)


def _side(known: Schema, side: str) -> Structure:
    return known.request if side == "request" else known.response


def _defaults_beside(own: Structure, others: list[Structure]) -> dict[str, Any]:
    names = {field.name: field for field in own}
    absent: dict[str, Any] = {}
    for other in others:
        for field in other:
            if field.name not in names:
                absent[field.name] = _default(field)
    for field in own:
        inner = _inner(field.kind)
        if inner is not None:
            inner_others = [_inner(f.kind) or () for other in others for f in other if f.name == field.name]
            absent[f"{field.name}."] = _defaults_beside(inner, inner_others)
    return absent


def _inner(kind: Any) -> Structure | None:
    kind = kind.item if isinstance(kind, Array) else kind
    return None if isinstance(kind, str) else kind


def _default(field: Field) -> Any:
    if field.default is not NO_DEFAULT:
        return field.default
    if field.nullable:
        return None
    if isinstance(field.kind, Array):
        return ()
    return IMPLICIT_DEFAULTS.get(field.kind, 0) if isinstance(field.kind, str) else None


# --- structures


def _structure(structure: Structure, flexible: bool, absent: dict[str, Any]) -> Get:
    defaults = {name: default for name, default in absent.items() if not name.endswith(".")}
    defaults |= {field.name: _default(field) for field in structure if field.tag is not None}
    gets = {field.name: _value(field, flexible, absent.get(f"{field.name}.", {})) for field in structure}
    fills = [_numbers(run) if len(run) > 1 else _single(run[0], gets[run[0].name]) for run in runs_of(structure)]
    tagged = {field.tag: (field.name, gets[field.name]) for field in structure if field.tag is not None}

    def get_structure(data: bytes, position: int) -> tuple[Message, int]:
        message = defaults.copy()
        for fill in fills:
            position = fill(message, data, position)
        if flexible:
            if data[position] == 0:
                return message, position + 1
            position = _get_tags(data, position, tagged, message)
        return message, position

    return get_structure


def _single(field: Field, get: Get) -> Fill:
    name, nullable = field.name, field.nullable or field.kind == "uuid"

    def fill(message: Message, data: bytes, position: int) -> int:
        message[name], position = get(data, position)
        if message[name] is None and not nullable:
            raise MalformedRequest(f"{name} has no value")
        return position

    return fill


def _numbers(run: Sequence[Field]) -> Fill:
    """Numbers one after the other are read at once."""
    packed = struct.Struct(">" + "".join(NUMBERS[field.kind] for field in run))
    unpack, size = packed.unpack_from, packed.size
    names = [field.name for field in run]

    def fill(message: Message, data: bytes, position: int) -> int:
        message.update(zip(names, unpack(data, position), strict=True))
        return position + size

    return fill


def _get_tags(data: bytes, position: int, tagged: dict[int, tuple[str, Get]], message: Message) -> int:
    count, position = unsigned_varint(data, position)
    for _ in range(count):
        tag, position = unsigned_varint(data, position)
        size, position = unsigned_varint(data, position)
        end = position + size
        if end > len(data):
            raise IndexError
        if tag in tagged:
            name, get = tagged[tag]
            message[name], stop = get(data, position)
            if stop > end:
                raise MalformedRequest(f"{name} is longer than its tag says")
        position = end
    return position


def _value(field: Field, flexible: bool, absent: dict[str, Any]) -> Get:
    kind = field.kind
    if isinstance(kind, Array):
        item = (
            PRIMITIVES[kind.item, flexible] if isinstance(kind.item, str) else _structure(kind.item, flexible, absent)
        )
        return _array(item, flexible, nullable=kind.item == "uuid")
    if isinstance(kind, str):
        return PRIMITIVES[kind, flexible]
    get = _structure(kind, flexible, absent)
    return _nullable_structure(get) if field.nullable and field.tag is None else get


def _nullable_structure(get: Get) -> Get:
    def get_nullable(data: bytes, position: int) -> tuple[Any, int]:
        return (None, position + 1) if data[position] == 0xFF else get(data, position + 1)

    return get_nullable


def _array(get: Get, flexible: bool, *, nullable: bool) -> Get:
    def get_items(data: bytes, position: int, count: int) -> tuple[Any, int]:
        if count > len(data) - position:  # an item has at least one byte
            raise IndexError
        _allowance.items -= count
        if _allowance.items < 0:
            raise MalformedRequest(f"it has more than {_allowance.most:,} items")
        items = []
        for _ in range(count):
            item, position = get(data, position)
            if item is None and not nullable:
                raise MalformedRequest("an item of a list has no value")
            items.append(item)
        return items, position

    def get_compact(data: bytes, position: int) -> tuple[Any, int]:
        count, position = unsigned_varint(data, position)
        return (None, position) if count == 0 else get_items(data, position, count - 1)

    def get_plain(data: bytes, position: int) -> tuple[Any, int]:
        (count,) = INT32.unpack_from(data, position)
        return (None, position + 4) if count < 0 else get_items(data, position + 4, count)

    return get_compact if flexible else get_plain


# --- single values

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")


def _number(code: str) -> Get:
    packed = struct.Struct(f">{code}")
    unpack, size = packed.unpack_from, packed.size

    def get_number(data: bytes, position: int) -> tuple[Any, int]:
        return unpack(data, position)[0], position + size

    return get_number


def _get_uuid(data: bytes, position: int) -> tuple[UUID | None, int]:
    value = data[position : position + 16]
    if len(value) < 16:
        raise IndexError
    number = int.from_bytes(value)
    return (UUID(int=number) if number else None), position + 16


def _get_string(data: bytes, position: int) -> tuple[str | None, int]:
    (size,) = INT16.unpack_from(data, position)
    position += 2
    return (None, position) if size < 0 else (data[position : position + size].decode(), position + size)


def _get_compact_string(data: bytes, position: int) -> tuple[str | None, int]:
    size, position = unsigned_varint(data, position)
    return (None, position) if size == 0 else (data[position : position + size - 1].decode(), position + size - 1)


def _get_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = INT32.unpack_from(data, position)
    position += 4
    return (None, position) if size < 0 else (bytes(data[position : position + size]), position + size)


def _get_compact_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = unsigned_varint(data, position)
    return (None, position) if size == 0 else (bytes(data[position : position + size - 1]), position + size - 1)


def _get_records(data: bytes, position: int) -> tuple[memoryview | None, int]:
    (size,) = INT32.unpack_from(data, position)
    position += 4
    return (None, position) if size < 0 else (memoryview(data)[position : position + size], position + size)


def _get_compact_records(data: bytes, position: int) -> tuple[memoryview | None, int]:
    size, position = unsigned_varint(data, position)
    end = position + size - 1
    return (None, position) if size == 0 else (memoryview(data)[position:end], end)


def _both(get: Get) -> tuple[Get, Get]:
    return get, get


_GETS: dict[str, tuple[Get, Get]] = {
    **{kind: _both(_number(code)) for kind, code in NUMBERS.items()},
    "uuid": _both(_get_uuid),
    "string": (_get_string, _get_compact_string),
    "bytes": (_get_bytes, _get_compact_bytes),
    "records": (_get_records, _get_compact_records),
}
PRIMITIVES = {(kind, flexible): gets[flexible] for kind, gets in _GETS.items() for flexible in (False, True)}
