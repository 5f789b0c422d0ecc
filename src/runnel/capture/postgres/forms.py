"""How each of PostgreSQL's types stands in JSON: what Debezium's connector for PostgreSQL makes of it.

Values come as the server's text. Most forms are a plain rewriting of it; a whole number is its own JSON. A type that is
not known is captured as its text, and that is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from struct import pack
from typing import Any, Final, NamedTuple

from runnel.capture import forms
from runnel.capture.forms import Binary, Decimals, quoted
from runnel.capture.postgres import texts, times
from runnel.capture.postgres.catalog import CatalogType
from runnel.capture.tables import Form

LOGGER: Final = logging.getLogger(__name__)
BASE: Final = "b"  # the kind of a type that is made of no others
DEFAULT_PRECISION: Final = 6
MICROS_OF_MILLI: Final = 1000
PYTHON_DIGITS: Final = 640  # of a text that `int` reads whatever the interpreter is set to
LONGEST: Final = 2**63 - 1  # PostgreSQL's last 29 years have more microseconds than this
# What Debezium writes for numbers that are none.
NO_NUMBERS: Final = {
    Decimals.STRING: {"NaN": '"NAN"', "Infinity": '"POSITIVE_INFINITY"', "-Infinity": '"NEGATIVE_INFINITY"'},
    Decimals.DOUBLE: {"NaN": '"NaN"', "Infinity": '"Infinity"', "-Infinity": '"-Infinity"'},
}


class Times(Enum):
    """What becomes of dates and times: Debezium's time.precision.mode."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"


class Intervals(Enum):
    """Debezium's interval.handling.mode."""

    NUMERIC = "numeric"
    STRING = "string"


class Hstores(Enum):
    """Debezium's hstore.handling.mode."""

    JSON = "json"
    MAP = "map"


class Modes(NamedTuple):
    decimals: Decimals = Decimals.PRECISE
    binary: Binary = Binary.BYTES
    times: Times = Times.ADAPTIVE
    intervals: Intervals = Intervals.NUMERIC
    hstores: Hstores = Hstores.JSON


class Forms:
    """The forms of columns by type and modifier. `look_up` asks the catalog."""

    def __init__(
        self, modes: Modes, look_up: Callable[[int], CatalogType | None], said: set[str] | None = None
    ) -> None:
        """`said` are the types that it was said of that they are not known."""
        self._modes = modes
        self._look_up = look_up
        self._known: dict[tuple[int, int], Form] = {}
        self._names: dict[int, str] = {}
        self._said: set[str] = set() if said is None else said

    def form(self, type_oid: int, modifier: int) -> Form:
        known = self._known.get((type_oid, modifier))
        if known is None:
            known = self._known[type_oid, modifier] = self._made(type_oid, modifier)
        return known

    def type_name(self, type_oid: int) -> str:
        """Of a type that has a form: as the catalog calls it."""
        return self._names.get(type_oid, "")

    def _made(self, type_oid: int, modifier: int) -> Form:
        found = self._look_up(type_oid)
        if found is None:
            return self._unknown(f"number {type_oid}, which is gone from the catalog")
        self._names[type_oid] = found.name
        if found.kind == "d":
            return self.form(found.base, found.modifier if modifier == -1 else modifier)
        if found.kind == "e":
            return forms.enumeration(found.labels)
        if found.element:
            return _array(self.form(found.element, modifier), found.delimiter)
        if found.kind in "rm":
            return forms.STRING
        known = found.name if found.kind == BASE else ""  # a row type of one's own may be called as one of these
        maker = MAKERS.get(known)
        if maker is not None:
            return maker(self._modes, modifier)
        if known in TEXTS:
            return forms.STRING
        return self._unknown(f'"{found.name}"')

    def _unknown(self, name: str) -> Form:
        if name not in self._said:
            self._said.add(name)
            LOGGER.warning("type %s is not known: its values are captured as text", name)
        return forms.STRING


# --- numbers


def _floating(text: str) -> str:
    """With a point, so that a reader without a schema sees no whole number."""
    return f"{text}.0" if text.removeprefix("-").isdigit() else forms.floating(text)


def _fixed(modes: Modes, modifier: int) -> Form:
    if modifier == -1:
        return _variable(modes)
    precision = (modifier - 4) >> 16 & 0xFFFF
    scale = ((modifier - 4) & 0x7FF ^ 0x400) - 0x400  # eleven bits with a sign
    return _decimal(modes, scale, precision)


def _decimal(modes: Modes, scale: int, precision: int | None) -> Form:
    form = forms.decimal(modes.decimals, scale, precision)
    if modes.decimals is not Decimals.PRECISE:
        return form._replace(write=_not_precise(modes, form.write))
    unscaled, other = forms.unscaled, form.write

    def write(text: str) -> str:
        """The server writes all digits of the scale."""
        if text == "NaN":
            return "null"  # as Debezium does: there are no bytes for it
        return unscaled(int(text.replace(".", ""))) if scale >= 0 else other(text)

    return form._replace(write=write)


