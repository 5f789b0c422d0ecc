"""The rows of a range of records: fetched, decoded, parsed, and told apart by their event time.

A record becomes a row, or it is put aside: rejected, when its value does not fit the schema, its time is missing or
further ahead of the batch's own time than declared, or its own time is asked for and no timestamp can have it; late,
when its time is below the watermark at the start of the batch. One on which the body raises, and which is to be left
out of the batch, is rejected as well. One that says nothing of rows, such as what follows a delete in a captured topic,
is in time. Every offset that holds a record is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.errors import OffsetsGone, UnknownTopic
from runnel.client.fetch import FetchedBatches, Fetcher
from runnel.graph.event_time import RECORD_TIME
from runnel.graph.inputs import CHANGE
from runnel.pipeline.errors import EndLost, RecordsGone
from runnel.pipeline.source import aside
from runnel.pipeline.source.left_out import read_left_out
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.spec import BEAT, Spec
from runnel.pipeline.source.values import Parsed, arrow_schema, parser
from runnel.pipeline.source.values.schema import MICROSECONDS, MOST_MILLISECONDS, TIMESTAMP

ALL = ("value", "key", "offset", "timestamp", "headers")
Indices: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
Reasons: TypeAlias = dict[int, tuple[str, str]]  # by the number of the row: the kind, and why
BY_METADATA = {"_offset": "offset", "_timestamp": "timestamp", "_key": "key", "_headers": "headers"}


class Rows:
    """Those of one range, in one batch; `given` is all of it, where it was fetched before."""

    def __init__(
        self,
        spec: Spec,
        cluster: Cluster,
        read: Range,
        moment: Moment | None,
        given: FetchedBatches | None = None,
    ) -> None:
        self._spec = spec
        self._cluster = cluster
        self._range = read
        self._moment = moment
        self._given = given
        self._parser = parser(
            spec.columns.format, arrow_schema(spec.value_fields), spec.parsed, keyed=spec.key is not None
        )
        self._metadata = spec.metadata_wanted
        self._left_out = self._to_be_left_out()
        self._decoded = self._columns_to_decode()
        self._aside: list[pa.Table] = []
        self._in_time = 0
        self._gone: list[aside.Gone] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for fetched in self._fetched() if self._given is None else [self._given]:
            yield from self._rows(fetched)
        if self._moment is not None:
            directory = aside.directory_of(self._spec.path, self._moment.batch)
            aside.write(directory, self._spec.number, self._range, self._in_time, self._aside, self._gone)

    def _to_be_left_out(self) -> dict[int, str]:
        """Offsets, and why."""
        if self._moment is None:
            return {}
        place = self._spec.number, self._range.topic, self._range.partition
        known = read_left_out(self._spec.path, self._moment.batch)
        return {each.offset: each.reason for each in known if (each.input, each.topic, each.partition) == place}

    def _fetched(self) -> Iterator[FetchedBatches]:
        """All of the range, but for what was deleted, where that is to be passed over."""
        read, position = self._range, self._range.start
        topic_id = UUID(read.topic_id) if read.topic_id else None
        fetcher = Fetcher(self._cluster)
        while position < read.end:
            try:
                for fetched in fetcher.read(read.topic, read.partition, position, read.end, topic_id=topic_id):
                    position = fetched.end
                    yield fetched
                return
            except OffsetsGone as error:
                position = self._passed_over(error)
            except UnknownTopic:
                if self._spec.reading.topics is None or read.topic in self._cluster.all_topics():
                    raise
                position = self._deleted(position)  # of a pattern, one topic may go and the others stay

    def _passed_over(self, error: OffsetsGone) -> int:
        """Where to go on."""
        query, place = self._spec.query, self._range.name
        if error.wanted >= error.start:
            raise EndLost(query, place, error.end, error.wanted) from None
        if not self._spec.skip_gone:
            raise RecordsGone(query, {place: error.gone}) from None
        position = min(error.start, self._range.end)
        self._gone.append((error.wanted, position))
        return position

    def _deleted(self, position: int) -> int:
        """Where to go on in a topic that is gone as a whole: at the end."""
        end = self._range.end
        if not self._spec.skip_gone:
            raise RecordsGone(self._spec.query, {self._range.name: (position, end)}) from None
        self._gone.append((position, end))
        return end

    def _columns_to_decode(self) -> list[str]:
        wanted = {"value", *(BY_METADATA[name] for name in self._metadata if name in BY_METADATA)}
        if self._left_out:
            wanted.add("offset")
        return [name for name in ALL if name in wanted]

    def _rows(self, fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
        batches = [each for part in fetched.parts for each in each_batch(part)]
        origin = Origin(self._range.topic, self._range.partition, fetched.start, fetched.end)
        before = 0
        refused: Reasons = {}  # by the record's place in what was fetched
        for block in decode(batches, self._decoded, origin):
            for rows, found in self._pieces(block, self._parser.parse(block.column("value"))):
                refused |= {before + index: why for index, why in found.items()}
                if rows.num_rows:
                    yield rows
            before += block.num_rows
        if refused:
            self._put_aside(batches, origin, refused)

    def _pieces(self, block: pa.RecordBatch, parsed: Parsed) -> Iterator[tuple[pa.RecordBatch, Reasons]]:
        """What becomes of a block, in its order."""
        rows, refused = self._judged(block, parsed)
        self._in_time += rows.num_rows
        yield rows, refused

    def _judged(self, block: pa.RecordBatch, parsed: Parsed) -> tuple[pa.RecordBatch, Reasons]:
        """Rows that go on, and why the others do not, by their place in the block."""
        refused = {rejected.index: (aside.REJECTED, rejected.reason) for rejected in parsed.rejected}
        refused |= {int(index): (aside.REJECTED, "no value") for index in parsed.tombstones}
        self._in_time += len(parsed.passed)
        kept = parsed.kept
        columns = dict(zip(parsed.rows.schema.names, parsed.rows.columns, strict=True))
        columns |= self._metadata_columns(block, kept)
        rows = self._arranged(columns, parsed.rows.num_rows)
        going_on, why = (None, {}) if self._spec.time is None else self._timed(rows.column(self._spec.time.column))
        if found := self._without_time(block, columns, kept):
            going_on, why = _without_rows(found, going_on, rows.num_rows), why | found
        if self._left_out:
            going_on, why = self._without(block.column("offset"), kept, going_on, why)
        if going_on is None:
            return rows, refused
        for row, reason in why.items():
            refused[int(kept[row]) if kept is not None else row] = reason
        return rows.filter(going_on), refused

    def _without(
        self, offsets: pa.Array, kept: Indices | None, going_on: pa.Array | None, why: Reasons
    ) -> tuple[pa.Array | None, Reasons]:
        """The verdicts, and those on which the body raises."""
        own = offsets if kept is None else offsets.take(pa.array(kept))
        raising = pc.is_in(own, pa.array(list(self._left_out), pa.int64()))
        found = {row: (aside.REJECTED, self._left_out[own[row].as_py()]) for row in _places(raising)}
        return (_without_rows(found, going_on, len(own)), found | why) if found else (going_on, why)

    def _without_time(self, block: pa.RecordBatch, columns: dict[str, pa.Array], kept: Indices | None) -> Reasons:
        """Those whose own time is asked for, and is beyond what a timestamp can be."""
        if RECORD_TIME not in self._metadata or not columns[RECORD_TIME].null_count:
            return {}
        given = block.column("timestamp")
        found = {}
        for row in _places(columns[RECORD_TIME].is_null()):
            time = given[row if kept is None else int(kept[row])].as_py()
            found[row] = aside.REJECTED, f"field {RECORD_TIME}: {time} milliseconds are more than a timestamp can have"
        return found

    def _timed(self, times: pa.Array) -> tuple[pa.Array | None, Reasons]:
        """Which rows go on (None: all), and why the others do not."""
        event, moment = self._spec.time, self._moment
        assert event is not None
        low = moment.watermark * MICROSECONDS if moment else 0
        high = (moment.time + event.ahead) * MICROSECONDS if moment else 2**63 - 1
        values = pc.cast(times, pa.int64())
        if not len(times):
            return None, {}
        ends = pc.min_max(values)
        if not times.null_count and ends["min"].as_py() >= low and ends["max"].as_py() <= high:
            return None, {}
        late = pc.fill_null(pc.less(values, low), False)
        ahead = pc.fill_null(pc.greater(values, high), False)
        missing = times.is_null()
        why: Reasons = {}
        for row in _places(missing):
            why[row] = aside.REJECTED, f"field {event.column}: the event time is missing"
        for row in _places(ahead):
            text = pc.cast(times[row], pa.string()).as_py()
            why[row] = aside.REJECTED, f"field {event.column}: {text} is too far ahead of the clock"
        for row in _places(late):
            why[row] = aside.LATE, str(moment.watermark if moment else 0)
        return pc.invert(pc.or_(pc.or_(late, ahead), missing)), why

    def _metadata_columns(self, block: pa.RecordBatch, kept: Indices | None) -> dict[str, pa.Array]:
        found = {name: block.column(BY_METADATA[name]) for name in self._metadata if name in BY_METADATA}
        if kept is not None:
            places = pa.array(kept)
            found = {name: column.take(places) for name, column in found.items()}
        if RECORD_TIME in found:
            found[RECORD_TIME] = _moments(found[RECORD_TIME])
        if "_headers" in found:  # Spark compares the types, and knows no header that cannot be null
            found["_headers"] = found["_headers"].cast(METADATA_ARROW["_headers"])
        return found

    def _arranged(self, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        """In the order of the schema; what the body does not use is null."""
        names = list(self._spec.all_columns)
        return pa.RecordBatch.from_arrays([self._column(name, columns, count) for name in names], names=names)

    def _column(self, name: str, columns: dict[str, pa.Array], count: int) -> pa.Array:
        if name in columns:
            return columns[name]
        if name == BEAT:
            return pa.repeat(False, count)
        if name == "_topic" and name in self._metadata:
            return self._topics(count)
        if name == "_partition" and name in self._metadata:
            return self._partitions(count)
        return pa.nulls(count, self._types[name])

    def _topics(self, count: int) -> pa.Array:
        return pa.repeat(self._range.topic, count)

    def _partitions(self, count: int) -> pa.Array:
        return pa.repeat(pa.scalar(self._range.partition, pa.int32()), count)

    @property
    def _types(self) -> dict[str, pa.DataType]:
        return column_types(self._spec)

    def _put_aside(self, batches: list[memoryview], origin: Origin, refused: dict[int, tuple[str, str]]) -> None:
        """The records as they came, decoded once more: it is rare, and keys and headers were not read before."""
        table = pa.Table.from_batches(decode(batches, ALL, origin))
        places = sorted(refused)
        found = table.take(pa.array(places, pa.int64()))
        count = len(places)
        self._aside.append(
            pa.table(
                {
                    "kind": pa.array([refused[place][0] for place in places]),
                    "reason": pa.array([refused[place][1] for place in places]),
                    "stream": pa.repeat(self._spec.topic, count),
                    "topic": pa.repeat(self._range.topic, count),
                    "partition": pa.repeat(pa.scalar(self._range.partition, pa.int32()), count),
                    **{name: found[name] for name in ("offset", "timestamp", "key", "value", "headers")},
                },
                schema=aside.SCHEMA,
            )
        )


def column_types(spec: Spec) -> dict[str, pa.DataType]:
    own = {field.name: field.type for field in arrow_schema(spec.value_fields)}
    return METADATA_ARROW | {CHANGE: pa.string()} | own | {BEAT: pa.bool_()}


METADATA_ARROW = {
    "_topic": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": TIMESTAMP,
    "_key": pa.binary(),
    "_headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def beat(spec: Spec, moment: Moment, idle: int) -> pa.RecordBatch | None:
    """A row that lets the watermark go on by the idle time that has passed; none where nothing was ever read."""
    event = spec.time
    if event is None or not moment.has_watermark:
        return None
    types = column_types(spec)
    at = (moment.watermark + event.late + idle) * MICROSECONDS
    given = {event.column: pa.array([at], TIMESTAMP), BEAT: pa.array([True])}
    names = list(spec.all_columns)
    return pa.RecordBatch.from_arrays([given.get(name, pa.nulls(1, types[name])) for name in names], names=names)


def _moments(milliseconds: pa.Array) -> pa.Array:
    """As timestamps; null for those that are none."""
    try:
        return pc.cast(pc.cast(milliseconds, pa.timestamp("ms", "UTC")), TIMESTAMP)
    except pa.ArrowInvalid:
        fits = pc.and_(
            pc.less_equal(milliseconds, MOST_MILLISECONDS), pc.greater_equal(milliseconds, -MOST_MILLISECONDS)
        )
        return _moments(pc.if_else(fits, milliseconds, pa.scalar(None, pa.int64())))


def _without_rows(rows: Iterable[int], going_on: pa.Array | None, count: int) -> pa.Array:
    """Which of `count` rows go on besides these; before, all did where there is nothing."""
    rest = np.ones(count, np.bool_)
    rest[list(rows)] = False
    return pa.array(rest) if going_on is None else pc.and_(going_on, pa.array(rest))


def _places(mask: pa.Array) -> list[int]:
    return [int(place) for place in np.flatnonzero(mask.to_numpy(zero_copy_only=False))]
