"""A captured table that is emptied in between is what a dictionary would hold, however its records are cut into
batches and blocks, and whatever is started again or lost on the way.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel import App, Debezium
from runnel.client import columns, positions
from runnel.client.fetch import FetchedBatches
from runnel.pipeline.source import aside
from runnel.pipeline.source import rows as source_rows
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables import keyed_rows, latest
from runnel.pipeline.tables.changes import Changes
from runnel.pipeline.tables.static import version_of
from runnel.pipeline.tables.topic_table import TopicFeed
from runnel.records import Record, build_batch

HOLE = "__debezium_unavailable_value"
EMPTY, MESSAGE, BROKEN, TOMBSTONE = "t", "m", "broken", "none"

ids = st.integers(1, 4)
texts = st.sampled_from(["a", "b", None, HOLE])
events = st.one_of(
    st.tuples(st.sampled_from("ruc"), ids, texts, texts),
    st.tuples(st.sampled_from([EMPTY, "d", TOMBSTONE, MESSAGE, BROKEN]), ids, st.none(), st.none()),
)
batches = st.lists(events, min_size=1, max_size=5)  # of a producer: never cut
fetches = st.lists(batches, min_size=1, max_size=3)
readings = st.lists(st.tuples(st.lists(fetches, min_size=1, max_size=2), st.booleans()), min_size=1, max_size=4)


def record(event):
    op, id, name, about = event
    key = None if op == EMPTY else b"%d" % id
    row = {"id": id, "name": name, "about": about} if op in "ruc" else None
    value = {BROKEN: b"{", TOMBSTONE: None}.get(op, json.dumps({"op": op, "before": None, "after": row}).encode())
    return Record(value, key)


class Log:
    """A partition in memory, which stands for the Fetcher of a cluster."""

    def __init__(self):
        self.fetched = []
        self.end = 0

    def add(self, fetch):
        start, parts = self.end, []
        for batch in fetch:
            parts.append(memoryview(build_batch([record(each) for each in batch], base_offset=self.end)))
            self.end += len(batch)
        self.fetched.append(FetchedBatches(tuple(parts), start, self.end))

    def read(self, topic, partition, start, end, *, topic_id=None):
        yield from (each for each in self.fetched if start <= each.start and each.end <= end)


class Model:
    """The plain dictionary, what was told of it, and which records were rejected."""

    def __init__(self):
        self.rows = {}
        self.changes = []
        self.rejected = []

    def take(self, offset, event):
        op, id, name, about = event
        if op == EMPTY:
            self.changes += [("delete", offset, key, *row) for key, row in self.rows.items()]
            self.rows = {}
            return
        if op == MESSAGE:
            return
        before = self.rows.get(id)
        if op == BROKEN or (op in "ruc" and HOLE in (name, about) and before is None):
            self.rejected.append(offset)
            return
        self.rows.pop(id, None)
        if op in "ruc":
            self.rows[id] = tuple(now if now != HOLE else before[n] for n, now in enumerate((name, about)))
        self._tell(offset, id, before, self.rows.get(id))

    def _tell(self, offset, id, before, after):
        if before != after and before is not None:
            self.changes.append(("delete" if after is None else "update_before", offset, id, *before))
        if before != after and after is not None:
            self.changes.append(("insert" if before is None else "update_after", offset, id, *after))


class Bench:
    """Both ways to read the table, batch by batch."""

    def __init__(self, directory, log):
        self.log = log
        self.model = Model()
        self.specs = [self._spec(str(directory), number, changes=bool(number)) for number in range(2)]

    def _spec(self, directory, number, *, changes):
        table = App("bench").table("customers", key="id", schema=Debezium("id int, name string, about string"))
        return Spec(
            query="bench",
            number=number,
            bootstrap="nowhere:1",
            topic="customers",
            columns=table.columns,
            reading=table.reading,
            directory=directory,
            key=table.key,
            changes=changes,
            metadata=True,
        )

    def take(self, reading):
        """What is told of these records, and which of them are rejected."""
        start = self.log.end
        told, rejected = len(self.model.changes), len(self.model.rejected)
        for fetch in reading:
            for event in (event for each in fetch for event in each):
                self.model.take(start, event)
                start += 1
            self.log.add(fetch)
        return self.model.changes[told:], self.model.rejected[rejected:]

    def lose(self):
        """The files that a batch begins with."""
        for path in self.specs[0].path.rglob("*.arrow"):
            path.unlink()

    def rows(self, batch):
        static = self.specs[0]
        feed = TopicFeed(static, None, 0, "", 1)
        found = version_of(feed, static.path / "tables" / "0", batch).rows().to_pylist()
        return {row["id"]: (row["name"], row["about"]) for row in found}

    def changes(self, read, batch):
        found = list(Changes(self.specs[1], None, read, Moment(batch, 0, 0)))
        rows = pa.Table.from_batches(found).to_pylist() if found else []
        return [(row["_change"], row["_offset"], row["id"], row["name"], row["about"]) for row in rows]

    def account(self, number, read, batch):
        """How many were in time, and the offsets of those that were rejected."""
        found = aside.read_aside(aside.directory_of(self.specs[number].path, batch), number, read)
        return found.in_time, found.rows["offset"].to_pylist()


def in_order(changes):
    """What one record took away has no order in itself."""
    offsets = [offset for _, offset, *_ in changes]
    assert offsets == sorted(offsets)
    return sorted(changes, key=lambda each: (each[1], latest.KINDS.index(each[0]), each[2]))


histories = given(history=readings, in_a_block=st.sampled_from([1, 4 * 1024 * 1024]), deletes=st.integers(1, 3))


@settings(max_examples=15)
@histories
def test_any_history_cut_anywhere_is_what_a_dictionary_would_hold(tmp_path_factory, history, in_a_block, deletes):
    check(tmp_path_factory.mktemp("tables"), history, in_a_block, deletes)


@pytest.mark.soak
@settings(max_examples=500)
@histories
def test_many_histories_are_what_a_dictionary_would_hold(tmp_path_factory, history, in_a_block, deletes):
    check(tmp_path_factory.mktemp("tables"), history, in_a_block, deletes)


def check(directory, history, in_a_block, deletes):
    log = Log()
    bench = Bench(directory, log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_rows, "Fetcher", lambda _: log)
        patch.setattr(positions, "earliest", lambda _, places: dict.fromkeys(places, 0))
        patch.setattr(positions, "latest", lambda _, places: dict.fromkeys(places, log.end))
        patch.setattr(columns, "BLOCK", in_a_block)
        patch.setattr(keyed_rows, "BLOCK", deletes)
        patch.setattr(latest, "FEW", 3)
        for batch, (reading, is_lost) in enumerate(history):
            start = log.end
            told, rejected = bench.take(reading)
            if is_lost:
                bench.lose()
            read = Range("customers", 0, start, log.end, "")
            assert bench.rows(batch) == bench.model.rows
            assert in_order(bench.changes(read, batch)) == in_order(told)
            expected = log.end - start - len(rejected), rejected
            assert [bench.account(number, read, batch) for number in range(2)] == [expected] * 2
        assert in_order(bench.changes(read, batch)) == in_order(told)  # a repeat