def _variable(modes: Modes) -> Form:
    form = forms.variable_decimal(modes.decimals)
    if modes.decimals is not Decimals.PRECISE:
        return form._replace(write=_not_precise(modes, form.write))

    def write(text: str) -> str:
        whole, _, fraction = text.partition(".")
        fraction = fraction.rstrip("0")
        if whole[-1] in "Ny":
            return "null"  # NaN and the infinities
        return f'{{"scale":{len(fraction)},"value":{forms.unscaled(_whole(whole + fraction))}}}'

    return form._replace(write=write)


def _whole(digits: str) -> int:
    """The server has more digits than Python takes at once."""
    return int(digits) if len(digits) <= PYTHON_DIGITS else int(Decimal(digits))


def _not_precise(modes: Modes, write: Callable[[Any], str]) -> Callable[[str], str]:
    words = NO_NUMBERS[modes.decimals]
    return lambda text: words.get(text) or write(text)


def _money(modes: Modes, _: int) -> Form:
    """Written by the locale C: $1,234.56 and -$1,234.56."""
    form = forms.decimal(modes.decimals, 2)
    write = form.write
    return form._replace(write=lambda text: write(text.replace("$", "").replace(",", "")))


# --- dates and times


def _date(modes: Modes, _: int) -> Form:
    form = forms.CONNECT_DATE if modes.times is Times.CONNECT else forms.DATE
    return form._replace(write=lambda text: str(times.days(text)))


def _precision(modifier: int) -> int:
    return DEFAULT_PRECISION if modifier == -1 else modifier


def _time(modes: Modes, modifier: int) -> Form:
    if modes.times is Times.CONNECT:
        return forms.CONNECT_TIME._replace(write=_millis_of_day)
    if modes.times is Times.ADAPTIVE and _precision(modifier) <= 3:
        return forms.TIME._replace(write=_millis_of_day)
    return forms.MICRO_TIME._replace(write=lambda text: str(times.micros_of_day(text)))


