"""How Arrow's JSON reader is asked for a column, and how what it reads becomes the column.

Booleans, numbers, decimals and strings it reads itself. Dates, times and bytes are read as text and converted for the
whole column; a time that is written as a number is read as one, which the paths in `epochs` say. Maps it cannot read.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.pipeline.source.values.dialect import PLAIN, Dialect, Reading
from runnel.pipeline.source.values.json_value import LATEST_SECOND, bytes_of
from runnel.pipeline.source.values.schema import TIMESTAMP
from runnel.pipeline.source.values.times import MICROSECONDS, Converted, dates_of, either, moments_of


def has_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(has_maps(kind.field(number).type) for number in range(kind.num_fields))


def reading(field: pa.Field, epochs: Collection[str], path: str = "", dialect: Dialect = PLAIN) -> Reading:
    """`path` is how Arrow's messages name what stands around the field."""
    inner = dialect.inside(field.name)
    return _with_null_check(field, _of_type(field.type, epochs, f"{path}/{field.name}", inner))


def _with_null_check(field: pa.Field, read: Reading) -> Reading:
    if field.nullable:
        return read

    def finish(array: pa.Array) -> Converted:
        column, unfit = read.finish(array) if read.finish else (array, None)
        return column, either(unfit, np.asarray(array.is_null())) if array.null_count else unfit

    return Reading(read.type, finish)


def _of_type(kind: pa.DataType, epochs: Collection[str], path: str, dialect: Dialect) -> Reading:
    if pa.types.is_struct(kind):
        return _struct(kind, [reading(field, epochs, path, dialect) for field in kind])
    if pa.types.is_list(kind):
        element = _with_null_check(kind.value_field, _of_type(kind.value_type, epochs, f"{path}/[]", dialect))
        return _list(kind, element)
    if (own := dialect.reading(kind, is_number=path in epochs)) is not None:
        return own
    if pa.types.is_date32(kind):
        return Reading(pa.string(), dates_of)
    if pa.types.is_timestamp(kind):
        if path in epochs and kind == TIMESTAMP:
            return Reading(pa.int64(), _from_seconds)
        return Reading(pa.string(), lambda texts: moments_of(texts, kind))
    if pa.types.is_binary(kind):
        return Reading(pa.string(), _from_base64)
    return Reading(kind, _within_precision if pa.types.is_decimal128(kind) else None)


def _from_seconds(seconds: pa.Array) -> Converted:
    plain = np.asarray(seconds.fill_null(0))
    unfit = (plain > LATEST_SECOND) | (plain < -LATEST_SECOND)
    times = pc.multiply(seconds, pa.scalar(MICROSECONDS, pa.int64())).view(TIMESTAMP)
    return times, unfit if unfit.any() else None


def _within_precision(decimals: pa.Array) -> Converted:
    """Arrow takes 12345.6 for a decimal(6,2): it counts the digits before it appends the zero."""
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid:
        limit = 10**decimals.type.precision
        plain = decimals.view(pa.binary(16)).to_pylist()
        unfit = [each is not None and abs(int.from_bytes(each, sys.byteorder, signed=True)) >= limit for each in plain]
        return decimals, np.array(unfit)
    return decimals, None


def _from_base64(texts: pa.Array) -> Converted:
    decoded = [None if text is None else bytes_of(text) for text in texts.to_pylist()]
    column = pa.array(decoded, pa.binary())
    unfit = np.asarray(column.is_null()) & np.asarray(texts.is_valid())
    return column, unfit if unfit.any() else None


def _struct(kind: pa.StructType, fields: Sequence[Reading]) -> Reading:
    read_type = pa.struct([(field.name, read.type) for field, read in zip(kind, fields, strict=True)])
    if all(read.finish is None for read in fields):
        return Reading(read_type)

    def finish(array: pa.StructArray) -> Converted:
        there = np.asarray(array.is_valid())
        columns, unfit = [], None
        for number, read in enumerate(fields):
            column, wrong = read.finish(array.field(number)) if read.finish else (array.field(number), None)
            columns.append(column)
            unfit = either(unfit, wrong)
        mask = pa.array(~there) if array.null_count else None
        built = pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
        return built, unfit if unfit is None else unfit & there

    return Reading(read_type, finish)


def _list(kind: pa.ListType, element: Reading) -> Reading:
    read_type = pa.list_(pa.field(kind.value_field.name, element.type))
    if element.finish is None:
        return Reading(read_type)
    convert = element.finish

    def finish(array: pa.ListArray) -> Converted:
        values, wrong = convert(array.flatten())
        mask = array.is_null() if array.null_count else None
        built = pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
        if wrong is None:
            return built, None
        unfit = np.zeros(len(array), np.bool_)
        unfit[np.asarray(pc.list_parent_indices(array))[wrong]] = True
        return built, unfit

    return Reading(read_type, finish)
