"""What people ask of a capture, and what becomes of it."""

import json
import logging

import pytest

from runnel.capture.errors import BrokenSignal, InvalidChoice, TableMissing
from runnel.capture.events import Position
from runnel.capture.signals import Choose, Execute, Pause, Stop, ask_for, heeded, parse, until_choice
from runnel.capture.state import State, TableState
from tests.unit.capture.customers import CUSTOMERS, LOOSE

TABLES = {CUSTOMERS.id: CUSTOMERS, LOOSE.id: LOOSE}
AT = Position({"id": 7})


def record(kind, data=None, key=b"shop"):
    return key, json.dumps({"id": "x", "type": kind, "data": data}).encode()


def after(state, *records):
    return heeded(records, "shop", state, list(TABLES), TABLES.__getitem__)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (record("execute-snapshot", {"data-collections": ["public.customers"]}), Execute(("public.customers",))),
        (
            record(
                "execute-snapshot",
                {
                    "data-collections": [".*"],
                    "type": "INCREMENTAL",
                    "additional-conditions": [{"data-collection": "public.customers", "filter": "id > 10"}],
                },
            ),
            Execute((".*",), (("public.customers", "id > 10"),)),
        ),
        (record("stop-snapshot"), Stop()),
        (record("stop-snapshot", {"data-collections": ["a", "b"], "type": "incremental"}), Stop(("a", "b"))),
        (record("pause-snapshot", {"type": "incremental"}), Pause(True)),
        (record("resume-snapshot"), Pause(False)),
        (record("add-tables", {"data-collections": ["a", "b"]}), Choose(("a", "b"), is_added=True)),
        (record("remove-tables", {"data-collections": ["a"]}), Choose(("a",), is_added=False)),
    ],
)
def test_a_signal_is_one_of_debeziums_or_chooses_tables(given, expected):
    assert parse(*given, "shop") == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((b"other", b"{}"), "its key is 'other', and this capture is 'shop'"),
        ((None, b"{}"), "its key is empty"),
        ((b"shop", None), "empty is no JSON"),
        ((b"shop", b"hello"), "'hello' is no JSON"),
        ((b"shop", b"[" * 20_000), "is no JSON"),
        ((b"shop", b"[]"), "is no object"),
        (record("log"), "its type is 'log': expected execute-snapshot, stop-snapshot"),
        ((b"shop", b'{"type": ["a"]}'), "its type is"),
        (record("execute-snapshot", ["a"]), "and no object"),
        (record("execute-snapshot"), "it names no data-collections"),
        (record("add-tables"), "it names no data-collections"),
        (record("remove-tables", {"data-collections": []}), "it names no data-collections"),
        (record("execute-snapshot", {"data-collections": "a"}), "its data-collections are no list of texts"),
        (record("execute-snapshot", {"data-collections": ["a"], "type": "blocking"}), "is of type 'blocking'"),
        (
            record("execute-snapshot", {"data-collections": ["a"], "additional-conditions": [1]}),
            "its additional-conditions are no list of objects",
        ),
        (
            record("execute-snapshot", {"data-collections": ["a"], "additional-conditions": [{"filter": "x"}]}),
            "a condition has no data-collection",
        ),
    ],
)
def test_a_broken_signal_is_told_with_what_is_wrong(given, reason):
    with pytest.raises(BrokenSignal) as raised:
        parse(*given, "shop")
    assert reason in str(raised.value)


def test_what_is_no_expression_is_told():
    with pytest.raises(InvalidChoice):
        parse(*record("stop-snapshot", {"data-collections": ["("]}), "shop")


def test_a_broken_signal_is_passed_over_and_the_next_one_counts(caplog):
    state = after(State("sqlite", AT), (b"shop", b"hello"), record("pause-snapshot"))
    assert state.is_paused
    assert "passes over a signal: a signal cannot be heeded: 'hello' is no JSON" in caplog.text


