"""How values stand in JSON, byte for byte."""

import json
from base64 import b64decode
from decimal import Decimal

import pytest

from runnel.capture.forms import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT64,
    JSON,
    STRING,
    ZONED_TIMESTAMP,
    Binary,
    Decimals,
    array,
    binary,
    bits,
    decimal,
    enumeration,
    text_map,
    unscaled,
    variable_decimal,
)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (INT64, 2**63 - 1, "9223372036854775807"),
        (INT64, "-7", "-7"),
        (DOUBLE, 1.0, "1.0"),
        (DOUBLE, "1e+20", "1e+20"),
        (DOUBLE, float("nan"), '"NaN"'),
        (DOUBLE, float("-inf"), '"-Infinity"'),
        (DOUBLE, "Infinity", '"Infinity"'),
        (BOOLEAN, 1, "true"),
        (STRING, 'a"b\\\n\x00é😀', '"a\\"b\\\\\\n\\u0000é😀"'),
        (JSON, '{"a": 1}', '"{\\"a\\": 1}"'),
        (BYTES, b"\x00\xff", '"AP8="'),
        (binary(Binary.HEX), b"\x00\xff", '"00ff"'),
        (binary(Binary.BASE64_URL_SAFE), b"\xfb\xff", '"-_8="'),
        (DATE, 19000, "19000"),
        (array(INT64), [1, None, 2], "[1,null,2]"),
        (text_map(), {"a": "1", "b": None}, '{"a":"1","b":null}'),
        (decimal(Decimals.PRECISE, 2, 10), "123.45", '"MDk="'),
        (decimal(Decimals.PRECISE, 2), Decimal("-0.01"), '"/w=="'),
        (decimal(Decimals.STRING, 2), Decimal("5"), '"5.00"'),
        (decimal(Decimals.DOUBLE, 2), "5.25", "5.25"),
        (variable_decimal(Decimals.PRECISE), "1.5", '{"scale":1,"value":"Dw=="}'),
        (variable_decimal(Decimals.PRECISE), Decimal("12E+3"), '{"scale":-3,"value":"DA=="}'),
    ],
)
def test_a_value_is_written_as_debeziums_converter_writes_it(form, value, text):
    assert form.write(value) == text
    json.loads(text)


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, 10**60, -(10**60)])
def test_the_bytes_of_a_number_are_the_fewest_that_hold_it_and_its_sign(number):
    data = b64decode(json.loads(unscaled(number)))
    assert int.from_bytes(data, "big", signed=True) == number
    shorter = data[1:]
    assert not shorter or int.from_bytes(shorter, "big", signed=True) != number


def test_all_digits_of_a_decimal_count():
    digits = "1" * 60 + "." + "2" * 40
    assert decimal(Decimals.PRECISE, 40).write(digits) == unscaled(int(digits.replace(".", "")))


def test_schemas_are_kafka_connects():
    assert decimal(Decimals.PRECISE, 2, 10).schema == {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    }
    assert bits(9).schema["parameters"] == {"length": "9"}
    assert enumeration(["a", "b"]).schema["parameters"] == {"allowed": "a,b"}
    assert ZONED_TIMESTAMP.schema == {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1}
    assert array(INT64).schema == {"type": "array", "items": {"type": "int64", "optional": True}}


def test_what_is_not_known_has_debeziums_mark():
    assert STRING.unavailable == '"__debezium_unavailable_value"'
    assert b64decode(json.loads(BYTES.unavailable)) == b"__debezium_unavailable_value"
    assert array(STRING).unavailable == '["__debezium_unavailable_value"]'
    number = json.loads(variable_decimal(Decimals.PRECISE).unavailable)
    assert (number["scale"], b64decode(number["value"])) == (0, b"__debezium_unavailable_value")
    assert json.loads(array(variable_decimal(Decimals.PRECISE)).unavailable) == [number]
