"""Values in Debezium's envelope, by whoever wrote it: what changed of a row, and how.

    op          of a stream                     of a table
    c, u, r     the row after                   the row after
    d           nulls, with `_op` and `_before` its key has no row any more
    t           nulls, with `_op`               no key has a row any more
    m           left out                        left out
    no value    left out: it follows a delete   its key has no row any more

Heartbeats are left out, too. A value is read as it is, with Kafka Connect's schema beside it or without. What stands
for a large value that an update did not change is a hole in its row, never a value.

Most values are read in blocks by Arrow (`json_blocks`). Those that have a hole, no `op`, or a schema in an unusual
place are read one by one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.graph.envelope import BEFORE, ENVELOPE, OP, SOURCE_TIME, TRANSACTION, UNAVAILABLE
from runnel.graph.formats import Debezium
from runnel.pipeline.source.values.debezium_forms import ColumnForm, EnvelopeForm, RowForm, declared_forms
from runnel.pipeline.source.values.debezium_schema import MEMBERS, START, forms_by, head_of, schema_in
from runnel.pipeline.source.values.json_blocks import JsonParser
from runnel.pipeline.source.values.json_value import JsonValue, columns_of, parse_object
from runnel.pipeline.source.values.parsed import (
    NONE,
    Indices,
    Parsed,
    Rejected,
    Unfit,
    completed,
    without_tombstones,
)
from runnel.pipeline.source.values.schema import MICROSECONDS, MOST_MILLISECONDS, TIMESTAMP, check_types
from runnel.pipeline.source.values.times import Mask

PLACEHOLDER = "__debezium_unavailable_value"
MARKS = (  # what stands for it in text, and in bytes
    PLACEHOLDER,
    base64.b64encode(PLACEHOLDER.encode()).decode(),
    base64.urlsafe_b64encode(PLACEHOLDER.encode()).decode(),
    PLACEHOLDER.encode().hex(),
)
OPERATIONS = ("c", "u", "r", "d", "t", "m")
LAST_WITH_ROW, DELETE, TRUNCATE, MESSAGE = 2, 3, 4, 5  # places in OPERATIONS
UNKNOWN, REFUSED = -1, -2  # instead of one
HEARTBEAT = {"ts_ms", "ts_us", "ts_ns"}
MOST_HEADS = 16  # schemas among the values of a block; if there are more, they are read one by one
SOURCE = pa.struct([("ts_ms", pa.int64()), ("ts_us", pa.int64())])
BLOCK = pa.struct([("id", pa.string())])
NO_OP = "no change of Debezium's: field op is missing"


class _Reading(NamedTuple):
    """How values of one schema are read: in blocks, one by one, and one by one with holes."""

    parser: JsonParser
    whole: JsonValue
    holed: JsonValue
    forms: Mapping[str, ColumnForm]


class _Event(NamedTuple):
    row: list[Any]
    holes: frozenset[str]


@dataclass
class _Events:
    """Of the values of a block, by their places; `columns` are those of the envelope."""

    places: Indices
    columns: list[pa.Array]
    rejected: dict[int, str] = field(default_factory=dict)
    passed: list[int] = field(default_factory=list)
    holes: dict[int, frozenset[str]] = field(default_factory=dict)


class DebeziumParser:
    """Rows of which each column is a field of `after`, or of ENVELOPE. `keyed`: for a table."""

    def __init__(self, format: Debezium, schema: pa.Schema, asked: Sequence[str], *, keyed: bool) -> None:
        check_types(schema)
        self.schema = pa.schema([each.with_nullable(True) for each in schema])
        self._asked = list(asked)
        self._keyed = keyed
        row = [each for each in schema if each.name not in ENVELOPE]
        self._row = [each for each in row if each.name in asked] or row[:1]
        self._marks = MARKS if any(_may_have_bytes(each.type) for each in self._row) else MARKS[:1]
        self._forms = declared_forms(format, [each.name for each in row])
        self._fields = self._envelope()
        self._plain = self._reading(self._forms)
        self._by_head: dict[bytes, _Reading] = {}

    def parse(self, values: pa.Array) -> Parsed:
        values, there, tombstones = without_tombstones(values)
        return self._sorted_out(self._events(values), there, tombstones, len(values))

    # --- values into events

    def _envelope(self) -> list[pa.Field]:
        fields = [pa.field("op", pa.string()), pa.field("after", pa.struct(self._row))]
        if BEFORE in self._asked:
            fields.append(pa.field("before", self.schema.field(BEFORE).type))
        if SOURCE_TIME in self._asked:
            fields.append(pa.field("source", SOURCE))
        if TRANSACTION in self._asked:
            fields.append(pa.field("transaction", BLOCK))
        return fields

    def _reading(self, forms: Mapping[str, ColumnForm]) -> _Reading:
        dialect = EnvelopeForm(RowForm(forms))
        schema = pa.schema(self._fields)
        loose = pa.struct([each.with_nullable(True) for each in self._row])
        holed = [pa.field("after", loose) if each.name == "after" else each for each in self._fields]
        parser = JsonParser(schema, schema.names, dialect)
        return _Reading(parser, JsonValue(self._fields, dialect), JsonValue(holed, dialect), forms)

    def _events(self, values: pa.Array) -> _Events:
        holed = _having(values, self._marks)
        found = _Events(NONE, [])
        alone = [np.flatnonzero(holed)]
        pieces: list[tuple[Indices, list[pa.Array]]] = []
        for head, places in self._groups(values, np.flatnonzero(~holed)):
            if head is None:
                alone.append(places)
            elif len(places):
                pieces.append(self._in_block(values, head, places, found, alone))
        if (singles := np.sort(np.concatenate(alone))).size:
            pieces.append(self._one_by_one(values, singles, found))
        found.places, found.columns = _put_together(pieces, self._fields)
        return found

    def _groups(self, values: pa.Array, places: Indices) -> Iterator[tuple[bytes | None, Indices]]:
        """What stands before the payload, and the places of the values that begin with it; None: look at each."""
        wrapped = np.asarray(pc.starts_with(values.take(pa.array(places)), START))
        yield b"", places[~wrapped]
        left = places[wrapped]
        for _ in range(MOST_HEADS):
            if not left.size:
                return
            head = head_of(values[int(left[0])].as_py())
            if head is None:
                yield None, left[:1]
                left = left[1:]
                continue
            same = np.asarray(pc.starts_with(values.take(pa.array(left)), head))
            yield head, left[same]
            left = left[~same]
        yield None, left

    def _in_block(
        self, values: pa.Array, head: bytes, places: Indices, found: _Events, alone: list[Indices]
    ) -> tuple[Indices, list[pa.Array]]:
        part = values.take(pa.array(places))
        if head:
            part = pa.array([value[len(head) : -1] for value in part.to_pylist()], pa.binary())
        parsed = self._by(head).parser.parse(part)
        if head:  # it may only be written in another way
            alone.append(places[[each.index for each in parsed.rejected]])
        else:
            found.rejected |= {int(places[each.index]): each.reason for each in parsed.rejected}
        kept, columns = places[parsed.indices()], parsed.rows.columns
        unknown = np.asarray(columns[0].is_null())
        if unknown.any():
            alone.append(kept[unknown])
            columns, kept = [each.filter(pa.array(~unknown)) for each in columns], kept[~unknown]
        return kept, columns

    def _by(self, head: bytes) -> _Reading:
        if not head:
            return self._plain
        if head not in self._by_head:
            self._by_head[head] = self._reading(forms_by(schema_in(head), self._forms))
        return self._by_head[head]

    def _one_by_one(self, values: pa.Array, places: Indices, found: _Events) -> tuple[Indices, list[pa.Array]]:
        rows: list[list[Any]] = []
        good: list[int] = []
        for place in places.tolist():
            try:
                event = self._event(values[place].as_py())
            except Unfit as unfit:
                found.rejected[place] = str(unfit)
                continue
            if event is None:
                found.passed.append(place)
                continue
            rows.append(event.row)
            good.append(place)
            if event.holes:
                found.holes[place] = event.holes
        return np.array(good, np.int64), columns_of(rows, self._fields)

    def _event(self, value: bytes) -> _Event | None:
        """None: it is a heartbeat."""
        told, reading = parse_object(value), self._plain
        if told.keys() == MEMBERS:
            reading = self._reading(forms_by(told["schema"], self._forms))
            told = told["payload"]
            if type(told) is not dict:
                raise Unfit("no change of Debezium's: its payload is no object")
        if told.get("op") is None:
            if told and told.keys() <= HEARTBEAT:
                return None
            raise Unfit(NO_OP)
        after: Any = told.get("after")
        holes = self._holes(after, reading) if type(after) is dict else frozenset()
        if not holes:
            return _Event(reading.whole.row_of(told), holes)
        known = {name: each for name, each in after.items() if name not in holes}
        return _Event(reading.holed.row_of(told | {"after": known}), holes)

    def _holes(self, after: Mapping[str, Any], reading: _Reading) -> frozenset[str]:
        return frozenset(
            each.name
            for each in self._row
            if reading.forms[each.name].is_hole(after.get(each.name), each.type, PLACEHOLDER)
        )

    # --- events into rows

    def _sorted_out(self, events: _Events, there: Indices | None, tombstones: Indices, count: int) -> Parsed:
        original = np.arange(count) if there is None else there
        after = events.columns[1]
        kinds = np.asarray(pc.index_in(events.columns[0], value_set=pa.array(OPERATIONS)).fill_null(UNKNOWN))
        kinds = self._timed(events, kinds)
        with_row = (kinds >= 0) & (kinds <= LAST_WITH_ROW)
        is_row = with_row & np.asarray(after.is_valid())
        deleted, emptied = kinds == DELETE, kinds == TRUNCATE
        self._refuse(events, with_row & ~is_row, kinds == UNKNOWN)
        goes_on = is_row if self._keyed else is_row | deleted | emptied
        rows = self._rows(events, goes_on)
        kept = original[events.places[goes_on]]
        passed = original[np.sort(np.append(events.passed, events.places[kinds == MESSAGE]).astype(np.int64))]
        gone = np.sort(np.append(tombstones, original[events.places[deleted]]))
        return Parsed(
            rows,
            None if len(kept) == count and there is None else kept,
            [Rejected(int(original[place]), events.rejected[place]) for place in sorted(events.rejected)],
            gone if self._keyed else NONE,
            passed if self._keyed else np.sort(np.append(passed, tombstones)),
            {int(original[place]): names for place, names in events.holes.items()},
            original[events.places[emptied]] if self._keyed else NONE,
        )

    def _timed(self, events: _Events, kinds: Indices) -> Indices:
        """The kinds without those whose time in the database is asked for, and is beyond what a timestamp can be."""
        if SOURCE_TIME not in self._asked:
            return kinds
        source = next(each for each, named in zip(events.columns, self._fields, strict=True) if named.name == "source")
        milliseconds, microseconds = source.flatten()
        ends = pc.min_max(milliseconds)
        if max(ends["max"].as_py() or 0, -(ends["min"].as_py() or 0)) <= MOST_MILLISECONDS:
            return kinds
        given = np.asarray(milliseconds.fill_null(0))
        tells_rows = (kinds >= 0) & (kinds != MESSAGE)
        beyond = (
            tells_rows
            & np.asarray(microseconds.is_null())
            & ((given > MOST_MILLISECONDS) | (given < -MOST_MILLISECONDS))
        )
        for row in np.flatnonzero(beyond):
            reason = f"field source.ts_ms: {given[row]} milliseconds are more than a timestamp can have"
            events.rejected[int(events.places[row])] = reason
        return np.where(beyond, REFUSED, kinds)

    def _refuse(self, events: _Events, rowless: Mask, unknown: Mask) -> None:
        ops = events.columns[0]
        for row in np.flatnonzero(rowless):
            events.rejected[int(events.places[row])] = f"op {ops[int(row)].as_py()}, and there is no row after"
        for row in np.flatnonzero(unknown):
            given = ops[int(row)].as_py()
            events.rejected[int(events.places[row])] = f"field op: {given!r} is none of {', '.join(OPERATIONS)}"

    def _rows(self, events: _Events, goes_on: Mask) -> pa.RecordBatch:
        columns = events.columns if goes_on.all() else [each.filter(pa.array(goes_on)) for each in events.columns]
        envelope = dict(zip([each.name for each in self._fields], columns, strict=True))
        known = dict(zip([each.name for each in self._row], envelope["after"].flatten(), strict=True))
        known |= {OP: envelope["op"]}
        if BEFORE in self._asked:
            known[BEFORE] = envelope["before"]
        if SOURCE_TIME in self._asked:
            known[SOURCE_TIME] = _times(envelope["source"])
        if TRANSACTION in self._asked:
            known[TRANSACTION] = envelope["transaction"].flatten()[0]
        if UNAVAILABLE in self._asked:
            holes = [sorted(events.holes[place]) if place in events.holes else None for place in _list(events, goes_on)]
            known[UNAVAILABLE] = pa.array(holes, self.schema.field(UNAVAILABLE).type)
        count = int(goes_on.sum())
        return completed(self.schema, self._asked, [known[name] for name in self._asked], count)


def _list(events: _Events, goes_on: Mask) -> list[int]:
    places: list[int] = events.places[goes_on].tolist()
    return places


def _times(source: pa.StructArray) -> pa.Array:
    """Older ones tell the time in milliseconds alone."""
    milliseconds, microseconds = source.flatten()
    return pc.coalesce(microseconds, pc.multiply(milliseconds, pa.scalar(MICROSECONDS, pa.int64()))).view(TIMESTAMP)


def _may_have_bytes(kind: pa.DataType) -> bool:
    """Whether values of it may be written as bytes, or as an object with bytes in it that are not read."""
    if pa.types.is_binary(kind) or pa.types.is_decimal(kind) or pa.types.is_struct(kind):
        return True
    return any(_may_have_bytes(kind.field(n).type) for n in range(kind.num_fields))


def _having(values: pa.Array, texts: Sequence[str]) -> Mask:
    found: Mask = np.zeros(len(values), np.bool_)
    for text in dict.fromkeys(texts):
        found |= np.asarray(pc.match_substring(values, text))
    return found


def _put_together(
    pieces: Sequence[tuple[Indices, list[pa.Array]]], fields: Sequence[pa.Field]
) -> tuple[Indices, list[pa.Array]]:
    """In the order of their values."""
    pieces = [piece for piece in pieces if len(piece[0])]
    if not pieces:
        return NONE, [pa.array([], each.type) for each in fields]
    if len(pieces) == 1:
        return pieces[0]
    places = np.concatenate([piece[0] for piece in pieces])
    columns = [pa.concat_arrays(parts) for parts in zip(*(piece[1] for piece in pieces), strict=True)]
    order = np.argsort(places)
    return places[order], [each.take(pa.array(order)) for each in columns]
