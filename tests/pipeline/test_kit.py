"""The test kit, through the real plan: what a test plays is what the app reads, and a crash changes nothing."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

from runnel.app.trouble import QueryFailed
from runnel.pipeline.query import Query
from runnel.pipeline.steps import publish
from runnel.testing import CRASH, CRASH_AFTER_COMMIT, PAUSE, RESTART, Player, Rejected, at, delete, idle, raw, row
from runnel.testing import player as playing
from runnel.testing.spark import SETTINGS
from tests.pipeline import kit_app
from tests.pipeline.kit_app import LINES, app, clicks, customers, visits

pytestmark = pytest.mark.servers

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-an-app.md"
PYTHON = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def play(spark):
    """With the settings that a session for tests has."""
    kept = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield Player(spark)
    for name, value in kept.items():
        spark.conf.set(name, value)


@pytest.fixture
def lives(monkeypatch):
    """How often the app was started."""
    found = []
    begin = playing.Life.__init__
    monkeypatch.setattr(playing.Life, "__init__", lambda *given: (found.append(1), begin(*given))[1])
    return found


def minute(text, page, count):
    start = at(text)
    return {"window_start": start, "window_end": start.replace(minute=start.minute + 1), "page": page, "count": count}


def test_outputs_hold_what_was_played(play):
    played = play(
        app,
        row(customers, id=1, name="Ann"),
        row(clicks, page="tea", customer=1, at="12:00:10"),
        row(clicks, page="tea", customer=2, at="12:01:45"),
        PAUSE,
        row(clicks, page="tea", customer=1, at="12:00:50"),  # 55 seconds behind
        row(clicks, page="cake", customer=1, at="12:01:50"),
        raw(clicks, b'{"page": "te'),
        row(customers, id=2, name="Bob"),
        delete(customers, id=1),
        PAUSE,
        row(clicks, page="cake", customer=2, at="12:02:00"),
        row(clicks, page="pie", customer=1, at="12:02:00"),
        partitions=2,
    )
    assert played.view("clicks_per_minute") == [
        minute("12:00", "tea", 1),
        minute("12:01", "cake", 1),
        minute("12:01", "tea", 1),
        minute("12:02", "cake", 1),
        minute("12:02", "pie", 1),
    ]
    late = [{"page": "tea", "customer": 1, "at": at("12:00:50")}]
    assert (played.late(kit_app.clicks_per_minute), played.late("named")) == (late, late)
    (rejected,) = played.rejected(clicks)
    assert rejected == Rejected(b'{"page": "te', rejected.reason)
    assert rejected.reason
    assert played.rejected("customers") == []
    assert played.stream("named") == [{"name": "Ann", "page": "tea"}, {"name": "Bob", "page": "cake"}]
    assert played.view("pages") == [
        {"page": "cake", "minutes": 2},
        {"page": "pie", "minutes": 1},
        {"page": "tea", "minutes": 2},
    ]


VISITS = [
    [row(visits, page="tea", at="12:00:10"), row(visits, page="tea", at="12:01:45")],
    [row(visits, page="tea", at="12:00:50"), row(visits, page="cake", at="12:01:50"), raw(visits, b"{")],
    [idle("2 minutes")],
]
CLOSED = [
    {"start": at("12:00"), "page": "tea", "count": 1},
    {"start": at("12:01"), "page": "cake", "count": 1},
    {"start": at("12:01"), "page": "tea", "count": 1},
]


def visited(play, *ends):
    return play(kit_app.short, *(event for step, end in zip(VISITS, ends, strict=True) for event in (*step, end)))


@pytest.fixture(scope="module")
def calm(play):
    return visited(play, PAUSE, PAUSE, PAUSE)


def test_idle_time_that_passes_closes_the_last_window_of_each_stream(calm):
    assert calm.stream("closed_minutes")[0] == CLOSED[0]
    assert sorted(calm.stream("closed_minutes"), key=lambda told: (told["start"], told["page"])) == CLOSED
    assert calm.view("visits_in_all") == [{"page": "cake", "visits": 1}, {"page": "tea", "visits": 2}]
    assert calm.late("closed_minutes") == [{"page": "tea", "at": at("12:00:50")}]
    assert [each.value for each in calm.rejected(visits)] == [b"{"]


@pytest.mark.parametrize(("end", "starts"), [(CRASH, 6), (CRASH_AFTER_COMMIT, 6), (RESTART, 4)])
def test_what_happens_to_the_app_changes_nothing(play, calm, lives, end, starts):
    assert visited(play, end, end, end) == calm
    assert len(lives) == starts


def test_an_app_that_writes_twice_is_found_out(play, monkeypatch):
    monkeypatch.setattr(publish, "is_done", lambda *_: False)
    played = play(kit_app.failing, row("lines", line="7"), CRASH_AFTER_COMMIT)
    assert played.stream("numbers") == [{"number": 7}, {"number": 7}]


def test_a_batch_of_no_rows_is_run_only_where_it_may_tell_something(play, monkeypatch):
    batches = []
    run = Query._run_batch
    monkeypatch.setattr(Query, "_run_batch", lambda query, *given: (batches.append(query.name), run(query, *given))[1])
    play(kit_app.app, row(clicks, page="tea", customer=1, at="12:00:10"), PAUSE, row(clicks, page="tea", at="12:05:00"))
    assert batches.count("clicks_per_minute") == 2  # shown while its windows are open
    batches.clear()
    play(kit_app.short, row(visits, page="tea", at="12:00:10"), PAUSE, row(visits, page="tea", at="12:05:00"))
    assert batches.count("closed_minutes") == 4  # told when they are closed


def test_idle_time_that_is_too_short_for_a_stream_is_not_noticed(play):
    click = row(visits, page="tea", at="12:00:59")
    assert play(kit_app.short, click, idle("59 seconds")).stream("closed_minutes") == []
    assert play(kit_app.short, click, idle("59 seconds"), idle("1 second")).stream("closed_minutes") == [CLOSED[0]]


def test_a_row_that_lies_ahead_of_the_clock_is_rejected(play):
    played = play(kit_app.short, row(visits, page="tea", at="12:00:59"), row(visits, page="tea", at="9999-01-01"))
    ((value, reason),) = played.rejected(visits)
    assert b'"at": "9999-01-01' in value
    assert reason.endswith("is too far ahead of the clock")


def test_what_ends_the_app_is_raised_with_the_line_of_the_body(play, lives):
    line = inspect.getsourcelines(kit_app.number_of)[1] + 1
    with pytest.raises(QueryFailed) as told:
        play(kit_app.failing, row("lines", line="7"), PAUSE, row("lines", line="seven"))
    assert "invalid literal for int" in str(told.value)
    assert f"kit_app.py, line {line}" in str(told.value)
    assert len(lives) == 1
    assert play(kit_app.failing, row("lines", line="7")).stream("numbers") == [{"number": 7}]


def test_rows_of_every_format_and_their_metadata(play):
    played = play(
        kit_app.formats,
        row(LINES["avro"], line="a", _key="k", _partition=1),
        row(LINES["text"], value="b"),
        raw(LINES["text"], b"\xff"),
        row(LINES["raw"], value=b"c"),
        row("sites-eu", line="d"),
        row("sites-us", line="e", _partition=1),
        partitions=2,
    )
    found = {told["line"]: (told["_topic"], told["_partition"], told["_key"]) for told in played.stream("lines")}
    assert sorted(found) == ["a", "b", "c", "d", "e"]
    assert found["a"] == ("avro", 1, b"k")
    assert found["e"] == ("sites-us", 1, None)
    assert [each.value for each in played.rejected("text")] == [b"\xff"]


# --- the page


def test_the_tests_of_the_page_pass(play, spark, tmp_path):
    (tmp_path / "page_of_tests.py").write_text("\n\n".join(PYTHON.findall(PAGE.read_text(encoding="utf-8"))))
    spec = importlib.util.spec_from_file_location("page_of_tests", tmp_path / "page_of_tests.py")
    page = sys.modules["page_of_tests"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    fixtures = {"runnel_play": play, "runnel_spark": spark}
    tests = [test for name, test in vars(page).items() if name.startswith("test_")]
    assert len(tests) == PAGE.read_text(encoding="utf-8").count("\ndef test_")
    for test in tests:
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
