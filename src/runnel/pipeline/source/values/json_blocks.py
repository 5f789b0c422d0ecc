"""JSON values into rows, a block at a time, by Arrow's JSON reader. What comes out is what `json_value` says.

Values that the reader must not see together with others (`json_doubts`) are read one by one. So are those in which it
finds something wrong: `json_value` then has the row or the reason. To find them a block is tried, sifted by what its
values look like (`json_shape`), and cut in pieces at the place of the mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from runnel.pipeline.source.values.dialect import PLAIN, Dialect
from runnel.pipeline.source.values.json_columns import has_maps, reading
from runnel.pipeline.source.values.json_doubts import bounds_of, doubtful, joined, without_braces
from runnel.pipeline.source.values.json_shape import shape_of
from runnel.pipeline.source.values.json_value import JsonValue, columns_of, parse_object
from runnel.pipeline.source.values.parsed import (
    NONE,
    Indices,
    Parsed,
    Rejected,
    Unfit,
    completed,
    with_unread,
    without_tombstones,
)
from runnel.pipeline.source.values.schema import check_types
from runnel.pipeline.source.values.times import Mask, either

BLOCK_ROWS = 32 * 1024
BLOCK_BYTES = 8 * 1024 * 1024
FEW = 4  # values are read one by one rather than in a block
MOST_SIFTED = 0.25  # of the values of a block that do not match; if there are more, the pattern is no help
EXAMPLES = 3
MOST_OF_A_SHAPE = 512 * 1024  # characters of a pattern: RE2 refuses what takes too much memory, after a long while
ROW = re.compile(r"in row (\d+)")
CHANGED = re.compile(r"Column\((.*)\) changed from (string|number) to (string|number)")


class _Piece(NamedTuple):
    """Some rows, and the places of their values."""

    places: Indices
    columns: list[pa.Array]


class _Disagreement(Exception):
    """Arrow does not read a block as one row for each value; `row` is where, if it says so."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.row = row


class JsonParser:
    """Objects, of which each column is a field."""

    def __init__(self, schema: pa.Schema, asked: Sequence[str], dialect: Dialect = PLAIN) -> None:
        check_types(schema)
        self.schema = with_unread(schema, asked)
        self._fields = [schema.field(name) for name in asked]
        self._value = JsonValue(self._fields, dialect)
        self._in_blocks = not any(has_maps(field.type) for field in self._fields)
        self._reader = _Reader(self._fields, dialect)
        self._shape: str | None = None
        self._broken = False  # the last block had to be sifted, so the next one most likely has to be

    def parse(self, values: pa.Array) -> Parsed:
        values, there, tombstones = without_tombstones(values)
        pieces: list[_Piece] = []
        alone: list[Indices] = []
        if self._in_blocks:
            for start, end in _blocks(values):
                self._read_block(values.slice(start, end - start), np.arange(start, end), pieces, alone)
        else:
            alone.append(np.arange(len(values)))
        rejected: list[Rejected] = []
        singles = np.sort(np.concatenate(alone)) if alone else NONE
        if singles.size:
            pieces.append(self._one_by_one(values, singles, rejected))
        places, columns = self._put_together(pieces)
        if len(places) == len(values):
            kept = there
        else:
            kept = places if there is None else there[places]
        if there is not None:
            rejected = [Rejected(int(there[index]), reason) for index, reason in rejected]
        rows = completed(self.schema, [field.name for field in self._fields], columns, len(places))
        return Parsed(rows, kept, rejected, tombstones)

    def _read_block(self, values: pa.Array, places: Indices, pieces: list[_Piece], alone: list[Indices]) -> None:
        """Adds rows to `pieces`, and to `alone` the places of what has to be read one by one."""
        values, places = _sifted(without_braces(values), values, places, alone)
        sifted = False
        if self._broken and self._shape is not None and (odd := _unmatched(values, self._shape)) is not None:
            values, places = _sifted(odd, values, places, alone)
            sifted = True
        self._broken = sifted
        waiting = [(values, places, sifted)]
        while waiting:
            values, places, sifted = waiting.pop()
            if len(values) <= FEW:
                alone.append(places)
                continue
            text = joined(values)
            if (doubts := doubtful(values, text)) is not None:
                values, places = _sifted(doubts, values, places, alone)
                waiting.append((values, places, sifted))
                continue
            try:
                columns, unfit = self._reader.read(text, len(values))
            except _Disagreement as disagreement:
                self._broken = True
                if not sifted and (odd := self._unlike_the_others(values)) is not None:
                    values, places = _sifted(odd, values, places, alone)
                    waiting.append((values, places, True))
                    continue
                first, second = _cut(disagreement.row, len(values))
                waiting.append((values.slice(second), places[second:], True))
                waiting.append((values.slice(0, first), places[:first], True))
                alone.append(places[first:second])
                continue
            if unfit is not None:
                alone.append(places[unfit])
                fits = pa.array(~unfit)
                columns, places = [column.filter(fits) for column in columns], places[~unfit]
            pieces.append(_Piece(places, columns))

    def _unlike_the_others(self, values: pa.Array) -> Mask | None:
        """The values that do not look like a good one; None if that are none or too many."""
        if self._shape is not None and (odd := _unmatched(values, self._shape)) is not None:
            return odd
        for number in np.linspace(0, len(values) - 1, EXAMPLES).astype(int):
            example = self._example(values[int(number)].as_py())
            if example is not None and (odd := _unmatched(values, example)) is not None:
                self._shape = example
                return odd
        return None

    def _example(self, value: bytes) -> str | None:
        try:
            self._value.row(value)
            shape = shape_of(parse_object(value), self._fields)
        except Unfit:
            return None
        return shape if len(shape) <= MOST_OF_A_SHAPE else None  # an example of very many fields

    def _one_by_one(self, values: pa.Array, places: Indices, rejected: list[Rejected]) -> _Piece:
        rows: list[list[Any]] = []
        good: list[int] = []
        for place, value in zip(places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True):
            try:
                rows.append(self._value.row(value))
                good.append(place)
            except Unfit as unfit:
                rejected.append(Rejected(place, str(unfit)))
        return _Piece(np.array(good, np.int64), columns_of(rows, self._fields))

    def _put_together(self, pieces: Sequence[_Piece]) -> tuple[Indices, list[pa.Array]]:
        """The rows of all pieces in the order of their values."""
        pieces = [piece for piece in pieces if len(piece.places)]
        if len(pieces) == 1:
            return pieces[0].places, pieces[0].columns
        if not pieces:
            return NONE, [pa.array([], field.type) for field in self._fields]
        places = np.concatenate([piece.places for piece in pieces])
        columns = [pa.concat_arrays(parts) for parts in zip(*(piece.columns for piece in pieces), strict=True)]
        if (places[1:] > places[:-1]).all():
            return places, columns
        order = np.argsort(places)
        return places[order], [column.take(pa.array(order)) for column in columns]


