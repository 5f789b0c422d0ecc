"""One JSON value into one row: the rules, in plain Python. `json_blocks` is fast, and must agree with this.

    boolean               true, false
    tinyint to bigint     a whole number in its range: 1.0 and "1" are none
    float, double         a number; NaN, Infinity and -Infinity as Python writes them, or in a string, as Spark does
    decimal(p,s)          a number, or one in a string, that fits without rounding
    string                a string, and nothing else
    binary                a string in base64
    date, timestamp       a string in ISO 8601 (`times`); for a timestamp, which is in UTC, a whole number is seconds
                          since 1970, as in Spark's from_json; timestamp_ntz takes no zone and no number
    array, struct, map    an array, an object, an object; null inside of them is null

The whole value must be one JSON object in UTF-8, alone but for white space and a byte order mark. A field that is
missing is null, one that no column has is not looked at, and of a field that comes twice the last one counts. Numbers
stay text until their column says what they are, so nothing is rounded twice.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from runnel.pipeline.source.values.dialect import PLAIN, Dialect
from runnel.pipeline.source.values.parsed import Unfit
from runnel.pipeline.source.values.plain import text_of
from runnel.pipeline.source.values.schema import name_of
from runnel.pipeline.source.values.times import MICROSECONDS, date_of, moment_of

DEEPEST = 500  # what Python's own parser reads whatever called it
SHOWN = 40  # characters of a value in a reason
BYTE_ORDER_MARK = "\ufeff"
BLANK = " \t\r\n"
WHOLE = re.compile(r"-?\d+", re.ASCII)
DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*"', re.DOTALL)

Convert: TypeAlias = Callable[[Any, str], Any]  # a parsed value and its path; Unfit if it is none of the type


class Number(str):
    """A number as it is written, which tells it from a string."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)


class JsonValue:
    """Reads single values into the fields of a schema."""

    def __init__(self, fields: Iterable[pa.Field], dialect: Dialect = PLAIN) -> None:
        self._fields = [(field.name, _of_field(field, dialect.inside(field.name))) for field in fields]

    def row(self, value: bytes) -> list[Any]:
        """What `pa.array` takes for each field; Unfit with the reason if the value is no row."""
        return self.row_of(parse_object(value))

    def row_of(self, parsed: dict[str, Any]) -> list[Any]:
        """The same, of an object that `parse_object` has read."""
        return [convert(parsed.get(name, MISSING), name) for name, convert in self._fields]


MISSING = object()


def parse_object(value: bytes) -> dict[str, Any]:
    text = text_of(value).removeprefix(BYTE_ORDER_MARK).strip(BLANK)
    if not text:
        raise Unfit("empty value")
    if len(text) > 2 * DEEPEST and depth_of(text) > DEEPEST:
        raise Unfit(f"nested deeper than {DEEPEST} levels")
    try:
        parsed = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise Unfit(f"more than one JSON value: another at character {error.pos + 1}") from None
        said = error.msg.removesuffix(" at")  # some of Python's words end with it already
        raise Unfit(f"not JSON: {said[:1].lower()}{said[1:]} at character {error.pos + 1}") from None
    except RecursionError:  # the caller stands too deep itself
        raise Unfit(f"nested deeper than {DEEPEST} levels") from None
    if "\\u" in text and HALF_PAIR.search(text) and _has_half_pair(parsed):
        raise Unfit("not JSON: half of a surrogate pair, which is no character")
    if type(parsed) is not dict:
        raise Unfit(f"not a JSON object: {_shown(parsed)}")
    return parsed


