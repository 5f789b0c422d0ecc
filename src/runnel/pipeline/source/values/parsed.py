"""What became of the values of a block: rows, rejected values, tombstones and such, each value in one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Indices: TypeAlias = npt.NDArray[np.int64]
NONE: Indices = np.empty(0, np.int64)


class Rejected(NamedTuple):
    """A value that fits no row: its place in the block, and why, in a sentence for people."""

    index: int  # type: ignore[assignment]  # it hides tuple.index
    reason: str


class Unfit(ValueError):
    """A single value cannot become a row; its message is the reason."""


@dataclass(frozen=True)
class Parsed:
    """`kept` has the place in the block of each row, or is None when row i is value i throughout. `passed` are values
    that say nothing of rows, and are left out. `holes` are the columns that a value does not tell, by its place: they
    are null in its row. `emptying` are values that take all rows of a table away.
    """

    rows: pa.RecordBatch
    kept: Indices | None
    rejected: Sequence[Rejected]
    tombstones: Indices
    passed: Indices = field(default_factory=lambda: NONE)
    holes: Mapping[int, frozenset[str]] = field(default_factory=dict)
    emptying: Indices = field(default_factory=lambda: NONE)

    def indices(self) -> Indices:
        """The same as `kept`, always as numbers."""
        return np.arange(self.rows.num_rows) if self.kept is None else self.kept


class Parser(Protocol):
    """Turns the values of records into rows of `schema`."""

    schema: pa.Schema

    def parse(self, values: pa.Array) -> Parsed:
        """`values` are binary; null stands for a tombstone."""


def with_unread(schema: pa.Schema, asked: Collection[str]) -> pa.Schema:
    """The schema of the rows: a column that was not asked for is all nulls, so it must be allowed to be."""
    return pa.schema([field if field.name in asked else field.with_nullable(True) for field in schema])


def completed(schema: pa.Schema, read: Sequence[str], columns: Iterable[pa.Array], count: int) -> pa.RecordBatch:
    """The columns that were read, and nulls for the others."""
    known = dict(zip(read, columns, strict=True))
    arrays = [known[field.name] if field.name in known else pa.nulls(count, field.type) for field in schema]
    if not arrays:
        raise ValueError("a schema needs a column")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def without_tombstones(values: pa.Array) -> tuple[pa.Array, Indices | None, Indices]:
    """The values that are there, their places (None: all are there), and the places of those that are not."""
    if not values.null_count:
        return values, None, NONE
    there = np.asarray(values.is_valid())
    return values.drop_null(), np.flatnonzero(there), np.flatnonzero(~there)