class _Reader:
    """Arrow's JSON reader for some columns. It learns whether times are text or numbers."""

    def __init__(self, fields: Sequence[pa.Field], dialect: Dialect) -> None:
        self._fields = fields
        self._dialect = dialect
        self._epochs: frozenset[str] = frozenset()
        self._prepare()

    def _prepare(self) -> None:
        self._readings = [reading(field, self._epochs, dialect=self._dialect) for field in self._fields]
        names = [field.name for field in self._fields]
        schema = pa.schema(list(zip(names, [each.type for each in self._readings], strict=True)))
        self._options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def read(self, text: bytes, count: int) -> tuple[list[pa.Array], Mask | None]:
        """The columns, and which rows do not fit them after all; _Disagreement if there are not `count` rows."""
        table = self._read_as_it_is(text)
        if table.num_rows != count:
            raise _Disagreement(f"{table.num_rows} rows from {count} values")
        columns: list[pa.Array] = []
        unfit: Mask | None = None
        for number, each in enumerate(self._readings):
            column = table.column(number).combine_chunks()
            wrong = None
            if each.finish is not None:
                column, wrong = each.finish(column)
            columns.append(column)
            unfit = either(unfit, wrong)
        return columns, unfit

    def _read_as_it_is(self, text: bytes) -> pa.Table:
        """With what is to be learnt of each column on the way, once."""
        learnt: set[str] = set()
        while True:
            try:
                return self._read(text)
            except _Disagreement as disagreement:
                match = CHANGED.search(str(disagreement))
                if match is None or match[1] in learnt or not self._learn(match[1]):
                    raise
                learnt.add(match[1])

    def _read(self, text: bytes) -> pa.Table:
        options = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            return arrow_json.read_json(pa.BufferReader(text), read_options=options, parse_options=self._options)
        except pa.ArrowInvalid as error:
            row = ROW.search(str(error))
            raise _Disagreement(str(error), int(row[1]) if row else None) from error

    def _learn(self, path: str) -> bool:
        """Whether a column of times is written in the other way than was thought."""
        before = self._epochs
        self._epochs = before ^ {path}
        readings, self._readings = self._readings, []
        self._prepare()
        if [each.type for each in readings] == [each.type for each in self._readings]:
            self._epochs = before
            return False
        return True


def _blocks(values: pa.Array) -> list[tuple[int, int]]:
    """From where to where each block goes: so many rows and bytes, or a single value."""
    _, bounds = bounds_of(values)
    blocks: list[tuple[int, int]] = []
    start = 0
    while start < len(values):
        fits = int(np.searchsorted(bounds, bounds[start] + BLOCK_BYTES, side="right")) - 1
        end = min(max(fits, start + 1), start + BLOCK_ROWS, len(values))
        blocks.append((start, end))
        start = end
    return blocks


def _sifted(mask: Mask, values: pa.Array, places: Indices, alone: list[Indices]) -> tuple[pa.Array, Indices]:
    if not mask.any():
        return values, places
    alone.append(places[mask])
    return values.filter(pa.array(~mask)), places[~mask]


def _unmatched(values: pa.Array, shape: str) -> Mask | None:
    """None also where the pattern is too much for RE2: how much it takes is not known before."""
    try:
        odd: Mask = ~np.asarray(pc.match_substring_regex(values, shape))
    except pa.ArrowInvalid:
        return None
    return odd if 0 < odd.sum() <= MOST_SIFTED * len(values) else None


def _cut(row: int | None, count: int) -> tuple[int, int]:
    """The first piece ends at the first number, the second one starts at the second; what is between is read alone."""
    if count == 1:
        return 0, 1
    if row is None or row >= count:
        return count // 2, count // 2
    return row, row + 1
