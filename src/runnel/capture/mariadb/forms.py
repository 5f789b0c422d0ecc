"""How each kind of column stands in JSON: what Debezium's connector for MariaDB makes of it.

A date that is none, such as 0000-00-00, is null, or the beginning of 1970 where the column cannot be null. In the forms
of Kafka Connect so is a TIME that is no time of a day: null, or midnight. A large BIGINT UNSIGNED is the number that it
is; Java's readers make of it what Debezium does. A type that is not known is captured as its text, and that is said
once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Any, Final, NamedTuple

from runnel.capture import forms
from runnel.capture.forms import Binary, Decimals, quoted
from runnel.capture.mariadb import times
from runnel.capture.mariadb.kinds import Kind
from runnel.capture.tables import Form

LOGGER: Final = logging.getLogger(__name__)
MICROS_OF_MILLI: Final = 1000
MILLI_DIGITS: Final = 3  # of a second, that milliseconds have
_SINGLE: Final = Struct("<f")
_COORDINATES: Final = {1: Struct("<dd").unpack_from, 0: Struct(">dd").unpack_from}
_POINT_AT: Final = 5  # the byte order and the shape's number are before it


class Times(Enum):
    """What becomes of dates and times: Debezium's time.precision.mode. Its `adaptive` is refused for MariaDB, whose
    TIME may be longer than a day.
    """

    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"


class Modes(NamedTuple):
    decimals: Decimals = Decimals.PRECISE
    binary: Binary = Binary.BYTES
    times: Times = Times.ADAPTIVE_TIME_MICROSECONDS


class Forms:
    """The forms of columns. What is not known is said once."""

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._said: set[str] = set()

    def form(self, column: str, kind: Kind, *, optional: bool) -> Form:
        if kind.name == "unknown" and column not in self._said:
            self._said.add(column)
            LOGGER.warning("the type of %s is not known: its values are captured as text", column)
        return form_of(kind, self._modes, optional=optional)


def form_of(kind: Kind, modes: Modes, *, optional: bool) -> Form:
    known = PLAIN.get(kind.name)
    if known is not None:
        return known
    match kind.name:
        case "decimal":
            return _decimal(modes.decimals, kind)
        case "bytes":
            return forms.binary(modes.binary)
        case "bit":
            return _bits(kind.size)
        case "enum":
            return forms.enumeration(label.replace(",", "\\,") for label in kind.labels)
        case "set":
            return forms.enumeration_set(kind.labels)
        case "timestamp":
            return _zoned(optional)
        case "date" | "time" | "datetime":
            return (_connect_time if modes.times is Times.CONNECT else _time)(kind, optional)
    return UNKNOWN


# --- numbers


def single(value: float) -> str:
    """The shortest text that reads as the same number of four bytes."""
    for digits in (6, 7, 8):
        text = f"{value:.{digits}g}"
        if _SINGLE.unpack(_SINGLE.pack(float(text)))[0] == value:
            break
    else:
        text = f"{value:.9g}"
    return f"{text}.0" if text.removeprefix("-").isdigit() else text


def _decimal(mode: Decimals, kind: Kind) -> Form:
    form = forms.decimal(mode, kind.scale, kind.size)
    if mode is not Decimals.STRING:
        return form
    return form._replace(write=lambda text: f'"{_without_zeros(text)}"')


def _without_zeros(text: str) -> str:
    """With a digit before the point, and no others that say nothing: ZEROFILL shows them, and the log does not."""
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text)
    found = digits.lstrip("0")
    return f"{sign}{found if found[:1].isdigit() else f'0{found}'}"


def _bits(size: int) -> Form:
    """The lowest byte first, all bytes of the column."""
    if size == 1:
        return forms.BOOLEAN
    length = (size + 7) // 8
    return forms.bits(size)._replace(write=lambda value: forms.base64(value.to_bytes(length, "little")))


# --- dates and times


def _time(kind: Kind, optional: bool) -> Form:
    match kind.name:
        case "date":
            return _unless_none(forms.DATE, times.days, optional)
        case "time":
            return forms.MICRO_TIME._replace(write=lambda text: str(times.micros_of_time(text)))
        case _ if kind.size <= MILLI_DIGITS:
            return _unless_none(forms.TIMESTAMP, _millis, optional)
    return _unless_none(forms.MICRO_TIMESTAMP, times.micros, optional)


def _connect_time(kind: Kind, optional: bool) -> Form:
    match kind.name:
        case "date":
            return _unless_none(forms.CONNECT_DATE, times.days, optional)
        case "time":
            return _unless_none(forms.CONNECT_TIME, _millis_of_day, optional)
    return _unless_none(forms.CONNECT_TIMESTAMP, _millis, optional)


def _millis(text: str) -> int | None:
    found = times.micros(text)
    return None if found is None else found // MICROS_OF_MILLI


def _millis_of_day(text: str) -> int | None:
    found = times.micros_of_time(text)
    return found // MICROS_OF_MILLI if 0 <= found < times.DAY else None


def _unless_none(form: Form, number: Callable[[str], int | None], optional: bool) -> Form:
    missing = "null" if optional else form.fallback

    def write(text: str) -> str:
        found = number(text)
        return missing if found is None else str(found)

    return form._replace(write=write)


def _zoned(optional: bool) -> Form:
    missing = "null" if optional else forms.ZONED_TIMESTAMP.fallback

    def write(text: str) -> str:
        if times.days(text[:10]) is None:
            return missing
        return f'"{text[:10]}T{text[11:]}Z"'

    return forms.ZONED_TIMESTAMP._replace(write=write)


# --- shapes


def _geometry(value: bytes) -> str:
    return f'{{"wkb":{forms.base64(value[4:])},"srid":{_system(value)}}}'


def _point(value: bytes) -> str:
    x, y = _COORDINATES[value[4]](value, 4 + _POINT_AT)
    return f'{{"x":{x!r},"y":{y!r},"wkb":{forms.base64(value[4:])},"srid":{_system(value)}}}'


def _system(value: bytes) -> str:
    """Four bytes say which system of coordinates it is; none is null."""
    found = int.from_bytes(value[:4], "little")
    return str(found) if found else "null"


def _struct(name: str, doc: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "name": f"io.debezium.data.geometry.{name}", "version": 1, "doc": doc}


def _field(name: str, kind: str, *, optional: bool) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


_SYSTEM: Final = _field("srid", "int32", optional=True)
_POINT_FIELDS: Final = [
    _field("x", "double", optional=False),
    _field("y", "double", optional=False),
    _field("wkb", "bytes", optional=True),
    _SYSTEM,
]
_EMPTY: Final = bytes.fromhex("00000000 01 07000000 00000000")  # an empty collection
_ORIGIN: Final = bytes.fromhex("00000000 01 01000000") + bytes(16)
GEOMETRY: Final = Form(
    _struct("Geometry", "Geometry", [_field("wkb", "bytes", optional=False), _SYSTEM]),
    _geometry,
    _geometry(_EMPTY),
    "null",
)
POINT: Final = Form(_struct("Point", "Geometry (POINT)", _POINT_FIELDS), _point, _point(_ORIGIN), "null")


def _as_text(value: Any) -> str:
    return quoted(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


UNKNOWN: Final = forms.STRING._replace(write=_as_text)
PLAIN: Final = {
    "tinyint": forms.INT16,
    "tinyint unsigned": forms.INT16,
    "smallint": forms.INT16,
    "smallint unsigned": forms.INT32,
    "mediumint": forms.INT32,
    "mediumint unsigned": forms.INT32,
    "int": forms.INT32,
    "int unsigned": forms.INT64,
    "bigint": forms.INT64,
    "bigint unsigned": forms.INT64,
    "float": forms.FLOAT._replace(write=single),
    "double": forms.DOUBLE._replace(write=repr),
    "year": forms.YEAR,
    "text": forms.STRING,
    "json": forms.JSON,
    "uuid": forms.UUID,
    "inet4": forms.STRING,
    "inet6": forms.STRING,
    "geometry": GEOMETRY,
    "point": POINT,
}
