"""Values of the log's rows, by the types of their columns: how long each is, and what it means. No I/O.

A decoder takes the event's bytes and a place in them, and gives the value and the place behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from struct import Struct
from typing import Any, Final, TypeAlias
from uuid import UUID

from runnel.capture.mariadb.kinds import Kind
from runnel.capture.mariadb.table_maps import LoggedColumn, Type

Decode: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Text: TypeAlias = Callable[[bytes], str]
TextOf: TypeAlias = Callable[[int | None], Text | None]  # of a collation; None for bytes

POINT: Final = 1
_1970: Final = datetime(1970, 1, 1)
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # that so many digits take
_WHOLE: Final = {
    Type.TINY: ("tinyint", "<b", "<B"),
    Type.SHORT: ("smallint", "<h", "<H"),
    Type.LONG: ("int", "<i", "<I"),
    Type.LONGLONG: ("bigint", "<q", "<Q"),
}


class UnknownType(Exception):
    """How long a value of it is, nobody knows: nothing behind it can be read."""


def decoder_of(column: LoggedColumn, text_of: TextOf) -> tuple[Kind, Decode]:
    kind, meta = column.type, column.meta
    match kind:
        case Type.TINY | Type.SHORT | Type.LONG | Type.LONGLONG:
            name, signed, unsigned = _WHOLE[Type(kind)]
            return _whole(name, column), _fixed(unsigned if column.is_unsigned else signed)
        case Type.INT24:
            return _whole("mediumint", column), _medium(is_signed=not column.is_unsigned)
        case Type.FLOAT:
            return Kind("float"), _fixed("<f")
        case Type.DOUBLE:
            return Kind("double"), _fixed("<d")
        case Type.NEWDECIMAL:
            precision, scale = meta & 0xFF, meta >> 8
            return Kind("decimal", precision, scale), _decimal(precision, scale)
        case Type.YEAR:
            return Kind("year"), lambda data, at: (data[at] and data[at] + 1900, at + 1)
        case Type.BIT:
            size = (meta >> 8) * 8 + (meta & 0xFF)
            return Kind("bit", size), _big((size + 7) // 8)
        case Type.ENUM | Type.SET:
            return _words(column, text_of)
        case Type.GEOMETRY:
            return Kind("point" if column.shape == POINT else "geometry"), _prefixed(meta, bytes)
    return _time_decoder(kind, meta) or _text_decoder(column, text_of)


# --- numbers


def _whole(name: str, column: LoggedColumn) -> Kind:
    return Kind(f"{name} unsigned" if column.is_unsigned else name)


def _fixed(layout: str) -> Decode:
    struct = Struct(layout)
    unpack, size = struct.unpack_from, struct.size
    return lambda data, at: (unpack(data, at)[0], at + size)


def _medium(*, is_signed: bool) -> Decode:
    return lambda data, at: (int.from_bytes(data[at : at + 3], "little", signed=is_signed), at + 3)


def _big(size: int) -> Decode:
    return lambda data, at: (int.from_bytes(data[at : at + size], "big"), at + size)


def _decimal(precision: int, scale: int) -> Decode:
    """Nine digits in four bytes, what is left over in fewer: before the point at the front, behind it at the end. The
    first bit is set for a number that is not negative; of a negative one all bits are turned around.
    """
    whole, rest = divmod(precision - scale, 9)
    groups = [_DIGIT_BYTES[rest]] if rest else []
    groups += [4] * whole
    before = len(groups)
    fractions, last = divmod(scale, 9)
    groups += [4] * fractions
    widths = [9] * fractions
    if last:
        groups.append(_DIGIT_BYTES[last])
        widths.append(last)
    size = sum(groups)
    turned = (1 << 8 * size) - 1
    sign = 1 << (8 * size - 1)

    def decode(data: bytes, at: int) -> tuple[str, int]:
        end = at + size
        number = int.from_bytes(data[at:end], "big")
        is_negative = not number & sign
        content = ((number ^ turned if is_negative else number) & ~sign).to_bytes(size, "big")
        place, digits = 0, []
        for length in groups:
            digits.append(int.from_bytes(content[place : place + length], "big"))
            place += length
        text = str(int("".join(f"{each:09d}" for each in digits[:before]) or "0"))
        if scale:
            text += "." + "".join(f"{each:0{width}d}" for each, width in zip(digits[before:], widths, strict=True))
        return (f"-{text}" if is_negative else text), end

    return decode


# --- dates and times


def _time_decoder(kind: int, meta: int) -> tuple[Kind, Decode] | None:
    match kind:
        case Type.DATE | Type.NEWDATE:
            return Kind("date"), _date
        case Type.TIME2:
            return Kind("time", meta), _time(meta)
        case Type.DATETIME2:
            return Kind("datetime", meta), _datetime(meta)
        case Type.TIMESTAMP2:
            return Kind("timestamp", meta), _timestamp(meta)
        case Type.TIME:
            return Kind("time"), _old_time
        case Type.DATETIME:
            return Kind("datetime"), _old_datetime
        case Type.TIMESTAMP:
            return Kind("timestamp"), _old_timestamp
    return None


def _date(data: bytes, at: int) -> tuple[str, int]:
    found = int.from_bytes(data[at : at + 3], "little")
    return f"{found >> 9:04d}-{found >> 5 & 15:02d}-{found & 31:02d}", at + 3


def _fraction(found: int, digits: int) -> str:
    """Two digits in each byte, of which the last one may be too many."""
    return f".{found:0{digits + digits % 2}d}"[: digits + 1] if digits else ""


def _time(digits: int) -> Decode:
    bits = (digits + 1) // 2 * 8
    size, middle = 3 + bits // 8, 0x800000 << bits

    def decode(data: bytes, at: int) -> tuple[str, int]:
        found = int.from_bytes(data[at : at + size], "big") - middle
        sign, found = ("-", -found) if found < 0 else ("", found)
        whole = found >> bits
        clock = f"{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
        return f"{sign}{clock}{_fraction(found & (1 << bits) - 1, digits)}", at + size

    return decode


def _datetime(digits: int) -> Decode:
    size = (digits + 1) // 2

    def decode(data: bytes, at: int) -> tuple[str, int]:
        found = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        year, month = divmod(found >> 22, 13)
        clock = f"{found >> 12 & 31:02d}:{found >> 6 & 63:02d}:{found & 63:02d}"
        fraction = _fraction(int.from_bytes(data[at + 5 : at + 5 + size], "big"), digits)
        return f"{year:04d}-{month:02d}-{found >> 17 & 31:02d} {clock}{fraction}", at + 5 + size

    return decode


def _timestamp(digits: int) -> Decode:
    size = (digits + 1) // 2

    def decode(data: bytes, at: int) -> tuple[str, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        found = int.from_bytes(data[at + 4 : at + 4 + size], "big")
        return f"{_clock(seconds, found)}{_fraction(found, digits)}", at + 4 + size

    return decode


def _clock(seconds: int, fraction: int = 0) -> str:
    if not seconds and not fraction:
        return "0000-00-00 00:00:00"
    return (_1970 + timedelta(seconds=seconds)).isoformat(" ")


def _old_timestamp(data: bytes, at: int) -> tuple[str, int]:
    return _clock(int.from_bytes(data[at : at + 4], "little")), at + 4


def _old_time(data: bytes, at: int) -> tuple[str, int]:
    found = int.from_bytes(data[at : at + 3], "little", signed=True)
    sign, found = ("-", -found) if found < 0 else ("", found)
    return f"{sign}{found // 10_000:02d}:{found // 100 % 100:02d}:{found % 100:02d}", at + 3


def _old_datetime(data: bytes, at: int) -> tuple[str, int]:
    text = f"{int.from_bytes(data[at : at + 8], 'little'):014d}"
    return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:12]}:{text[12:]}", at + 8


# --- texts and bytes


def _text_decoder(column: LoggedColumn, text_of: TextOf) -> tuple[Kind, Decode]:
    kind, meta = column.type, column.meta
    text = text_of(column.collation)
    finish: Callable[[bytes], Any] = bytes if text is None else text
    match kind:
        case Type.BLOB:
            decode = _prefixed(meta, finish)
        case Type.BLOB_COMPRESSED:
            decode = _prefixed(meta, lambda value: finish(unpacked(value)))
        case Type.VARCHAR | Type.VAR_STRING:
            decode = _prefixed(1 if meta < 256 else 2, finish)
        case Type.VARCHAR_COMPRESSED:
            decode = _prefixed(1 if meta < 256 else 2, lambda value: finish(unpacked(value)))
        case Type.STRING if text is None:  # zeros at the end are left out
            decode = _prefixed(1 if meta < 256 else 2, lambda value: value.ljust(meta, b"\0"))
        case Type.STRING:
            decode = _prefixed(1 if meta < 256 else 2, finish)
        case _:
            raise UnknownType(f"column {column.name} is of type {kind}")
    return Kind("bytes" if text is None else "text"), decode


def _prefixed(size: int, finish: Callable[[bytes], Any]) -> Decode:
    if size == 1:

        def decode_short(data: bytes, at: int) -> tuple[Any, int]:
            end = at + 1 + data[at]
            return finish(data[at + 1 : end]), end

        return decode_short

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        return finish(data[start:end]), end

    return decode


def unpacked(value: bytes) -> bytes:
    """Of a column that is COMPRESSED. The first byte tells how: not at all, or by zlib with or without its frame."""
    if not value or value[0] >> 4 == 0:
        return value[1:]
    length = value[0] & 7
    return zlib.decompress(value[1 + length :], -zlib.MAX_WBITS if value[0] & 8 else zlib.MAX_WBITS)


def _words(column: LoggedColumn, text_of: TextOf) -> tuple[Kind, Decode]:
    text = text_of(column.collation) or _plain
    labels, size = tuple(text(each) for each in column.labels), column.meta
    if column.type == Type.ENUM:
        words = ("", *labels)  # 0 is what was no word of it

        def decode(data: bytes, at: int) -> tuple[str, int]:
            return words[int.from_bytes(data[at : at + size], "little")], at + size

        return Kind("enum", labels=labels), decode

    def decode_set(data: bytes, at: int) -> tuple[str, int]:
        found = int.from_bytes(data[at : at + size], "little")
        return ",".join(label for place, label in enumerate(labels) if found >> place & 1), at + size

    return Kind("set", labels=labels), decode_set


def _plain(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# --- names of types

_NAMES: Final = {
    Type.TINY: "TINYINT",
    Type.SHORT: "SMALLINT",
    Type.INT24: "MEDIUMINT",
    Type.LONG: "INT",
    Type.LONGLONG: "BIGINT",
    Type.NEWDECIMAL: "DECIMAL",
    Type.NEWDATE: "DATE",
    Type.TIME2: "TIME",
    Type.DATETIME2: "DATETIME",
    Type.TIMESTAMP2: "TIMESTAMP",
}
_SHAPES: Final = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION",
)  # fmt: skip
_SIZES: Final = {1: "TINY", 2: "", 3: "MEDIUM", 4: "LONG"}


def type_of(column: LoggedColumn, kind: Kind) -> str:
    """The server's own name of a type, without a length; `kind` is what the column holds."""
    is_text = kind.name != "bytes"
    match column.type:
        case Type.GEOMETRY:
            return _SHAPES[column.shape] if column.shape < len(_SHAPES) else _SHAPES[0]
        case Type.BLOB | Type.BLOB_COMPRESSED:
            return f"{_SIZES.get(column.meta, '')}{'TEXT' if is_text else 'BLOB'}"
        case Type.VARCHAR | Type.VAR_STRING | Type.VARCHAR_COMPRESSED:
            return "VARCHAR" if is_text else "VARBINARY"
        case Type.STRING:
            return "CHAR" if is_text else "BINARY"
    name = _NAMES.get(Type(column.type), Type(column.type).name)
    return f"{name} UNSIGNED" if column.is_unsigned and column.type != Type.YEAR else name


