"""Which rows of two tables are the same, compared column by column.

Two nulls are the same, and so are two that are no number. Lists and maps, which Arrow cannot compare, are compared as
Python's, but only where all other columns are the same.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Mask: TypeAlias = npt.NDArray[np.bool_]


def same_rows(left: pa.Table, right: pa.Table) -> Mask:
    """For each row whether it is the same in both, which have the same columns."""
    same = np.ones(left.num_rows, np.bool_)
    pairs = [
        pair for name in left.column_names for pair in _flat(left[name].combine_chunks(), right[name].combine_chunks())
    ]
    for one, other in sorted(pairs, key=lambda pair: types.is_nested(pair[0].type)):
        places = np.flatnonzero(same)
        if not len(places):
            break
        if len(places) < len(same):
            one, other = one.take(pa.array(places)), other.take(pa.array(places))
        same[places] = _as_python(one, other) if types.is_nested(one.type) else _by_arrow(one, other)
    return same


def _flat(one: pa.Array, other: pa.Array) -> list[tuple[pa.Array, pa.Array]]:
    """A struct is as good as whether it is there, and its fields."""
    if not types.is_struct(one.type):
        return [(one, other)]
    fields = zip(one.flatten(), other.flatten(), strict=True)
    return [(one.is_valid(), other.is_valid()), *(pair for field in fields for pair in _flat(*field))]


def _by_arrow(one: pa.Array, other: pa.Array) -> Mask:
    equal = pc.equal(one, other)
    if types.is_floating(one.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    equal = pc.if_else(pc.or_(one.is_null(), other.is_null()), pc.and_(one.is_null(), other.is_null()), equal)
    return np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)


def _as_python(one: pa.Array, other: pa.Array) -> Mask:
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return np.fromiter((before == after for before, after in pairs), np.bool_, len(one))
