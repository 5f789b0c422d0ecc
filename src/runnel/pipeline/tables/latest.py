"""The latest row of each key of one partition, and what records change about it. Knows neither files nor a broker.

    latest = Latest.empty(schema).apply(records)
    latest, changes = latest.change(records)

It is a base and what has changed since: the newest rows of the changed keys, and which keys are gone. So a few records
cost little, however many rows there are; when much has changed, a new base is made. A row is known by the bytes of its
record's key, because a record that deletes has nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runnel.pipeline.tables.equality import same_rows

KEY = "_runnel_key"  # what a row is known by
GONE = "_runnel_gone"  # true where a record, or a change since the base, deletes the row of its key
PLACE = "_runnel_place"  # the row of the base that a change since stands for; null if there is none
RECORD = "_runnel_record"  # of a change: the place of its record among those that were given
CHANGE = "_change"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_before", "update_after", "delete"
KINDS = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)  # no array of Arrow's: the first one imports pandas

FEW = 10_000  # so many changes a base bears, or a quarter of its rows
SHARE = 4
NONE = -1

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def records_schema(rows: pa.Schema) -> pa.Schema:
    """Of records: their keys, which of them delete, and the columns of the rows, which may all be null."""
    return pa.schema([(KEY, pa.binary()), (GONE, pa.bool_()), *_nullable(rows)])


@dataclass(frozen=True)
class Latest:
    """`base_name` is what the base is kept under; None: it is in no file. Never changed: `apply` makes another one."""

    schema: pa.Schema
    base: pa.Table
    delta: pa.Table
    base_name: int | None = None

    @classmethod
    def empty(cls, schema: pa.Schema) -> Latest:
        return cls(schema, base_schema(schema).empty_table(), delta_schema(schema).empty_table())

    @property
    def num_rows(self) -> int:
        gone = pc.sum(self.delta[GONE]).as_py() or 0
        return int(self.base.num_rows - len(self._replaced) + self.delta.num_rows - gone)

    def rows(self) -> pa.Table:
        """All of them, with their keys."""
        there = self.delta.filter(pc.invert(self.delta[GONE])).select(self.base.column_names)
        return pa.concat_tables([self._standing(), there])

    def keys(self) -> pa.ChunkedArray:
        """Of all rows."""
        slim = replace(self, base=self.base.select([KEY]), delta=self.delta.select([KEY, GONE, PLACE]))
        return slim.rows()[KEY]

    def find(self, keys: pa.Array) -> tuple[pa.Table, Mask]:
        """The rows of some keys, each of which is there once: nulls where there is none, and whether there is one."""
        names, count = self.schema.names, len(keys)
        in_delta = _found(pc.index_in(keys, value_set=self.delta[KEY].combine_chunks()))
        in_base = np.full(count, NONE, np.int64)
        met = _found(pc.index_in(self.base[KEY], value_set=keys))  # with a few keys in hand: the base is longer
        rows = np.flatnonzero(met != NONE)
        in_base[met[rows]] = rows
        gone = np.asarray(self.delta[GONE].take(_indices(in_delta)).fill_null(False), np.bool_)
        changed = in_delta != NONE
        there = np.where(changed, ~gone, in_base != NONE)
        both = [self.base.select(names).take(_indices(in_base)), self.delta.select(names).take(_indices(in_delta))]
        places = np.where(there, np.arange(count) + np.where(changed, count, 0), NONE)
        return pa.concat_tables(both).take(_indices(places)), there

    def apply(self, records: pa.Table) -> Latest:
        """Records in their order, with the columns of `records_schema`."""
        return self._after(_Block(self, records))

    def change(self, records: pa.Table) -> tuple[Latest, pa.Table]:
        """The same, and every change in its order: `_change`, RECORD, and the row as it was or is.

        A record that changes nothing, the same row again or the end of an unknown key, gives no change.
        """
        block = _Block(self, records)
        return self._after(block), block.changes()

    def _after(self, block: _Block) -> Latest:
        if not block.records.num_rows:
            return self
        there = pc.is_in(self.delta[KEY], value_set=block.keys)
        delta = pa.concat_tables([self.delta.filter(pc.invert(there)), block.news()])
        after = replace(self, delta=delta)
        if delta.num_rows <= max(FEW, self.base.num_rows // SHARE):
            return after
        return Latest(self.schema, after.rows().combine_chunks(), delta.slice(0, 0))

    @cached_property
    def _replaced(self) -> Numbers:
        return np.asarray(self.delta[PLACE].drop_null().to_numpy(), np.int64)

    def _standing(self) -> pa.Table:
        """The rows of the base that nothing was said of since."""
        if not len(self._replaced):
            return self.base
        stands = np.ones(self.base.num_rows, np.bool_)
        stands[self._replaced] = False
        return self.base.filter(pa.array(stands))


class _Block:
    """Some records, and what was known of their keys before."""

    def __init__(self, latest: Latest, records: pa.Table) -> None:
        self.records = records
        encoded = pc.dictionary_encode(records[KEY].combine_chunks())
        self._latest = latest
        self._codes = np.asarray(encoded.indices.to_numpy(), np.int64)
        self.keys = encoded.dictionary
        self._in_delta = _found(pc.index_in(self.keys, value_set=latest.delta[KEY].combine_chunks()))
        self._in_base = self._places()

    def _places(self) -> Numbers:
        """Of each key its row of the base, which may be replaced by now. The base is the longer one by far: it is gone
        through with a few keys in hand, not the other way round.
        """
        places = np.full(len(self.keys), NONE, np.int64)
        in_delta = np.flatnonzero(self._in_delta != NONE)
        if len(in_delta):
            places[in_delta] = _found(self._latest.delta[PLACE].take(pa.array(self._in_delta[in_delta])))
        others = np.flatnonzero(self._in_delta == NONE)
        if len(others) and self._latest.base.num_rows:
            met = _found(pc.index_in(self._latest.base[KEY], value_set=self.keys.take(pa.array(others))))
            rows = np.flatnonzero(met != NONE)
            places[others[met[rows]]] = rows
        return places

    def news(self) -> pa.Table:
        """What is to be said of these keys from now on: the last record of each. Nothing of one that came and went."""
        _, backwards = np.unique(self._codes[::-1], return_index=True)
        last = np.sort(len(self._codes) - 1 - backwards)
        places = self._in_base[self._codes[last]]
        found = self.records.take(pa.array(last))
        found = found.add_column(2, PLACE, pa.array(places, pa.int64(), mask=places == NONE))
        return found.filter(pc.invert(pc.and_(found[GONE], found[PLACE].is_null())))

    def changes(self) -> pa.Table:
        pool, before = self._before()
        count = len(self._codes)
        after = np.arange(count) + pool.num_rows - count
        gone = np.asarray(self.records[GONE].to_numpy(), np.bool_)
        was, is_there = before != NONE, ~gone
        differs = was & is_there
        both = np.flatnonzero(differs)
        differs[both] = ~same_rows(pool.take(pa.array(before[both])), pool.take(pa.array(after[both])))
        # Two slots for each record: the row as it was, and as it is.
        used = np.column_stack((differs | (was & gone), differs | (is_there & ~was))).ravel()
        rows = np.column_stack((before, after)).ravel()[used]
        kinds = np.column_stack((np.where(gone, 3, 1), np.where(was, 2, 0))).ravel()[used]
        found = pool.take(pa.array(rows))
        found = found.add_column(0, RECORD, pa.array(np.repeat(np.arange(count), 2)[used]))
        return found.add_column(0, CHANGE, pa.array(KINDS).take(pa.array(kinds)))

    def _before(self) -> tuple[pa.Table, Numbers]:
        """The rows that were known and those of the records; and for each record where the one before it stands."""
        names = self._latest.schema.names
        of_base = self._latest.base.select(names).take(_indices(self._in_base))
        of_delta = self._latest.delta.select(names).take(_indices(self._in_delta))
        pool = pa.concat_tables([of_base, of_delta, self.records.select(names)])
        kept = np.where(self._in_base != NONE, np.arange(len(self.keys)), NONE)
        changed = self._in_delta != NONE
        if changed.any():
            gone = np.asarray(self._latest.delta[GONE].take(_indices(self._in_delta)).fill_null(False), np.bool_)
            kept[changed] = len(self.keys) + np.flatnonzero(changed)
            kept[gone] = NONE
        return pool, self._linked(kept, 2 * len(self.keys))

    def _linked(self, kept: Numbers, first: int) -> Numbers:
        """For each record the one of its key before it, or what was kept of the key; records begin at `first`."""
        before = np.empty(len(self._codes), np.int64)
        order = np.argsort(self._codes, kind="stable")
        codes = self._codes[order]
        is_first = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
        before[order[is_first]] = kept[codes[is_first]]
        follows = np.flatnonzero(~is_first)
        gone = np.asarray(self.records[GONE].to_numpy(), np.bool_)
        earlier = order[follows - 1]
        before[order[follows]] = np.where(gone[earlier], NONE, earlier + first)
        return before


def base_schema(rows: pa.Schema) -> pa.Schema:
    return pa.schema([(KEY, pa.binary()), *_nullable(rows)])


def delta_schema(rows: pa.Schema) -> pa.Schema:
    return pa.schema([(KEY, pa.binary()), (GONE, pa.bool_()), (PLACE, pa.int64()), *_nullable(rows)])


def _nullable(rows: pa.Schema) -> list[pa.Field]:
    return [field.with_nullable(True) for field in rows]


def _found(places: pa.Array | pa.ChunkedArray) -> Numbers:
    return np.asarray(pc.fill_null(places.cast(pa.int64()), NONE).to_numpy(), np.int64)


def _indices(places: Numbers) -> pa.Array:
    """For `take`, which gives a null where there is none."""
    return pa.array(places, pa.int64(), mask=places == NONE)
