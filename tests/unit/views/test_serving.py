"""Views as a program reads them: `runnel.views(...)`."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
import threading
from concurrent.futures import Future
from functools import partial

import pyarrow as pa
import pytest

import runnel
from runnel.client import Token
from runnel.views.errors import (
    InvalidArgument,
    InvalidFilter,
    InvalidPosition,
    InvalidStore,
    NotSeen,
    UnknownKey,
    UnknownView,
)
from runnel.views.opening import open_store
from runnel.views.store import Declared, Marker

MINUTE = datetime.timedelta(minutes=1)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
COUNTS = Declared(
    "clicks_per_minute",
    ("window", "page"),
    pa.schema([("window", WINDOW), ("page", pa.string()), ("count", pa.int64())]),
)
ROWS = [(0, "p1", 3), (0, "p2", 30), (1, "p1", 7)]


def table(rows):
    windows = [{"start": NOON + MINUTE * minute, "end": NOON + MINUTE * (minute + 1)} for minute, *_ in rows]
    pages, counts = [page for _, page, _ in rows], [count for *_, count in rows]
    return pa.table([windows, pages, counts], COUNTS.schema)


@pytest.fixture
def data(tmp_path):
    with open_store(str(tmp_path)).writer(COUNTS, "counts") as writer:
        writer.claim()
        writer.apply(table(ROWS), Marker("counts", 0, "c1", {"clicks": {"0": 40}}))
    return tmp_path


@pytest.fixture
def counts(data):
    with runnel.views(data) as views:
        yield views["clicks_per_minute"]


def row(minute, page, count):
    start = NOON + MINUTE * minute
    return {"window_start": start, "window_end": start + MINUTE, "page": page, "count": count}


def test_the_views_of_a_directory_are_a_mapping(data):
    with runnel.views(data) as views:
        assert list(views) == ["clicks_per_minute"]
        assert len(views) == 1
        assert "clicks_per_minute" in views
        assert "orders" not in views
        assert views.get("orders") is None
        assert views["clicks_per_minute"] is views["clicks_per_minute"]
        assert repr(views) == "<views clicks_per_minute>"
        assert repr(views["clicks_per_minute"]) == "<view clicks_per_minute>"


def test_a_directory_without_views_has_none(tmp_path):
    views = runnel.views(tmp_path / "nothing")
    assert list(views) == []
    assert repr(views) == f"<views none yet in {tmp_path}/nothing>"
    with pytest.raises(UnknownView, match="has no view 'orders'; it has: none yet") as told:
        views["orders"]
    assert told.value.hint.startswith("see to the address, which is the app's data directory")
    assert not (tmp_path / "nothing").exists()


def test_an_unknown_view_is_an_error_of_ours_and_a_key_error(data):
    with runnel.views(data) as views:
        for kind in (UnknownView, KeyError):
            with pytest.raises(kind) as told:
                views["orders"]
        assert str(told.value) == (
            f"the store {data}/views.sqlite has no view 'orders'; it has: clicks_per_minute "
            "(see to the name, or start the app that keeps the view)"
        )


@pytest.mark.parametrize("name", [None, 5, b"clicks_per_minute", ["clicks_per_minute"], "", "a\0b", "\udcff"])
def test_a_name_that_is_no_text_or_cannot_be_printed_is_that_of_no_view(data, name):
    with runnel.views(data) as views:
        with pytest.raises(UnknownView, match=r"has no view .*; it has: clicks_per_minute"):
            views[name]
        assert views.get(name) is None


@pytest.mark.parametrize("address", ["redis://here", "", "a\0b", None, 5, b"data", ["data"]])
def test_an_address_that_is_none_is_told(address):
    with pytest.raises(InvalidStore, match="is no address of a view store"):
        runnel.views(address)


@pytest.mark.parametrize("settings", ["ssl.ca.location=ca.pem", [("ssl.ca.location", "ca.pem")], {1: "ca.pem"}])
def test_settings_that_are_none_are_told_and_not_shown(data, settings):
    with pytest.raises(InvalidArgument) as told:
        runnel.views(data, bootstrap="127.0.0.1:1", settings=settings)
    assert str(told.value) == (
        "runnel.views: settings are no settings of librdkafka "
        "(give names and values: settings={'security.protocol': 'SSL'})"
    )


@pytest.mark.parametrize("seconds", ["5s", "5", datetime.timedelta(seconds=5), math.nan, True])
def test_a_time_that_is_no_number_of_seconds_is_told(counts, seconds):
    for wait in (counts.watch, counts.where(page="p1").watch, partial(counts.wait_for, Token("clicks", 0, 3))):
        with pytest.raises(InvalidArgument) as told:
            wait(timeout=seconds)
        assert str(told.value) == (
            f"view 'clicks_per_minute': timeout={seconds!r} is no number of seconds (give one: timeout=5)"
        )
    with pytest.raises(InvalidArgument, match="timeout=None is no number of seconds"):
        counts.wait_for(Token("clicks", 0, 3), timeout=None)


@pytest.mark.parametrize("seconds", ["50ms", None, -1, math.nan, math.inf, 1e300])
def test_an_interval_that_nobody_can_wait_is_told(counts, seconds):
    with pytest.raises(InvalidArgument, match=r"interval=.* is no number of seconds to wait") as told:
        counts.watch(interval=seconds)
    assert told.value.hint == "give one, 0 or more: interval=0.05"


def test_a_time_that_has_passed_or_never_passes_can_be_given(counts):
    assert [len(step) for step in counts.watch(timeout=-1)] == [3]
    counts.wait_for(Token("clicks", 0, 3), timeout=math.inf)


@pytest.mark.parametrize(
    "token",
    [
        [Token("clicks", 0, 3)],
        None,
        ("clicks", 0, 3),
        "clicks",
        Future(),
        Token("clicks", "0", 3),
        Token("clicks", 0, "3"),
        Token("clicks", 0, 3.5),
        Token(b"clicks", 0, 3),
    ],
)
def test_what_is_no_token_is_told(counts, token):
    with pytest.raises(InvalidArgument) as told:
        counts.wait_for(Token("clicks", 0, 3), token, timeout=0)
    assert str(told.value) == (
        f"view 'clicks_per_minute': {token!r} is no token of a record (give what produce(...) returned; "
        "several one after the other: wait_for(first, second) or wait_for(*tokens))"
    )


def test_a_position_with_more_digits_than_any_has_is_told(counts):
    with pytest.raises(InvalidPosition):
        counts.watch("9" * 5_000 + "@log")


def test_a_view_tells_its_key_and_its_schema(counts):
    assert counts.key == ("window_start", "window_end", "page")
    assert counts.schema.names == ["window_start", "window_end", "page", "count"]
    assert counts.name == "clicks_per_minute"


@pytest.mark.parametrize(
    "key",
    [
        {"window": (NOON, NOON + MINUTE)},
        {"window": {"start": NOON, "end": NOON + MINUTE}},
        {"window": ("2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z")},
        {"window_start": NOON, "window_end": NOON + MINUTE},
        {"window_start": "2026-01-01T12:00", "window_end": "2026-01-01T12:01"},
    ],
)
def test_a_row_is_found_by_its_key_and_a_window_by_its_start_and_end(counts, key):
    assert counts.get(page="p1", **key) == row(0, "p1", 3)
    assert counts.get(page="p9", **key) is None
    assert list(counts.where(page="p1", **key)) == [row(0, "p1", 3)]


def test_a_column_may_be_called_self(tmp_path):
    rows = pa.table({"self": ["a", "b"]})
    with open_store(str(tmp_path)).writer(Declared("names", ("self",), rows.schema), "names") as writer:
        writer.claim()
        writer.apply(rows, Marker("names", 0, "c1", {}))
    with runnel.views(tmp_path) as views:
        assert views["names"].get(self="b") == {"self": "b"}
        assert list(views["names"].where(self="b")) == [{"self": "b"}]


def test_a_key_that_is_not_whole_is_told(counts):
    with pytest.raises(UnknownKey) as told:
        counts.get(page="p1")
    assert str(told.value) == (
        "view 'clicks_per_minute' has no such key: it was asked for by page "
        "(give a value for each of window_start, window_end, page)"
    )
    with pytest.raises(InvalidFilter, match="'noon' is no window"):
        counts.get(page="p1", window="noon")


def test_rows_are_chosen_ordered_and_limited(counts):
    assert [each["count"] for each in counts] == [3, 30, 7]
    assert [each["count"] for each in counts.where(page="p1")] == [3, 7]
    assert [each["count"] for each in counts.where(("count", ">", 5)).order_by("-count")] == [30, 7]
    assert [each["count"] for each in counts.where(("count", ">", 5)).where(page="p1")] == [7]
    assert [each["count"] for each in counts.order_by("page", "-count").limit(2)] == [7, 3]
    assert len(counts) == 3
    assert len(counts.where(page="p1")) == 2
    assert len(counts.limit(2)) == 2
    assert counts.where(page="nobody")
    assert list(counts.where(page="nobody")) == []


def test_a_list_that_gives_its_values_once_is_asked_again_and_again(counts):
    chosen = counts.where(("page", "in", (page for page in ("p1",))))
    assert len(chosen) == len(list(chosen)) == 2


def test_what_is_no_condition_is_told(counts):
    for wrong in ("count > 5", ("count", ">")):
        with pytest.raises(InvalidFilter, match="is no condition") as told:
            counts.where(wrong)
        assert told.value.hint == 'give a column, an operator and a value: where(("count", ">=", 10))'
    for wrong in (-1, 2.5, "2", None, True):
        with pytest.raises(InvalidFilter, match=f"a limit of {wrong} rows"):
            counts.limit(wrong)


def test_pandas_and_arrow_have_the_same_rows_with_their_types(counts):
    frame = counts.order_by("count").pandas()
    assert list(frame["count"]) == [3, 7, 30]
    assert str(frame["window_start"].dtype) == "datetime64[us, UTC]"
    assert counts.arrow().schema == counts.schema


def test_a_reader_sees_what_was_applied_since(counts, data):
    with open_store(str(data)).writer(COUNTS, "counts") as writer:
        writer.claim()
        writer.apply(table([(0, "p1", 4)]), Marker("counts", 1, "c1", {"clicks": {"0": 41}}))
    assert counts.get(page="p1", window=(NOON, NOON + MINUTE))["count"] == 4
    counts.wait_for(Token("clicks", 0, 40), timeout=0)


def test_threads_can_share_a_view(counts):
    found, errors = [], []

    def read():
        try:
            found.extend(len(list(counts)) for _ in range(20))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert found == [3] * 80


def test_a_view_that_was_closed_is_opened_again_when_it_is_read(counts):
    counts.close()
    assert len(counts) == 3


def test_who_waits_in_vain_without_kafka_is_told_how_to_look_further(counts):
    with pytest.raises(NotSeen) as told:
        counts.wait_for(Token("raw_clicks", 0, 1), timeout=0)
    assert str(told.value) == (
        "after 0 s view 'clicks_per_minute' has not seen it all: clicks_per_minute has read nothing of raw_clicks, "
        "only clicks (see whether the app runs and how far behind it is, or give it more time; if it comes through a "
        "derived stream, say where Kafka is: runnel.views(..., bootstrap='HOST:PORT'))"
    )


def test_reading_needs_neither_spark_nor_a_kafka_client(data):
    program = (
        "import sys, runnel\n"
        "assert 'pyarrow' not in sys.modules\n"
        f"assert len(list(runnel.views({str(data)!r})['clicks_per_minute'])) == 3\n"
        "heavy = ('pyspark', 'confluent_kafka', 'psycopg', 'rich', 'typer')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr
