"""The forms that databases share: how values stand in JSON, as Kafka Connect's converter writes Debezium's types.

A form here writes what its database gives it wherever both mean the same: a whole number is a number of Python's or its
text. Where a database has words of its own, such as PostgreSQL's dates, its source makes the number or the text first:

    DATE._replace(write=lambda text: str(days_since_1970(text)))

Numbers are written as text at once; nothing goes through an object for JSON.
"""

from __future__ import annotations

import json.encoder
from base64 import urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from runnel.capture.tables import Form

PLACEHOLDER: Final = "__debezium_unavailable_value"
PLACEHOLDER_BYTES: Final = PLACEHOLDER.encode()

# Of a text, its JSON with quotes; what is not ASCII stays as it is.
quoted: Callable[[str], str] = json.encoder.encode_basestring


class Decimals(Enum):
    """What becomes of numbers with a fixed point: Debezium's decimal.handling.mode."""

    PRECISE = "precise"
    STRING = "string"
    DOUBLE = "double"


class Binary(Enum):
    """What becomes of bytes: Debezium's binary.handling.mode."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


# --- plain

# JSON has no numbers for these; Kafka Connect writes words.
_NO_NUMBERS: Final = {
    "nan": '"NaN"',
    "inf": '"Infinity"',
    "-inf": '"-Infinity"',
    "NaN": '"NaN"',
    "Infinity": '"Infinity"',
    "-Infinity": '"-Infinity"',
}


def floating(value: float | str) -> str:
    """A float of Python's, or a number's text."""
    text = str(value)
    return _NO_NUMBERS.get(text, text)


def base64(value: bytes) -> str:
    return f'"{b2a_base64(value, newline=False).decode()}"'


def _base64_url_safe(value: bytes) -> str:
    return f'"{urlsafe_b64encode(value).decode()}"'


def _hexadecimal(value: bytes) -> str:
    return f'"{value.hex()}"'


def _truth(value: object) -> str:
    return "true" if value else "false"


BOOLEAN: Final = Form({"type": "boolean"}, _truth, "false")
INT16: Final = Form({"type": "int16"}, str, "0")
INT32: Final = Form({"type": "int32"}, str, "0")
INT64: Final = Form({"type": "int64"}, str, "0")
FLOAT: Final = Form({"type": "float"}, floating, "0.0")
DOUBLE: Final = Form({"type": "double"}, floating, "0.0")
STRING: Final = Form({"type": "string"}, quoted, '""')
BYTES: Final = Form({"type": "bytes"}, base64, '""', base64(PLACEHOLDER_BYTES))

_BINARY: Final = {
    Binary.BYTES: BYTES,
    Binary.BASE64: Form({"type": "string"}, base64, '""', base64(PLACEHOLDER_BYTES)),
    Binary.BASE64_URL_SAFE: Form({"type": "string"}, _base64_url_safe, '""', _base64_url_safe(PLACEHOLDER_BYTES)),
    Binary.HEX: Form({"type": "string"}, _hexadecimal, '""', _hexadecimal(PLACEHOLDER_BYTES)),
}


def binary(mode: Binary) -> Form:
    """Of `bytes`."""
    return _BINARY[mode]


# --- with a name of their own


def logical(name: str, form: Form, **parameters: str) -> Form:
    """A plain form by another name, such as io.debezium.data.Json."""
    schema: dict[str, Any] = {**form.schema, "name": name, "version": 1}
    if parameters:
        schema["parameters"] = parameters
    return form._replace(schema=schema)


JSON: Final = logical("io.debezium.data.Json", STRING)
UUID: Final = logical("io.debezium.data.Uuid", STRING)
XML: Final = logical("io.debezium.data.Xml", STRING)

# Numbers, or their text: days since 1970; milliseconds, microseconds, nanoseconds since midnight or since 1970.
DATE: Final = logical("io.debezium.time.Date", INT32)
TIME: Final = logical("io.debezium.time.Time", INT32)
MICRO_TIME: Final = logical("io.debezium.time.MicroTime", INT64)
NANO_TIME: Final = logical("io.debezium.time.NanoTime", INT64)
TIMESTAMP: Final = logical("io.debezium.time.Timestamp", INT64)
MICRO_TIMESTAMP: Final = logical("io.debezium.time.MicroTimestamp", INT64)
NANO_TIMESTAMP: Final = logical("io.debezium.time.NanoTimestamp", INT64)
MICRO_DURATION: Final = logical("io.debezium.time.MicroDuration", INT64)
YEAR: Final = logical("io.debezium.time.Year", INT32)
# Texts of ISO 8601, with a zone.
ZONED_TIMESTAMP: Final = logical("io.debezium.time.ZonedTimestamp", STRING)._replace(fallback='"1970-01-01T00:00:00Z"')
ZONED_TIME: Final = logical("io.debezium.time.ZonedTime", STRING)._replace(fallback='"00:00:00Z"')
INTERVAL: Final = logical("io.debezium.time.Interval", STRING)
# Kafka Connect's own, of time.precision.mode=connect: days, and milliseconds.
CONNECT_DATE: Final = logical("org.apache.kafka.connect.data.Date", INT32)
CONNECT_TIME: Final = logical("org.apache.kafka.connect.data.Time", INT32)
CONNECT_TIMESTAMP: Final = logical("org.apache.kafka.connect.data.Timestamp", INT64)


def enumeration(allowed: Iterable[str]) -> Form:
    return logical("io.debezium.data.Enum", STRING, allowed=",".join(allowed))


def enumeration_set(allowed: Iterable[str]) -> Form:
    return logical("io.debezium.data.EnumSet", STRING, allowed=",".join(allowed))


def bits(length: int) -> Form:
    """Of `bytes`, the lowest ones first."""
    return logical("io.debezium.data.Bits", BYTES, length=str(length))


# --- numbers with a fixed point


def unscaled(value: int) -> str:
    """JSON of a whole number's bytes, as Java's BigInteger has them: the fewest that hold it and its sign."""
    length = ((value if value >= 0 else ~value).bit_length() >> 3) + 1
    return f'"{b2a_base64(value.to_bytes(length, "big", signed=True), newline=False).decode()}"'


def decimal(mode: Decimals, scale: int, precision: int | None = None) -> Form:
    """Of numbers with so many digits behind the point: `Decimal`, whole numbers, or their text."""
    if mode is Decimals.STRING:
        return STRING._replace(write=lambda value: f'"{_plain(value, scale)}"')
    if mode is Decimals.DOUBLE:
        return DOUBLE._replace(write=lambda value: floating(float(value)))

    def write(value: Decimal | int | str) -> str:
        return unscaled(_units(value, scale))

    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    schema = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": parameters}
    return Form(schema, write, unscaled(0))


def variable_decimal(mode: Decimals) -> Form:
    """Of numbers that have each its own scale: `Decimal`, or their text."""
    if mode is Decimals.STRING:
        return STRING._replace(write=lambda value: f'"{value}"')
    if mode is Decimals.DOUBLE:
        return DOUBLE._replace(write=lambda value: floating(float(value)))
    fields = [
        {"type": "int32", "optional": False, "field": "scale"},
        {"type": "bytes", "optional": False, "field": "value"},
    ]
    name = "io.debezium.data.VariableScaleDecimal"
    doc = "Variable scaled decimal"
    schema = {"type": "struct", "fields": fields, "name": name, "version": 1, "doc": doc}
    return Form(schema, _with_its_scale, _scaled(unscaled(0)), _scaled(base64(PLACEHOLDER_BYTES)))


def _scaled(value: str) -> str:
    return f'{{"scale":0,"value":{value}}}'


def _with_its_scale(value: Decimal | str) -> str:
    scale = -int(_decimal(value).as_tuple().exponent)
    return f'{{"scale":{scale},"value":{unscaled(_units(value, scale))}}}'


def _units(value: Decimal | int | str, scale: int) -> int:
    """How many of the last digit's units it is. No context of decimals has a say: all digits count."""
    sign, digits, exponent = _decimal(value).as_tuple()
    shift = int(exponent) + scale
    number = int("".join(map(str, digits)) or "0")
    whole: int = number * 10**shift if shift >= 0 else number // 10**-shift
    return -whole if sign else whole


def _plain(value: Decimal | int | str, scale: int) -> str:
    if isinstance(value, str):
        return value
    return f"{_decimal(value):.{scale}f}"


def _decimal(value: Decimal | int | str) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(value)


# --- several values in one


def array(items: Form) -> Form:
    """Of values of the items' form; None stands for null."""
    write_item = items.write

    def write(values: Iterable[Any]) -> str:
        return f"[{','.join('null' if value is None else write_item(value) for value in values)}]"

    schema = {"type": "array", "items": {**items.schema, "optional": True}}
    return Form(schema, write, "[]", f"[{items.unavailable}]")


def text_map() -> Form:
    """Of mappings from text to text or None, as PostgreSQL's hstore with hstore.handling.mode=map."""

    def write(value: Mapping[str, str | None]) -> str:
        pairs = (f"{quoted(name)}:{'null' if each is None else quoted(each)}" for name, each in value.items())
        return f"{{{','.join(pairs)}}}"

    keys, values = {"type": "string", "optional": False}, {"type": "string", "optional": True}
    placeholder = quoted(PLACEHOLDER)
    return Form({"type": "map", "keys": keys, "values": values}, write, "{}", f"{{{placeholder}:{placeholder}}}")