def _millis_of_day(text: str) -> str:
    return str(times.micros_of_day(text) // MICROS_OF_MILLI)


def _timestamp(modes: Modes, modifier: int) -> Form:
    if modes.times is Times.CONNECT or _precision(modifier) <= 3:
        form = forms.CONNECT_TIMESTAMP if modes.times is Times.CONNECT else forms.TIMESTAMP
        return form._replace(write=lambda text: str(times.micros(text) // MICROS_OF_MILLI))
    return forms.MICRO_TIMESTAMP._replace(write=lambda text: str(min(times.micros(text), LONGEST)))


def _zoned_timestamp(_: Modes, modifier: int) -> Form:
    digits = _precision(modifier)
    usual = len("2024-02-29 12:34:56.+00") + digits

    def write(text: str) -> str:
        if digits and len(text) == usual and text[10] == " " and text.endswith("+00"):
            return f'"{text[:10]}T{text[11:-3]}Z"'
        if not text.endswith("+00"):
            return _far_zoned(text, digits)
        return f'"{text[:10]}T{_padded(text[11:-3], digits)}Z"' if text[10] == " " else _far_zoned(text, digits)

    return forms.ZONED_TIMESTAMP._replace(write=write)


def _far_zoned(text: str, digits: int) -> str:
    """An infinity, a year before Christ, or one of more than four digits."""
    if text in ("infinity", "-infinity"):
        return quoted(text)
    day, time, *era = text.split(" ")
    year, rest = day.split("-", 1)
    year = f"{1 - int(year):05d}" if era else f"+{year}"
    return f'"{year}-{rest}T{_padded(time.removesuffix("+00"), digits)}Z"'


def _padded(time: str, digits: int) -> str:
    if not digits:
        return time
    whole, _, fraction = time.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}"


def _zoned_time(_: Modes, __: int) -> Form:
    return forms.ZONED_TIME._replace(write=_zoned_time_text)


def _zoned_time_text(text: str) -> str:
    place = max(text.rfind("+"), text.rfind("-"))
    micros = (times.micros_of_day(text[:place]) - times.zone_seconds(text[place:]) * 1_000_000) % times.DAY
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f'"{clock}{digits}Z"'


def _interval(modes: Modes, _: int) -> Form:
    if modes.intervals is Intervals.NUMERIC:
        return forms.MICRO_DURATION._replace(write=lambda text: str(times.interval_micros(text)))
    return forms.INTERVAL._replace(write=_iso_interval, fallback='"P0Y0M0DT0H0M0S"')


def _iso_interval(text: str) -> str:
    if text in times.INFINITE_INTERVALS:
        return quoted(text)
    years, months, days, hours, minutes, seconds = times.interval_parts(text)
    whole, _, fraction = seconds.partition(".")
    fraction = fraction.rstrip("0")
    shown = f"{int(whole)}" if int(whole) or not whole.startswith("-") or not fraction else "-0"
    return f'"P{years}Y{months}M{days}DT{hours}H{minutes}M{shown}{f".{fraction}" if fraction else ""}S"'


# --- bytes, and what is several values


def _bytes(modes: Modes, _: int) -> Form:
    form = forms.binary(modes.binary)
    write, of_hex = form.write, bytes.fromhex
    return form._replace(write=lambda text: write(of_hex(text[2:])))


def _bits(_: Modes, modifier: int) -> Form:
    if modifier == 1:
        return forms.BOOLEAN._replace(write={"1": "true", "0": "false"}.__getitem__)
    return _varying_bits(_, modifier)


def _varying_bits(_: Modes, modifier: int) -> Form:
    """The lowest byte first, and only as many as the highest bit needs."""
    form = forms.bits(modifier if modifier != -1 else 2_147_483_647)

    def write(text: str) -> str:
        number = int(text, 2) if text else 0
        return forms.base64(number.to_bytes((number.bit_length() + 7) // 8, "little"))

    return form._replace(write=write)


def _hstore(modes: Modes, _: int) -> Form:
    form = forms.text_map()
    write = form.write
    if modes.hstores is Hstores.MAP:
        return form._replace(write=lambda text: write(texts.hstore(text)))
    return forms.JSON._replace(write=lambda text: quoted(write(texts.hstore(text))), fallback='"{}"')


def _point_json(text: str) -> str:
    x, y = texts.point(text)
    return _point_of(_floating(x), _floating(y), pack("<BIdd", 1, 1, float(x), float(y)))


def _point_of(x: str, y: str, shape: bytes) -> str:
    return f'{{"x":{x},"y":{y},"wkb":{forms.base64(shape)},"srid":null}}'


_POINT_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"type": "double", "optional": False, "field": "x"},
        {"type": "double", "optional": False, "field": "y"},
        {"type": "bytes", "optional": True, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ],
    "name": "io.debezium.data.geometry.Point",
    "version": 1,
    "doc": "Geometry (POINT)",
}
POINT: Final = Form(_POINT_SCHEMA, _point_json, _point_json("(0,0)"), _point_of("0.0", "0.0", forms.PLACEHOLDER_BYTES))


def _array(items: Form, delimiter: str) -> Form:
    form = forms.array(items)
    write_item = items.write

    def write(values: list[Any]) -> str:
        return f"[{','.join(_item(value) for value in values)}]"

    def _item(value: Any) -> str:
        if value is None:
            return "null"
        return write(value) if isinstance(value, list) else write_item(value)

    return form._replace(write=lambda text: write(texts.array(text, delimiter)))


def _always(form: Form) -> Callable[[Modes, int], Form]:
    return lambda _modes, _modifier: form


MAKERS: Final[dict[str, Callable[[Modes, int], Form]]] = {
    "bool": _always(forms.BOOLEAN._replace(write={"t": "true", "f": "false"}.__getitem__)),
    "int2": _always(forms.INT16),
    "int4": _always(forms.INT32),
    "int8": _always(forms.INT64),
    "oid": _always(forms.INT64),
    "float4": _always(forms.FLOAT._replace(write=_floating)),
    "float8": _always(forms.DOUBLE._replace(write=_floating)),
    "numeric": _fixed,
    "money": _money,
    "bytea": _bytes,
    "uuid": _always(forms.UUID),
    "json": _always(forms.JSON),
    "jsonb": _always(forms.JSON),
    "xml": _always(forms.XML),
    "date": _date,
    "time": _time,
    "timetz": _zoned_time,
    "timestamp": _timestamp,
    "timestamptz": _zoned_timestamp,
    "interval": _interval,
    "bit": _bits,
    "varbit": _varying_bits,
    "hstore": _hstore,
    "point": _always(POINT),
    "tsvector": _always(forms.logical("io.debezium.data.Tsvector", forms.STRING)),
    "ltree": _always(forms.logical("io.debezium.data.Ltree", forms.STRING)),
}
# What has no form of its own. Debezium has none for some of these either, and gives the bytes of the text.
_PLAIN: Final = """
bpchar char varchar text name citext isbn inet cidr macaddr macaddr8 line lseg box path polygon circle tsquery jsonpath
pg_lsn xid xid8 cid tid txid_snapshot pg_snapshot int2vector oidvector refcursor regclass regtype regproc regprocedure
regoper regoperator regnamespace regrole regconfig regdictionary regcollation aclitem
"""
TEXTS: Final = frozenset(_PLAIN.split())