# --- what only the catalog knows

_FROM_BYTES: Final[dict[str, Callable[[bytes], str]]] = {
    "uuid": lambda value: str(UUID(bytes=value)),
    "inet4": lambda value: str(IPv4Address(value)),
    "inet6": lambda value: address(value),
}
_LENGTHS: Final = {"uuid": 16, "inet4": 4, "inet6": 16}


def address(value: bytes) -> str:
    """As the server writes it: the longest row of zeros left out, though it be one; version 4 inside keeps its dots."""
    number = int.from_bytes(value, "big")
    before = number >> 32
    if before == 0xFFFF or (before == 0 and number >> 16):
        return f"{'::ffff:' if before else '::'}{IPv4Address(number & 0xFFFFFFFF)}"
    parts = [f"{int.from_bytes(value[at : at + 2], 'big'):x}" for at in range(0, 16, 2)]
    for length in range(8, 0, -1):
        for at in range(9 - length):
            if parts[at : at + length] == ["0"] * length:
                return f"{':'.join(parts[:at])}::{':'.join(parts[at + length :])}"
    return ":".join(parts)


def refined(kind: Kind, decode: Decode, column: LoggedColumn, known: Kind | None) -> tuple[Kind, Decode]:
    """With what the catalog says of a column of that name, if that can be so."""
    if known is None:
        return kind, decode
    if known.name == "json" and kind.name == "text":
        return known, decode
    if known.name == "unknown" and kind.name in ("text", "bytes"):
        return known, decode
    if kind.name == "bytes" and column.type == Type.STRING and _LENGTHS.get(known.name) == column.meta:
        convert = _FROM_BYTES[known.name]

        def decode_text(data: bytes, at: int) -> tuple[str, int]:
            value, end = decode(data, at)
            return convert(value), end

        return known, decode_text
    return kind, decode
