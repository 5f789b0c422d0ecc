"""A view as an input of a query, without Spark: what its store gives, batch after batch and again."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from runnel.pipeline.errors import ChangesGone, OtherCheckpoint, ViewRebuilt
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.tables.static import version_of
from runnel.pipeline.view_inputs import source
from runnel.pipeline.view_inputs.planner import Planner
from runnel.pipeline.view_inputs.rows import ViewFeed, key_bytes
from runnel.pipeline.view_inputs.shape import returned
from runnel.pipeline.view_inputs.source import rows_between
from runnel.pipeline.view_inputs.spec import ViewSpec
from runnel.views.reader import SqlReader
from runnel.views.store import Declared, Keep
from tests.contract.views.clicks import CHECKPOINT, CLICKS, QUERY, claimed, content, marker, seen

COLUMNS = StructType([StructField("page", StringType()), StructField("seen", LongType(), False)])


@pytest.fixture
def spec(place, tmp_path):
    yield ViewSpec("reading", 3, "clicks", place.address, COLUMNS, str(tmp_path / "query"), changes=True)
    for reader in source._readers.values():
        reader.close()
    source._readers.clear()


@pytest.fixture
def writer(store):
    with claimed(store) as writer:
        yield writer


class Reading:
    """Batch after batch, as Spark does it."""

    def __init__(self, spec, **how):
        self.spec = spec
        self.planner = Planner(spec, source.reader_of(spec), **how)
        self.at = self.planner.first()

    def batch(self):
        """Its rows; None if there is nothing to read."""
        start, self.at = self.at, Offsets.from_json(self.planner.next(self.at).to_json())
        ends = start.next[self.spec.place], self.at.next[self.spec.place]
        return None if ends[0] == ends[1] else told(self.spec, *ends)


def told(spec, start, end):
    return [tuple(row.values()) for row in rows_between(spec, start, end).to_pylist()]


def test_the_first_batch_is_the_view_as_it_was_found_and_then_come_its_changes(spec, writer):
    writer.apply(seen(("a", 1), ("b", 1)), marker(0))
    writer.apply(seen(("a", 2)), marker(1))
    reading = Reading(spec)
    writer.apply(seen(("a", 3), ("b", None), changes=["update_after", "delete"]), marker(2))
    assert reading.batch() == [("a", 2, "insert"), ("b", 1, "insert")]
    assert reading.batch() == [("a", 2, "update_before"), ("a", 3, "update_after"), ("b", 1, "delete")]
    assert reading.batch() is None
    writer.apply(seen(("c", 1)), marker(3))
    assert reading.batch() == [("c", 1, "insert")]


def test_a_query_that_begins_again_begins_with_what_it_found_then(spec, writer):
    writer.apply(seen(("a", 1)), marker(0))
    first = Reading(spec)
    start = first.at
    writer.apply(seen(("a", 2)), marker(1))
    again = Reading(spec)
    assert again.at == start
    assert again.batch() == [("a", 1, "insert")] == first.batch()
    assert again.batch() == [("a", 1, "update_before"), ("a", 2, "update_after")]


def test_a_view_without_rows_has_no_first_batch(spec, writer):
    reading = Reading(spec)
    assert reading.batch() is None
    writer.apply(seen(("a", 1)), marker(0))
    assert reading.batch() == [("a", 1, "insert")]


def test_a_batch_takes_about_as_many_rows_as_were_chosen(spec, writer):
    reading = Reading(spec, rows=2)
    for batch in range(3):
        writer.apply(seen(*((f"{batch}{row}", row) for row in range(batch + 1))), marker(batch))
    assert [len(reading.batch()) for _ in range(2)] == [3, 3]
    assert reading.batch() is None


def test_a_run_that_ends_reads_no_further_than_what_was_there(spec, writer):
    reading = Reading(spec, rows=1)
    reading.planner.stop_at_latest()
    writer.apply(seen(("a", 1)), marker(0))
    writer.apply(seen(("b", 1)), marker(1))
    assert reading.batch() == [("a", 1, "insert")]
    writer.apply(seen(("c", 1)), marker(2))
    assert [reading.batch(), reading.batch()] == [[("b", 1, "insert")], None]


def test_changes_that_were_trimmed_are_told_with_what_is_left(spec, open_at):
    with claimed(open_at(keep=Keep(rows=1))) as writer:
        reading = Reading(spec)
        for batch in range(3):
            writer.apply(seen((f"{batch}", 1)), marker(batch))
        assert writer.trim() == 2
        with pytest.raises(ChangesGone, match="from position 0 on, and the log of them goes from 2 to 3") as caught:
            reading.batch()
        assert (caught.value.query, caught.value.view) == ("reading", "clicks")
        with pytest.raises(ChangesGone):
            rows_between(spec, 1, 2)


def test_a_batch_that_changes_more_than_is_kept_is_read_by_whoever_keeps_up(spec, open_at):
    with claimed(open_at(keep=Keep(rows=1))) as writer:
        reading = Reading(spec)
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
        writer.trim()
        assert reading.batch() == [("a", 1, "insert"), ("b", 1, "insert")]


def test_a_large_batch_is_read_piece_by_piece_in_its_order(spec, writer, monkeypatch):
    monkeypatch.setattr(source, "ROWS", 2)
    writer.apply(seen(*((f"{row}", 1) for row in range(5))), marker(0))
    writer.apply(seen(("0", 2), ("1", 2)), marker(1))
    blocks = list(source.ViewChanges(spec).read(source.Piece(1, 8)))
    assert [block["page"].to_pylist() for block in blocks] == [["0", "1"], ["2", "3"], ["4", "0", "0"], ["1", "1"]]
    assert [block.num_rows for block in source.ViewChanges(spec).read(source.Piece(1, 1))] == []


def test_what_was_found_is_read_whole_however_much_it_is(spec, writer, monkeypatch):
    monkeypatch.setattr(source, "ROWS", 2)
    writer.apply(seen(*((f"{row}", 1) for row in range(5))), marker(0))
    Reading(spec)
    blocks = list(source.ViewChanges(spec).read(source.Piece(0, 6)))
    assert [block["page"].to_pylist() for block in blocks] == [["0", "1", "2", "3", "4"]]


def lose_all(place):
    for table in ("clicks", "runnel_changes_1", "runnel_commits", "runnel_views"):
        place.query(f"DROP TABLE {table}")


def test_a_view_that_was_made_anew_is_noticed(spec, store, place):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    reading = Reading(spec)
    reading.batch()
    lose_all(place)
    with claimed(store) as writer:
        writer.apply(seen(("a", 2)), marker(0, "another"))
        with pytest.raises(OtherCheckpoint, match="the view clicks, which it reads, was made anew"):
            reading.batch()


REBUILT = "checkpoint-2"


def rebuild(store, rows, declared=CLICKS):
    with store.copy_writer(declared, QUERY) as copier:
        copier.claim()
        copier.apply(rows, marker(7, REBUILT))
    store.exchange("clicks")
    store.drop_copy("clicks")


def test_a_view_that_was_rebuilt_is_read_on_and_what_has_changed_by_it_is_told(spec, store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
    reading = Reading(spec)
    assert reading.batch() == [("a", 1, "insert"), ("b", 1, "insert")]
    rebuild(store, seen(("a", 2), ("c", 1)))
    told = [("a", 1, "update_before"), ("a", 2, "update_after"), ("b", 1, "delete"), ("c", 1, "insert")]
    assert sorted(reading.batch()) == told
    with claimed(store) as writer:
        writer.apply(seen(("c", 2)), marker(8, REBUILT))
    assert Reading(spec).at == Offsets(3, {spec.place: 0}, {"view:clicks": CHECKPOINT})
    assert reading.batch() == [("c", 1, "update_before"), ("c", 2, "update_after")]


def test_who_began_when_the_view_had_been_rebuilt_before_goes_on_over_the_next_one(spec, store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    rebuild(store, seen(("a", 2)))
    reading = Reading(spec)
    assert reading.batch() == [("a", 2, "insert")]
    reading.at = replace(reading.at, ids={"view:clicks": REBUILT})  # as it was kept once
    with claimed(store) as writer:
        writer.apply(seen(("b", 1)), marker(8, REBUILT))
    assert reading.batch() == [("b", 1, "insert")]
    rebuild(store, seen(("a", 2), ("b", 2)))
    assert reading.batch() == [("b", 1, "update_before"), ("b", 2, "update_after")]


def test_a_view_that_was_rebuilt_with_other_columns_is_not_read_on(spec, store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    reading = Reading(spec)
    reading.batch()
    more = CLICKS.schema.append(pa.field("day", pa.int32()))
    rebuild(store, pa.table({"page": ["a"], "seen": [1], "day": [1]}, schema=more), replace(CLICKS, schema=more))
    with pytest.raises(ChangesGone) as caught:
        reading.batch()
    assert "or the view was made anew: make it anew, a view by `runnel rebuild`" in caught.value.hint


@pytest.mark.parametrize("other", [("clicks", 0), ("view:others", 0)])
def test_the_offsets_of_another_input_are_refused(spec, writer, other):
    reading = Reading(spec)
    with pytest.raises(OtherCheckpoint, match=f"the view clicks is where {other[0]} was"):
        reading.planner.next(Offsets(3, {other: 1}, {}))
    with pytest.raises(OtherCheckpoint):
        reading.planner.next(Offsets(2, {spec.place: 1}, {}))


# --- the latest rows


def latest(spec, batch):
    feed = ViewFeed(spec, source.reader_of(spec))
    rows = version_of(feed, spec.path / "tables", batch).rows()
    return {row["page"]: row["seen"] for row in rows.to_pylist()}


def test_a_batch_sees_the_latest_rows_and_a_repeat_the_same_ones(spec, writer, store):
    for batch in range(12):
        rows = [(f"page-{(batch * 7 + step * 3) % 11}", batch + step) for step in range(6)]
        kinds = ["delete" if (batch + step) % 4 == 0 else "update_after" for step in range(6)]
        writer.apply(seen(*rows, changes=kinds), marker(batch))
        expected = content(store)
        assert latest(spec, batch) == expected
        writer.apply(seen(("page-3", -batch)), marker(100 + batch, f"{batch}"))
        assert latest(spec, batch) == expected


DAY = pa.schema([*CLICKS.schema, ("day", pa.int32())])
COLUMNS_WITH_DAY = StructType([*COLUMNS, StructField("day", IntegerType())])
WITH_DAY = replace(CLICKS, schema=DAY)


def on_a_day(page, count, day):
    return pa.table({"page": [page], "seen": [count], "day": [day]}, schema=DAY)


def all_of(spec, batch):
    rows = version_of(ViewFeed(spec, source.reader_of(spec)), spec.path / "tables", batch).rows()
    return {row["page"]: (row["seen"], row["day"]) for row in rows.to_pylist()}


def test_a_view_that_has_got_a_column_is_read_on_and_a_repeat_sees_what_the_batch_saw(spec, store):
    with claimed(store) as writer:
        writer.apply(seen(*((f"p{number}", 1) for number in range(11_000))), marker(0))  # as many as a base has
        writer.apply(seen(("a", 1), ("b", 1)), marker(1))
        latest(spec, 0)
    with claimed(store, WITH_DAY) as writer:
        writer.apply(on_a_day("b", 2, 7), marker(2))
        spec = replace(spec, columns=COLUMNS_WITH_DAY)
        assert len(all_of(spec, 0)) == 11_002
        assert (all_of(spec, 0)["a"], all_of(spec, 0)["b"]) == ((1, None), (1, None))
        assert (all_of(spec, 1)["a"], all_of(spec, 1)["b"]) == ((1, None), (2, 7))
        writer.apply(on_a_day("a", 3, 8), marker(3))
        assert (all_of(spec, 2)["a"], all_of(spec, 2)["p7"]) == ((3, 8), (1, None))


def test_what_was_found_of_a_view_has_nulls_in_the_columns_that_it_got_later(spec, store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    Reading(spec)
    with claimed(store, WITH_DAY) as writer:
        writer.apply(on_a_day("a", 2, 7), marker(1))
    reading = Reading(replace(spec, columns=COLUMNS_WITH_DAY))
    assert reading.batch() == [("a", 1, None, "insert")]
    assert reading.batch() == [("a", 1, None, "update_before"), ("a", 2, 7, "update_after")]


def test_who_reads_a_view_whose_column_is_gone_is_told_to_start_again(spec, store):
    with claimed(store, WITH_DAY) as writer:
        writer.apply(on_a_day("a", 1, 7), marker(0))
        spec = replace(spec, columns=COLUMNS_WITH_DAY)
        assert all_of(spec, 0) == {"a": (1, 7)}
    rebuild(store, seen(("a", 1)), CLICKS)
    with pytest.raises(ViewRebuilt, match=r"has no column day any more \(start the app again"):
        all_of(spec, 1)


def test_rows_are_told_apart_by_the_key_of_their_moment_whatever_takes_the_place_right_behind_it(
    spec, store, monkeypatch
):
    by_day = replace(WITH_DAY, key=("page", "day"))
    with claimed(store, by_day) as writer:
        writer.apply(pa.concat_tables([on_a_day("a", 1, 7), on_a_day("a", 2, 8)]), marker(0))
    snapshot = SqlReader.snapshot

    def then_rebuilt(reader):
        monkeypatch.undo()
        found = snapshot(reader)
        rebuild(store, on_a_day("a", 3, 9), WITH_DAY)
        return found

    monkeypatch.setattr(SqlReader, "snapshot", then_rebuilt)
    spec = replace(spec, columns=COLUMNS_WITH_DAY)
    rows = version_of(ViewFeed(spec, source.reader_of(spec)), spec.path / "tables", 0).rows()
    assert sorted(rows["day"].to_pylist()) == [7, 8]
    assert all_of(spec, 1) == {"a": (3, 9)}


def test_where_the_change_log_does_not_reach_back_all_rows_are_read(spec, open_at):
    store = open_at(keep=Keep(rows=1))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
        assert latest(spec, 0) == {"a": 1, "b": 1}
        writer.apply(seen(("a", 2), ("b", None), changes=["update_after", "delete"]), marker(1))
        writer.apply(seen(("c", 1)), marker(2))
        writer.trim()
        assert latest(spec, 1) == {"a": 2, "c": 1}


@pytest.mark.parametrize("pages", ["xyz", "xy", "x"], ids=["further", "as far", "not as far"])
def test_of_a_view_that_was_made_anew_all_rows_are_read(spec, store, place, pages):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
        assert latest(spec, 0) == {"a": 1, "b": 1}
    lose_all(place)
    with claimed(store) as writer:
        for number, page in enumerate(pages):
            writer.apply(seen((page, 1)), marker(number, "another"))
        assert latest(spec, 1) == dict.fromkeys(pages, 1)
        writer.apply(seen(("more", 1)), marker(len(pages), "another"))
        assert latest(spec, 2) == dict.fromkeys([*pages, "more"], 1)
        assert latest(spec, 1) == dict.fromkeys(pages, 1)


def test_rows_that_are_lost_are_not_replaced_by_newer_ones(spec, writer):
    writer.apply(seen(("a", 1)), marker(0))
    latest(spec, 0)
    for path in (spec.path / "tables" / "clicks").glob("*.arrow"):
        path.unlink()
    with pytest.raises(OtherCheckpoint, match="the rows of the view clicks as of position 1"):
        latest(spec, 0)


def test_keys_of_other_values_are_other_bytes():
    texts = pa.chunked_array([["a", "a1:", "", "1:a"], ["ü"]])
    numbers = pa.chunked_array([[1, 1, 11, 1, 1]])
    times = numbers.cast(pa.timestamp("us", "UTC"))
    amounts = pa.chunked_array([pa.array([1, 2, 3, 4, 5]).cast(pa.decimal128(22, 2))])
    raw = texts.cast(pa.binary())
    yes = pa.chunked_array([pa.array([True] * 5)])
    for columns in ([texts, numbers], [numbers, texts], [raw, times], [texts, amounts, yes], [texts, texts]):
        assert len(set(key_bytes(columns).to_pylist())) == 5


def test_the_two_columns_of_a_window_are_one_again(store, tmp_path, place):
    window = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])
    columns = StructType([StructField("window", window), StructField("seen", LongType()), StructField("last", window)])
    spec = ViewSpec("reading", 0, "hours", place.address, columns, str(tmp_path))
    moment = pa.scalar(3_600_000_000, pa.timestamp("us", "UTC")).as_py()
    whole = {"start": moment, "end": moment}
    rows = pa.Table.from_pylist(
        [
            {"window": whole, "seen": 1, "last": None},
            {"window": {**whole, "end": moment.replace(hour=2)}, "last": whole},
        ],
        schema=spec.rows,
    )
    with store.writer(Declared("hours", ("window",), spec.rows), QUERY) as writer:
        writer.claim()
        writer.apply(rows, marker(0))
    with spec.open() as reader:
        assert reader.key() == ("window_start", "window_end")
        assert returned(reader.rows(), spec.rows).to_pylist() == rows.to_pylist()
