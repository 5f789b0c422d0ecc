"""How Debezium writes the values of a column in JSON, where plain JSON has no way or another one.

    date        days since 1970, or text in ISO 8601
    timestamp   milliseconds, microseconds or nanoseconds since 1970, or text in ISO 8601; also of timestamp_ntz
    decimal     base64 of the unscaled number, in two's complement with the highest byte first, or an object with its
                own scale; in the other modes a number, or one in a string
    binary      base64, base64 for addresses, or hexadecimal

A number that is no whole one of its unit is cut to microseconds. All else is as in plain JSON.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.graph.formats import Debezium
from runnel.pipeline.source.values.dialect import PLAIN, Dialect, Finish, Read, Reading
from runnel.pipeline.source.values.json_value import Number, bytes_of, decimal_of, whole_number
from runnel.pipeline.source.values.times import Converted, date_of, dates_of, moment_of, moments_of

LOWEST, HIGHEST = -(2**63), 2**63 - 1
FIRST_DAY, LAST_DAY = -(2**31), 2**31 - 1
MICROSECONDS_OF_MILLISECOND = 1_000
NANOSECONDS_OF_MICROSECOND = 1_000
MOST_BYTES = 64  # of an unscaled number: more than 38 digits have
WIDTH = 16  # bytes of a decimal of Arrow's


@dataclass(frozen=True)
class ColumnForm(Dialect):
    """Of one column, and all that is inside of its values. `scale` is that of the writer; None: as declared."""

    unit: str = "us"
    is_precise: bool = True
    scale: int | None = None
    binary: str = "bytes"

    def reader(self, kind: pa.DataType) -> Read | None:
        if pa.types.is_date32(kind):
            return _day
        if pa.types.is_timestamp(kind):
            return lambda value: _moment(value, self.unit, zoned=kind.tz is not None)
        if pa.types.is_decimal128(kind) and self.is_precise:
            return lambda value: _decimal(value, kind, self.scale)
        if pa.types.is_binary(kind):
            return lambda value: self._bytes(value) if type(value) is str else None
        return None

    def reading(self, kind: pa.DataType, *, is_number: bool) -> Reading | None:
        if pa.types.is_date32(kind):
            return Reading(pa.int32(), _of_days) if is_number else Reading(pa.string(), dates_of)
        if pa.types.is_timestamp(kind):
            if is_number:
                return Reading(pa.int64(), _of_units(kind, self.unit))
            return Reading(pa.string(), lambda texts: moments_of(texts, kind))
        if pa.types.is_decimal128(kind) and self.is_precise:
            return Reading(pa.string(), _of_unscaled(kind, self.scale))
        if pa.types.is_binary(kind):
            return Reading(pa.string(), self._of_texts)
        return None

    def is_hole(self, value: Any, kind: pa.DataType, placeholder: str) -> bool:
        """Whether it stands for a value that the database did not tell."""
        if type(value) is str:
            is_bytes = pa.types.is_binary(kind) and self._bytes(value) == placeholder.encode()
            return is_bytes or value == placeholder
        if type(value) is list and pa.types.is_list(kind):
            return len(value) == 1 and self.is_hole(value[0], kind.value_type, placeholder)
        if type(value) is not dict:
            return False
        if pa.types.is_map(kind):
            return list(value) == [placeholder]
        # An object has it in its bytes: a number with a scale of its own, a point.
        mark = base64.b64encode(placeholder.encode()).decode()
        return mark in (value.get("value"), value.get("wkb"))

    def _bytes(self, text: str) -> bytes | None:
        if self.binary == "hex":
            try:
                return bytes.fromhex(text)
            except ValueError:
                return None
        return bytes_of(text.replace("-", "+").replace("_", "/") if self.binary == "base64-url-safe" else text)

    def _of_texts(self, texts: pa.Array) -> Converted:
        found = pa.array([None if text is None else self._bytes(text) for text in texts.to_pylist()], pa.binary())
        unfit = np.asarray(found.is_null()) & np.asarray(texts.is_valid())
        return found, unfit if unfit.any() else None


@dataclass(frozen=True)
class RowForm(Dialect):
    """Of the rows in an envelope: each column has its own."""

    columns: Mapping[str, ColumnForm]

    def inside(self, name: str) -> Dialect:
        return self.columns.get(name, PLAIN)


@dataclass(frozen=True)
class EnvelopeForm(Dialect):
    """Of a whole value: the rows before and after are Debezium's, what stands around them is plain."""

    row: RowForm

    def inside(self, name: str) -> Dialect:
        return self.row if name in ("before", "after") else PLAIN


