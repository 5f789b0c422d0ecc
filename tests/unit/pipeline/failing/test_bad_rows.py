"""What becomes of a batch on which the body raises: with trials that only say what they were told."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from runnel.graph.on_error import REJECT
from runnel.pipeline.batch import Batch
from runnel.pipeline.errors import NoRowFailed, RowFailed, RowsFailed, RunAgain, Unexplained
from runnel.pipeline.failing import bad_rows
from runnel.pipeline.failing.bad_rows import BadRows, Tried
from runnel.pipeline.failing.trial_rows import Read
from runnel.pipeline.source.left_out import read_left_out
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range

ROWS = 8
HEAP = "Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space\n\tat org.apache.spark..."
RESULTS = "Total size of serialized results of 9 tasks (1 GiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)"
STATE = (
    "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] An error occurred during loading state. "
    "Error reading delta file /data/queries/x/checkpoint/state/0/0/7.delta SQLSTATE: 58030"
)
UNKNOWN = "java.lang.IllegalStateException: something that nobody has seen before\n\tat org.apache.spark.Any.thing"
RAISED = 'Traceback (most recent call last):\n  File "/home/me/shop.py", line 12, in half\nZeroDivisionError: zero\n'
DIVIDED = "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"


class Spark:
    """As much of a session as is asked for."""

    conf = SimpleNamespace(get=lambda *_: None, set=lambda *_: None, unset=lambda *_: None)
    sparkContext = SimpleNamespace(accumulator=lambda *_: None)  # noqa: N815


class Bench:
    """A query on one partition, and its trials: `fails(offsets)` tells; `by_row`, so far as rows go their own way."""

    def __init__(self, monkeypatch, path, *, on_error=REJECT):
        self.path = path
        self.tried = []
        self.events = []
        self.fails = self.by_row = lambda _: False
        output = SimpleNamespace(on_error=on_error, body=lambda: None)
        tried = Tried(output, [], None, path, lambda _: None, lambda: False)
        batch = Batch("pages", "id", Moment(3, 0, 0), {}, {}, SimpleNamespace(sparkSession=Spark()), self.wait)
        monkeypatch.setattr(bad_rows, "reads_of", lambda *_: [Read(0, Range("clicks", 0, 0, ROWS, ""))])
        monkeypatch.setattr(bad_rows, "value_at", lambda *_: "{}")
        monkeypatch.setattr(bad_rows, "Trial", self.trial)
        monkeypatch.setattr(BadRows, "_by_their_calls", lambda *_: [])
        self.bad_rows = BadRows(tried, batch)

    def wait(self):
        self.events.append(("waited", read_left_out(self.path, 3)))

    def trial(self, *_):
        return SimpleNamespace(fails=self.tries, count=0)

    def tries(self, part, *, by_row=False):
        offsets = [offset for span in part for offset in range(span.start, span.end)]
        self.tried.append(offsets)
        return "no" if (self.by_row if by_row else self.fails)(offsets) else None

    def see_to(self, text):
        self.bad_rows.see_to(PySparkException(text), is_told=False)

    @property
    def left_out(self):
        return [each.offset for each in read_left_out(self.path, 3)]


@pytest.fixture
def bench(monkeypatch, tmp_path):
    return Bench(monkeypatch, tmp_path)


# --- what Spark said


@pytest.mark.parametrize("text", [HEAP, RESULTS, STATE])
@pytest.mark.parametrize("on_error", ["stop", REJECT])
def test_what_cannot_come_from_a_row_is_raised_as_it_is_and_no_row_is_looked_for(monkeypatch, tmp_path, text, on_error):
    bench = Bench(monkeypatch, tmp_path, on_error=on_error)
    bench.fails = bench.by_row = lambda offsets: 5 in offsets
    with pytest.raises(Unexplained) as raised:
        bench.see_to(text)
    assert text in raised.value.text
    assert bench.tried == []


def test_what_spark_said_is_raised_where_no_row_is_found(bench, caplog):
    caplog.set_level(logging.WARNING)
    bench.see_to(UNKNOWN)  # run once more
    with pytest.raises(Unexplained) as raised:
        bench.see_to(UNKNOWN)
    assert UNKNOWN in raised.value.text
    assert "no row can be named" in caplog.text


@pytest.mark.parametrize("fails", [lambda _: True, lambda offsets: len(offsets) > 5])
def test_what_spark_said_is_raised_where_it_fails_without_rows_or_only_together(bench, fails):
    bench.fails = fails
    with pytest.raises(Unexplained):
        bench.see_to(UNKNOWN)


@pytest.mark.parametrize("text", [RAISED, DIVIDED])
def test_of_a_function_it_is_told_that_no_row_can_be_named(bench, text):
    bench.see_to(text)
    with pytest.raises(NoRowFailed):
        bench.see_to(text)


def test_a_row_is_found_also_if_nobody_knows_where_it_was_raised(bench):
    bench.fails = bench.by_row = lambda offsets: 5 in offsets
    bench.see_to(UNKNOWN)
    assert bench.left_out == [5]


# --- which rows


def test_rows_that_fail_before_they_meet_others_are_rejected_however_many_they_are(bench):
    bench.fails = bench.by_row = bool
    bench.see_to(RAISED)
    assert bench.left_out == list(range(ROWS))


def test_rows_that_fail_alone_behind_an_aggregate_are_not_rejected_for_lack_of_others(bench):
    user = "abcdabce"  # one who has a single row lets the whole fail, and so does each row by itself
    bench.fails = lambda offsets: any([user[each] for each in offsets].count(user[one]) == 1 for one in offsets)
    with pytest.raises(RowsFailed, match="no row is to blame by itself; it fails on these together: offset 0 of click"):
        bench.see_to(RAISED)
    assert bench.left_out == []


def test_a_row_that_fails_behind_an_aggregate_with_whatever_others_is_rejected(bench):
    bench.fails = lambda offsets: 4 in offsets or offsets == [5]
    bench.see_to(RAISED)
    assert bench.left_out == [4]


def test_a_query_that_stops_names_the_row_that_is_to_blame(monkeypatch, tmp_path):
    bench = Bench(monkeypatch, tmp_path, on_error="stop")
    bench.fails = lambda offsets: 5 in offsets or offsets == [4]
    with pytest.raises(RowFailed) as raised:
        bench.see_to(RAISED)
    assert raised.value.offset == 5


# --- the file


def test_the_plan_of_the_batch_is_on_the_disk_before_the_file_that_belongs_to_it(bench):
    bench.fails = bench.by_row = lambda offsets: 5 in offsets
    bench.see_to(RAISED)
    assert bench.events == [("waited", [])]
    assert bench.left_out == [5]


def test_rows_that_are_left_out_and_still_raise_let_spark_begin_the_batch_anew(bench):
    bench.fails = bench.by_row = lambda offsets: 5 in offsets
    bench.see_to(RAISED)
    bench.fails = bench.by_row = lambda _: False  # trials leave it out
    with pytest.raises(RunAgain):
        bench.see_to(RAISED)