def depth_of(text: str) -> int:
    """How deep arrays and objects stand in each other; at least that deep if the text is no JSON."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return 0
    depth = deepest = 0
    for match in BRACKET_OR_STRING.finditer(text):
        if match[0] in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif match[0] in "}]":
            depth -= 1
    return deepest


def _has_half_pair(parsed: Any) -> bool:
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _shown(value: Any) -> str:
    match value:
        case Number():
            text = str(value)
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _of_field(field: pa.Field, dialect: Dialect) -> Convert:
    convert = _of_type(field.type, dialect)

    def of_field(value: Any, path: str) -> Any:
        if value is None or value is MISSING:
            if field.nullable:
                return None
            raise Unfit(f"field {path} is {'null' if value is None else 'missing'}")
        return convert(value, path)

    return of_field


def _of_type(kind: pa.DataType, dialect: Dialect) -> Convert:
    if pa.types.is_struct(kind):
        return _struct(kind, dialect)
    if pa.types.is_list(kind):
        return _list(kind, dialect)
    if pa.types.is_map(kind):
        return _map(kind, dialect)
    return _scalar(kind, dialect.reader(kind) or _reader(kind))


def _struct(kind: pa.StructType, dialect: Dialect) -> Convert:
    fields = [(field.name, _of_field(field, dialect.inside(field.name))) for field in kind]

    def struct(value: Any, path: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise Unfit(f"field {path}: {_shown(value)} is not an object")
        return {name: convert(value.get(name, MISSING), f"{path}.{name}") for name, convert in fields}

    return struct


def _list(kind: pa.ListType, dialect: Dialect) -> Convert:
    convert = _of_field(kind.value_field, dialect)

    def elements(value: Any, path: str) -> list[Any]:
        if type(value) is not list:
            raise Unfit(f"field {path}: {_shown(value)} is not an array")
        return [convert(each, f"{path}[]") for each in value]

    return elements


def _map(kind: pa.MapType, dialect: Dialect) -> Convert:
    convert = _of_field(kind.item_field, dialect)

    def entries(value: Any, path: str) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise Unfit(f"field {path}: {_shown(value)} is not an object")
        return [(key, convert(each, f"{path}[{json.dumps(key)}]")) for key, each in value.items()]

    return entries


def _scalar(kind: pa.DataType, read: Callable[[Any], Any]) -> Convert:
    name = name_of(kind)
    article = "an" if name.startswith("int") else "a"

    def scalar(value: Any, path: str) -> Any:
        result = read(value)
        if result is None:
            raise Unfit(f"field {path}: {_shown(value)} is not {article} {name}")
        return result

    return scalar


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """Turns a parsed value into one of the type, or into None."""
    if pa.types.is_boolean(kind):
        return lambda value: value if type(value) is bool else None
    if pa.types.is_integer(kind):
        return _whole_of(kind.bit_width)
    if pa.types.is_floating(kind):
        return lambda value: _float(value, kind)
    if pa.types.is_decimal128(kind):
        return lambda value: decimal_of(value, kind.precision, kind.scale)
    if pa.types.is_string(kind):
        return lambda value: value if type(value) is str else None
    if pa.types.is_binary(kind):
        return lambda value: bytes_of(value) if type(value) is str else None
    if pa.types.is_date32(kind):
        return lambda value: date_of(value) if type(value) is str else None
    return lambda value: _moment(value, zoned=kind.tz is not None)


def _whole_of(bits: int) -> Callable[[Any], int | None]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def whole(value: Any) -> int | None:
        # Twenty characters hold any number of 64 bits, and keep a number of a million digits from being worked out.
        if type(value) is not Number or len(value) > 20 or not WHOLE.fullmatch(value):
            return None
        number = int(value)
        return number if low <= number <= high else None

    return whole


whole_number = _whole_of(64)


def _float(value: Any, kind: pa.DataType) -> Any:
    if type(value) is not Number:
        return float(value) if type(value) is str and value in NO_NUMBERS else None
    if kind == pa.float64():
        return float(value)
    return pa.scalar(str(value)).cast(kind).as_py()  # float(value) would be rounded a second time


def decimal_of(value: Any, precision: int, scale: int) -> Decimal | None:
    if type(value) not in (Number, str) or not DECIMAL.fullmatch(value):
        return None
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text or not isinstance(exponent, int):
        return Decimal(0)
    shift = exponent + scale
    whole = text.rstrip("0") if shift < 0 else text
    missing = shift + len(text) - len(whole)
    if missing < 0 or len(whole) + missing > precision:
        return None
    return Decimal((sign, tuple(map(int, whole + "0" * missing)), -scale))


def bytes_of(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _moment(value: Any, *, zoned: bool) -> int | None:
    if type(value) is str:
        return moment_of(value, zoned=zoned)
    seconds = whole_number(value) if zoned else None
    return seconds * MICROSECONDS if seconds is not None and fits_microseconds(seconds) else None


LATEST_SECOND = (2**63 - 1) // MICROSECONDS


def fits_microseconds(seconds: int) -> bool:
    return -LATEST_SECOND <= seconds <= LATEST_SECOND


def columns_of(rows: Sequence[Sequence[Any]], fields: Sequence[pa.Field]) -> list[pa.Array]:
    """What `JsonValue.row` has read, as columns."""
    return [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(fields)]