def declared_forms(format: Debezium, columns: list[str]) -> dict[str, ColumnForm]:
    """As the declaration says, for records without schemas."""
    is_precise = format.decimals == "precise"
    return {name: ColumnForm(format.unit_of(name), is_precise, None, format.binary) for name in columns}


# --- dates and times


def _day(value: Any) -> int | None:
    if type(value) is str:
        return date_of(value)
    days = whole_number(value)
    return days if days is not None and FIRST_DAY <= days <= LAST_DAY else None


def _of_days(days: pa.Array) -> Converted:
    return days.view(pa.date32()), None


def _moment(value: Any, unit: str, *, zoned: bool) -> int | None:
    if type(value) is str:
        return moment_of(value, zoned=zoned)
    number = whole_number(value)
    if number is None:
        return None
    if unit == "ns":
        return number // NANOSECONDS_OF_MICROSECOND
    found = number * MICROSECONDS_OF_MILLISECOND if unit == "ms" else number
    return found if LOWEST <= found <= HIGHEST else None


def _of_units(kind: pa.DataType, unit: str) -> Finish:
    def finish(numbers: pa.Array) -> Converted:
        if unit == "us":
            return numbers.view(kind), None
        plain = np.asarray(numbers.fill_null(0))
        mask = np.asarray(numbers.is_null())
        if unit == "ns":
            return pa.array(plain // NANOSECONDS_OF_MICROSECOND, pa.int64(), mask=mask).view(kind), None
        most = HIGHEST // MICROSECONDS_OF_MILLISECOND
        unfit = (plain > most) | (plain < -most)
        times = np.where(unfit, 0, plain) * MICROSECONDS_OF_MILLISECOND
        return pa.array(times, pa.int64(), mask=mask).view(kind), unfit if unfit.any() else None

    return finish


# --- decimals


def _decimal(value: Any, kind: pa.Decimal128Type, scale: int | None) -> Decimal | None:
    own = kind.scale if scale is None else scale
    if type(value) is dict:  # a scale of its own
        own_scale, value = whole_number(value.get("scale")), value.get("value")
        if own_scale is None or type(value) is not str:
            return None
        own = own_scale
    if type(value) is Number:
        return decimal_of(value, kind.precision, kind.scale)
    units = _units(value, kind, own) if type(value) is str else None
    if units is None:
        return None
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -kind.scale))


def _units(text: str, kind: pa.Decimal128Type, scale: int) -> int | None:
    """How many of the declared last digit it is; None if that is not exact, or too many."""
    content = bytes_of(text)
    if not content or len(content) > MOST_BYTES or abs(scale) > MOST_BYTES:
        return None
    number, shift = int.from_bytes(content, signed=True), kind.scale - scale
    units, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    return units if not rest and abs(units) < 10**kind.precision else None


def _of_unscaled(kind: pa.Decimal128Type, scale: int | None) -> Finish:
    own = kind.scale if scale is None else scale

    def finish(texts: pa.Array) -> Converted:
        distinct = texts.dictionary_encode()
        units = [_units(text, kind, own) for text in distinct.dictionary.to_pylist()]
        content = b"".join((each or 0).to_bytes(WIDTH, sys.byteorder, signed=True) for each in units)
        numbers = pa.Array.from_buffers(kind, len(units), [None, pa.py_buffer(content)])
        wrong = np.array([each is None for each in units], np.bool_)
        found = numbers.take(distinct.indices)
        if not wrong.any():
            return found, None
        places = np.asarray(distinct.indices.fill_null(0))
        return found, wrong[places] & np.asarray(texts.is_valid())

    return finish