def test_tables_that_fit_are_read_from_their_beginning_and_stay_complete_from_where_they_were(caplog):
    complete = TableState("complete", None, 5, {"id": 3})
    state = State("sqlite", AT, 0, {"public.customers": complete, "public.loose": complete})
    conditions = [{"data-collection": "public.customers", "filter": "id > 10"}]
    data = {"data-collections": ["public.*"], "additional-conditions": conditions}
    with caplog.at_level(logging.ERROR):
        found = after(state, record("execute-snapshot", data))
    assert found.tables["public.customers"] == TableState(
        "pending", None, 0, {"id": 3}, by_chunks=True, where="id > 10"
    )
    assert found.tables["public.loose"] == complete
    assert 'table "public.loose" cannot be read by chunks: it has no primary key' in caplog.text


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("id > 1", "id < 9", "(id > 1\n) OR (id < 9\n)"),
        ("id > 1", "id > 1", "id > 1"),
        ("id > 1", None, None),
        (None, "id < 9", None),
    ],
)
def test_what_is_left_of_a_reading_is_read_with_the_next(first, second, expected):
    def ask(where):
        conditions = [{"data-collection": "public.customers", "filter": where}] if where else []
        return record(
            "execute-snapshot", {"data-collections": ["public.customers"], "additional-conditions": conditions}
        )

    state = after(State("sqlite", AT), ask(first), ask(second))
    assert state.table(CUSTOMERS.id).where == expected


def test_only_a_signal_that_asks_for_a_table_means_it():
    asked = record("execute-snapshot", {"data-collections": ["public.customers"]})
    assert ask_for([record("pause-snapshot"), (b"shop", b"{"), asked], "shop", [CUSTOMERS.id])
    assert not ask_for([record("pause-snapshot"), asked], "shop", [LOOSE.id])


def test_a_table_that_is_not_captured_is_told(caplog):
    state = State("sqlite", AT)
    assert after(state, record("execute-snapshot", {"data-collections": ["public.nothing"]})) == state
    assert "no captured table is called public.nothing" in caplog.text


def test_a_table_that_goes_before_it_is_looked_at_is_left_out_and_the_others_are_read(caplog):
    def described(table):
        if table == LOOSE.id:
            raise TableMissing(str(table), "shop", [])
        return CUSTOMERS

    asked = record("execute-snapshot", {"data-collections": ["public.*"]})
    state = heeded([asked, record("pause-snapshot")], "shop", State("sqlite", AT), [LOOSE.id, CUSTOMERS.id], described)
    assert state.is_paused
    assert list(state.tables) == [str(CUSTOMERS.id)]
    assert 'the snapshot of public.loose is left out: database shop has no table "public.loose"' in caplog.text


@pytest.mark.parametrize("named", [None, {"data-collections": ["public.customers"]}])
def test_a_stopped_table_is_partial_unless_it_was_complete_before(named):
    reading = TableState("reading", (3,), 3, None, by_chunks=True, columns=("id int32",))
    again = TableState("pending", None, 0, {"id": 3}, by_chunks=True)
    state = State("sqlite", AT, 0, {"public.customers": reading, "public.other": again})
    found = after(state, record("stop-snapshot", named))
    assert found.tables["public.customers"] == TableState("partial", None, 3)
    assert found.tables["public.other"] == (again if named else TableState("complete", None, 0, {"id": 3}))
    assert found.is_complete == (not named)


def test_a_table_that_is_read_at_one_position_is_not_stopped():
    state = State("sqlite", AT, 0, {"public.customers": TableState("reading", (3,), 3)})
    assert after(state, record("stop-snapshot")) == state


def test_reading_is_paused_and_resumed():
    state = after(State("sqlite", AT), record("pause-snapshot"), record("resume-snapshot"), record("pause-snapshot"))
    assert state.is_paused
    assert not after(state, record("resume-snapshot")).is_paused


def test_what_is_before_a_choice_of_tables_is_heeded_first_and_a_broken_one_is_no_choice():
    pause, broken = record("pause-snapshot"), record("add-tables", {"data-collections": ["("]})
    added = record("add-tables", {"data-collections": ["a"]})
    removed = record("remove-tables", {"data-collections": ["a"]})
    assert until_choice([pause, broken, added, removed], "shop") == ([pause, broken], Choose(("a",), is_added=True))
    assert until_choice([removed, pause], "shop") == ([], Choose(("a",), is_added=False))
    assert until_choice([pause, broken], "shop") == ([pause, broken], None)
