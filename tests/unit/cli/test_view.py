"""`runnel view`: rows, changes, and what is wrong with what was asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from runnel.cli.conditions import NoCondition, parts
from runnel.views.opening import open_store
from runnel.views.store import Declared, Marker
from tests.contract.views.clicks import QUERY, claimed, marker, seen

AMOUNTS = Declared(
    "amounts",
    ("day", "city"),
    pa.schema(
        [
            ("day", pa.date32()),
            ("city", pa.string()),
            ("amount", pa.decimal128(10, 2)),
            ("ratio", pa.float64()),
            ("is_open", pa.bool_()),
            ("last", pa.timestamp("us", "UTC")),
            ("took", pa.duration("us")),
            ("tags", pa.list_(pa.string())),
        ]
    ),
)


@pytest.fixture
def data(tmp_path):
    with claimed(open_store(str(tmp_path))) as writer:
        writer.apply(seen(("a", 1), ("b", 20), ("c", None)), marker(0))
    return tmp_path


@pytest.fixture
def amounts(tmp_path):
    day, last = 20_454, 1_767_225_600_000_000
    rows = pa.table(
        [
            pa.array([day, day + 1], pa.int32()).cast(pa.date32()),
            ["Graz", "Wien"],
            [Decimal("9.50"), Decimal("10.00")],
            [0.5, float("nan")],
            [True, False],
            pa.array([last, last + 1_000_000], pa.int64()).cast(pa.timestamp("us", "UTC")),
            pa.array([1_000_000, 60_000_000], pa.int64()).cast(pa.duration("us")),
            [["x", "y"], []],
        ],
        AMOUNTS.schema,
    )
    with open_store(str(tmp_path)).writer(AMOUNTS, QUERY) as writer:
        writer.claim()
        writer.apply(rows, Marker(QUERY, 0, "c", {}))
    return tmp_path


def error(what, hint):
    return f"error: {what}\nhint: {hint}\n"


# --- rows


def test_the_rows_of_a_view_are_a_table(runnel, data):
    result = runnel("view", "clicks", "--views", data)
    assert (result.code, result.err) == (0, "")
    assert [line.split() for line in result.out.splitlines()] == [["page", "seen"], ["a", "1"], ["b", "20"], ["c", "-"]]


def test_json_is_one_object_a_line_for_programs(runnel, data):
    result = runnel("view", "clicks", "--views", data, "--json")
    assert [json.loads(line) for line in result.out.splitlines()] == [
        {"page": "a", "seen": 1},
        {"page": "b", "seen": 20},
        {"page": "c", "seen": None},
    ]


def pages(result):
    assert result.code == 0, result.err
    return [json.loads(line)["page"] for line in result.out.splitlines()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--where", "seen>=10"], ["b"]),
        (["--where", "seen < 10"], ["a"]),
        (["--where", "seen != 1"], ["b"]),
        (["--where", "page=c"], ["c"]),
        (["--where", "page in a, c"], ["a", "c"]),
        (["--where", "page not in a,c"], ["b"]),
        (["--where", "seen is null"], ["c"]),
        (["--where", "seen is not null"], ["a", "b"]),
        (["--where", "seen>0", "--where", "page!=a"], ["b"]),
        (["--order", "-seen"], ["b", "a", "c"]),
        (["--order", "seen", "--limit", "1"], ["a"]),
        (["--limit", "2"], ["a", "b"]),
        (["--key", "page=a", "--where", "seen>5"], []),
    ],
)
def test_rows_are_chosen_ordered_and_limited(runnel, data, options, expected):
    assert pages(runnel("view", "clicks", "--views", data, "--json", *options)) == expected


def test_values_are_shown_as_nested_ones_are_kept(runnel, amounts):
    result = runnel("view", "amounts", "--views", amounts, "--json", "--limit", "1")
    assert json.loads(result.out) == {
        "day": "2026-01-01",
        "city": "Graz",
        "amount": "9.50",
        "ratio": 0.5,
        "is_open": True,
        "last": "2026-01-01T00:00:00.000000Z",
        "took": 1_000_000,
        "tags": ["x", "y"],
    }
    shown = runnel("view", "amounts", "--views", amounts).out.splitlines()[1].split()
    assert shown == [
        "2026-01-01",
        "Graz",
        "9.50",
        "0.5",
        "true",
        "2026-01-01T00:00:00.000000Z",
        "1000000",
        '["x",',
        '"y"]',
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "amount>9.75", "ratio=nan", "is_open=false", "last>2026-01-01T00:00:00Z", "day=2026-01-02", "took>=1m",
        "city=Wien",
    ],
)  # fmt: skip
def test_a_value_is_read_by_the_type_of_its_column(runnel, amounts, condition):
    result = runnel("view", "amounts", "--views", amounts, "--json", "--where", condition)
    assert [json.loads(line)["city"] for line in result.out.splitlines()] == ["Wien"]


def test_one_row_is_found_by_its_key(runnel, amounts):
    result = runnel("view", "amounts", "--views", amounts, "--key", "city=Wien", "--key", "day=2026-01-02", "--json")
    assert json.loads(result.out)["amount"] == "10.00"
    assert result.code == 0


def test_a_table_shows_a_hundred_rows_and_how_many_there_are(runnel, tmp_path):
    with claimed(open_store(str(tmp_path))) as writer:
        writer.apply(seen(*((f"p{page:04}", page) for page in range(1_234))), marker(0))
    shown = runnel("view", "clicks", "--views", tmp_path).out.splitlines()
    assert len(shown) == 102
    assert shown[-1] == "100 of 1,234 rows; --limit shows more, --json all"
    assert len(runnel("view", "clicks", "--views", tmp_path, "--json").out.splitlines()) == 1_234
    assert len(runnel("view", "clicks", "--views", tmp_path, "--limit", "200").out.splitlines()) == 201


# --- all views


def test_without_a_name_the_views_are_listed(runnel, data, amounts):
    result = runnel("view", "--views", data)
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["view", "rows", "key", "last", "change"]
    assert lines[1][:4] == ["amounts", "2", "day,", "city"]
    assert lines[2][:3] == ["clicks", "3", "page"]
    assert all(line[-1] == "ago" for line in lines[1:])
    told = json.loads(runnel("view", "--views", data, "--json").out)
    assert [{**each, "changed": None} for each in told] == [
        {"view": "amounts", "rows": 2, "key": ["day", "city"], "changed": None},
        {"view": "clicks", "rows": 3, "key": ["page"], "changed": None},
    ]
    assert all(isinstance(each["changed"], int) for each in told)


def test_a_directory_without_views_says_so(runnel, tmp_path):
    result = runnel("view", "--views", tmp_path / "nothing")
    assert (result.code, result.out) == (0, f"no views in {tmp_path}/nothing: --views names another place\n")


def test_views_are_looked_for_where_the_environment_says(runnel, data, monkeypatch):
    monkeypatch.setenv("RUNNEL_VIEWS", str(data))
    assert pages(runnel("view", "clicks", "--json")) == ["a", "b", "c"]


# --- changes


def test_a_watch_shows_the_rows_and_what_changes(runnel, data):
    result = runnel("view", "clicks", "--views", data, "--watch", "--timeout", "0s")
    assert result.code == 0
    assert result.out.splitlines() == [
        'insert  {"page":"a","seen":1}',
        'insert  {"page":"b","seen":20}',
        'insert  {"page":"c","seen":null}',
    ]
    with claimed(open_store(str(data))) as writer:
        writer.apply(seen(("a", 2), ("b", None), changes=["update_after", "delete"]), marker(1))
    result = runnel("view", "clicks", "--views", data, "--watch", "--timeout", "0s", "--from", "3@checkpoint-1")
    assert result.out.splitlines() == [
        'update  {"page":"a","seen":1} -> {"page":"a","seen":2}',
        'delete  {"page":"b","seen":20}',
    ]


def test_each_change_has_where_to_go_on(runnel, data):
    watch = ["view", "clicks", "--views", data, "--watch", "--json", "--timeout", "0s"]
    first = [json.loads(line) for line in runnel(*watch).out.splitlines()]
    assert [each["position"] for each in first] == [None, None, "3@checkpoint-1"]
    assert first[0] == {
        "change": "insert", "before": None, "after": {"page": "a", "seen": 1}, "snapshot": True, "position": None,
    }  # fmt: skip
    with claimed(open_store(str(data))) as writer:
        writer.apply(seen(("a", 2), ("b", 21)), marker(1))
    then = [json.loads(line) for line in runnel(*watch, "--from", "3@checkpoint-1").out.splitlines()]
    assert [(each["change"], each["position"], each["snapshot"]) for each in then] == [
        ("update", "4@checkpoint-1", False),
        ("update", "5@checkpoint-1", False),
    ]
    assert len(runnel(*watch, "--from", "4@checkpoint-1").out.splitlines()) == 1
    assert len(runnel(*watch, "--limit", "2").out.splitlines()) == 2


def test_a_watch_tells_of_a_part_alone(runnel, data):
    watch = ["view", "clicks", "--views", data, "--watch", "--timeout", "0s"]
    assert runnel(*watch, "--where", "seen>5").out == 'insert  {"page":"b","seen":20}\n'
    assert runnel(*watch, "--key", "page=a").out == 'insert  {"page":"a","seen":1}\n'


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_watch_between_two_steps(data, number, code):
    program = "from runnel.cli import main; main()"
    command = [sys.executable, "-c", program, "view", "clicks", "--views", str(data), "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        first = [watch.stdout.readline() for _ in range(3)]
        assert first[0] == 'insert  {"page":"a","seen":1}\n'
        with claimed(open_store(str(data))) as writer:
            writer.apply(seen(("a", 2)), marker(1))
        assert watch.stdout.readline().startswith("update  ")
        os.kill(watch.pid, number)
        out, err = watch.communicate(timeout=120)
    assert (out, err, watch.returncode) == ("", "", code)


# --- what is wrong


def test_an_unknown_view_is_told_with_those_that_are_there(runnel, data):
    result = runnel("view", "click", "--views", data)
    assert (result.code, result.out) == (1, "")
    assert result.err == error(
        f"the store {data}/views.sqlite has no view 'click'; it has: clicks",
        "see to the name, or start the app that keeps the view",
    )


@pytest.mark.parametrize("option", [["--where", "sen>1"], ["--key", "sen=1"], ["--order", "sen"]])
def test_an_unknown_column_is_told_with_those_that_are_there(runnel, data, option):
    result = runnel("view", "clicks", "--views", data, *option)
    assert (result.code, result.out) == (1, "")
    assert result.err == error("view 'clicks' has no column 'sen'", "its columns are page, seen")


def test_a_value_of_the_wrong_type_is_told(runnel, data):
    result = runnel("view", "clicks", "--views", data, "--where", "seen>many")
    assert (result.code, result.out) == (1, "")
    assert result.err == error(
        "view 'clicks' cannot be filtered so: 'many' is no value of seen", "seen is of type int64"
    )


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("amount=much", "decimal128(10, 2)"), ("amount=1.234", "decimal128(10, 2)"), ("ratio=half", "double"),
        ("is_open=perhaps", "bool"), ("last>noon", "timestamp[us, tz=UTC]"), ("day=today", "date32[day]"),
        ("took>long", "duration[us]"),
    ],
)  # fmt: skip
def test_whatever_the_type_a_wrong_value_is_told(runnel, amounts, condition, kind):
    result = runnel("view", "amounts", "--views", amounts, "--where", condition)
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith(f"hint: {parts(condition)[0]} is of type {kind}\n")


def test_a_key_without_a_row_is_told(runnel, data):
    result = runnel("view", "clicks", "--views", data, "--key", "page=zzz")
    assert (result.code, result.out) == (1, "")
    assert result.err == error(
        "view 'clicks' has no row for page=zzz", "see to the key, or whether the app has come to it"
    )


def test_a_key_that_is_not_whole_is_told(runnel, amounts):
    result = runnel("view", "amounts", "--views", amounts, "--key", "city=Graz")
    assert result.code == 1
    assert result.err == error(
        "view 'amounts' has no such key: it was asked for by city", "give a value for each of day, city"
    )


def test_a_position_that_was_trimmed_away_is_told(runnel, data):
    result = runnel("view", "clicks", "--views", data, "--watch", "--from", "99@checkpoint-1")
    assert result.code == 1
    assert result.err == error(
        "the change log of view 'clicks' goes from position 0 to 3, and 99 was asked for",
        "the view was made anew: read it as it is and watch from there",
    )


def test_a_store_that_cannot_be_reached_is_told(runnel):
    result = runnel("view", "clicks", "--views", "postgresql://nobody@127.0.0.1:1/nothing")
    assert (result.code, result.out) == (1, "")
    what, hint = result.err.splitlines()
    assert what.startswith("error: the view store postgresql://nobody@127.0.0.1:1/nothing cannot be reached: ")
    assert hint.startswith("hint: see whether it is up and whether the address is right")


def test_an_address_of_no_store_is_told(runnel):
    result = runnel("view", "--views", "redis://here")
    assert result.code == 1
    assert result.err == error(
        "'redis://here' is no address of a view store: redis is no kind of store that we know",
        "give a data directory, sqlite:PATH or postgresql://USER@HOST:PORT/DATABASE",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--where", "a=1"], "Invalid value for '--where': say of which view: runnel view NAME."),
        (["--limit", "3"], "Invalid value for '--limit': say of which view: runnel view NAME."),
        (["--watch"], "Invalid value for '--watch': say of which view: runnel view NAME."),
        (["clicks", "--from", "3@x"], "Invalid value for '--from': it is for --watch."),
        (["clicks", "--timeout", "3s"], "Invalid value for '--timeout': it is for --watch."),
        (["clicks", "--watch", "--timeout", "soon"], "Invalid value for '--timeout': 'soon' is no duration"),
        (["clicks", "--watch", "--order", "seen"], "Invalid value for '--order': changes come in their own order."),
        (["clicks", "--key", "page"], "Invalid value for '--key': 'page' is not of the form NAME=VALUE."),
        (["clicks", "--where", "page"], "Invalid value for '--where': 'page' is no condition: expected one such as"),
        (["clicks", "--limit", "0"], "Invalid value for '--limit'"),
    ],
)
def test_a_call_that_makes_no_sense_ends_with_two(runnel, data, arguments, text):
    result = runnel("view", "--views", data, *arguments)
    assert (result.code, result.out) == (2, "")
    assert text in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count>=10", ("count", ">=", "10")),
        (" count  =  a=b ", ("count", "=", "a=b")),
        ("page=", ("page", "=", "")),
        ("the page!=x y", ("the page", "!=", "x y")),
        ("page = a in b", ("page", "=", "a in b")),
        ("title=made in china", ("title", "=", "made in china")),
        ("note=this is null", ("note", "=", "this is null")),
        ("the page in a,b", ("the page", "in", "a,b")),
        ("page in a,b", ("page", "in", "a,b")),
        ("city is not null", ("city", "!=", None)),
    ],
)
def test_a_condition_has_three_parts(text, expected):
    assert parts(text) == expected


@pytest.mark.parametrize("text", ["", "page", "page in", "= 5", "is null", "page==p1", "page<>p1"])
def test_what_has_not_is_none(text):
    with pytest.raises(NoCondition):
        parts(text)
