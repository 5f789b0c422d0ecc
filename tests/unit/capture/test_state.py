"""How far a capture is, as it is kept."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from runnel.capture import state as states
from runnel.capture.choice import Asked
from runnel.capture.events import Position
from runnel.capture.state import State, TableState, read_state, read_with_pace, topic_of


def test_a_key_is_kept_as_it_is():
    for key in [(1,), ("a", None), (b"\x00\xff", 2.5, 2**63 - 1), (float("inf"),)]:
        kept = TableState("reading", key, 3)
        assert TableState.from_json(kept.to_json().encode()) == kept


def test_a_complete_table_says_from_where_on():
    kept = TableState("complete", None, 3, {"id": 7})
    assert TableState.from_json(kept.to_json().encode()) == kept


def test_a_table_that_is_read_by_chunks_is_kept_with_all_that_is_needed_to_go_on():
    kept = TableState("reading", (b"\x00", 3), 3, {"id": 7}, True, ("a bytes", "b int64"), "b > 2", 100)
    assert TableState.from_json(kept.to_json().encode()) == kept
    assert kept.percent == 3.0
    for more in ({"is_gone": True}, {"is_again": True}):
        noted = TableState("pending", None, 0, None, by_chunks=True, **more)
        assert TableState.from_json(noted.to_json().encode()) == noted


def test_a_table_that_is_forgotten_is_taken_out_of_the_topic():
    before = State("sqlite", Position({"id": 1}), 1, {"main.a": TableState(), "main.b": TableState()})
    records = dict(before.without("main.a").changes_from(before))
    assert records.keys() == {"position", "table:main.a"}
    assert records["table:main.a"] is None


def test_signals_are_written_when_one_took_effect():
    before = State("sqlite", Position({"id": 1}), 1)
    records = dict(replace(before, signals=3, is_paused=True).changes_from(before))
    assert records["signals"] == '{"offset":3,"paused":true}'


def test_only_what_is_read_at_one_position_needs_a_snapshot():
    chunks = TableState("pending", by_chunks=True)
    state = State("sqlite", Position({"id": 1}), 1, {"main.a": chunks, "main.b": TableState("partial")})
    assert not state.needs_snapshot
    assert not state.is_complete
    assert state.with_table("main.c", TableState()).needs_snapshot
    assert state.without("main.a").is_complete


def test_a_table_keeps_its_number_until_it_is_forgotten_or_has_another():
    kept = TableState("reading", (1,), 1, number=16385)
    assert TableState.from_json(kept.to_json().encode()) == kept
    state = State("postgresql", Position({"lsn": 1}), 1, {"public.a": kept})
    assert state.with_table("public.a", TableState("complete")).tables["public.a"].number == 16385
    assert state.with_table("public.a", TableState(number=5)).tables["public.a"].number == 5
    assert state.without("public.a").with_table("public.a", TableState()).tables["public.a"].number is None


def test_what_was_asked_for_is_kept_and_written_when_it_is_another(topic):
    records, cluster = topic
    before = State("sqlite", Position({"id": 1}), 1, prefix="db")
    state = add(records, State(), replace(before, asked=(Asked(r"main\.a", True), Asked("b", False))))
    found = read_state(cluster, "shop")
    assert (found, found.prefix) == (state, "db")
    assert dict(state.changes_from(state)).keys() == {"position"}
    add(records, state, before)
    assert read_state(cluster, "shop").asked == ()


@pytest.fixture
def topic(monkeypatch):
    """Its records, and a cluster that has it. `looked` of the cluster is what was read of it."""
    records, looked = [], []
    places = [(topic_of("shop"), 0)]

    def between(cluster, place, start, end):
        looked.append(end - start)
        return [(offset, *records[offset]) for offset in range(start, end)]

    monkeypatch.setattr(states, "committed_between", between)
    monkeypatch.setattr(states.positions, "earliest", lambda cluster, places: dict.fromkeys(places, 0))
    monkeypatch.setattr(states.positions, "latest", lambda cluster, places: dict.fromkeys(places, len(records)))
    described = SimpleNamespace(places=places)
    return records, SimpleNamespace(
        all_topics=lambda: [topic_of("shop")], topic=lambda name, fresh: described, looked=looked
    )


def add(records, before, after, **how):
    for key, value in after.changes_from(before, **how):
        records.append((key.encode(), None if value is None else value.encode()))
    return after


def test_times_are_kept_and_no_part_of_what_a_state_is(topic):
    records, cluster = topic
    state = State("sqlite", Position({"id": 1}), 1, written=9_000_000, committed=8_000_000, late=500_000)
    add(records, State(), state)
    found = read_state(cluster, "shop")
    assert (found.written, found.committed, found.late) == (9_000_000, 8_000_000, 500_000)
    assert found == replace(state, written=0, committed=0, late=0)


def test_how_fast_rows_are_read_is_told_by_what_was_written_in_the_last_minute(topic):
    records, cluster = topic
    state = State("sqlite", Position({"id": 1}), 1)
    for seconds, rows in [(0, 0), (1_000, 50), (1_010, 150), (1_020, 250)]:  # it was stopped for a while
        told = replace(state.with_table("main.a", TableState("reading", (rows,), rows)), written=seconds * 1_000_000)
        state = add(records, state, told)
    found, pace = read_with_pace(cluster, "shop")
    assert found == state
    assert pace.seconds_left(100) == pytest.approx(10.0)


def test_what_was_written_by_a_capture_of_before_has_no_times_and_no_pace(topic):
    records, cluster = topic
    records.append((b"position", b'{"connector":"sqlite","at":{"id":1},"index":0,"step":1}'))
    found, pace = read_with_pace(cluster, "shop")
    assert (found.written, found.committed, pace.seconds_left(1)) == (0, 0, None)


def test_of_a_capture_that_never_was_there_is_neither_state_nor_pace(topic):
    found, pace = read_with_pace(topic[1], "other")
    assert (found, pace.seconds_left(1)) == (State(), None)


def test_a_state_is_found_behind_the_last_position_that_is_whole(topic, monkeypatch):
    records, cluster = topic
    monkeypatch.setattr(states, "BACK", (10, 50))
    tables = {"main.a": TableState(), "main.b": TableState(), "main.c": TableState()}
    before = State("sqlite", Position({"id": 0}), 1, tables, signals=3, asked=(Asked("b", False),), prefix="db")
    state = add(records, State(), before)
    for step in range(2, 100):
        state = add(records, state, replace(state, position=Position({"id": step}), step=step))
    state = add(records, state, replace(state.without("main.b"), step=100), is_whole=True)
    for step in range(101, 130):
        state = add(records, state, replace(state.with_table("main.c", TableState("reading", (step,))), step=step))
    state = add(records, state, replace(state.without("main.a"), step=130))
    found = read_state(cluster, "shop")
    assert (found, found.prefix) == (state, "db")
    assert cluster.looked == [10, 50, len(records)]  # what is whole was too far back
    cluster.looked.clear()
    state = add(records, state, replace(state.without("main.c"), step=131), is_whole=True)
    state = add(records, state, replace(state.with_table("main.d", TableState()), step=132))
    found = read_state(cluster, "shop")
    assert (found, found.prefix, cluster.looked) == (state, "db", [10])


def test_how_fast_rows_are_read_is_told_also_where_a_whole_one_was_written_a_moment_ago(topic, monkeypatch):
    records, cluster = topic
    monkeypatch.setattr(states, "BACK", (4, 12))
    state = State("sqlite", Position({"id": 1}), 1)
    for seconds in range(10, 300, 10):
        told = state.with_table("main.a", TableState("reading", (seconds,), 7 * seconds))
        state = add(records, state, replace(told, written=seconds * 1_000_000), is_whole=seconds in (100, 270))
    found, pace = read_with_pace(cluster, "shop")
    assert (found, pace.seconds_left(70)) == (state, pytest.approx(10.0))
    assert cluster.looked == [4, 12, len(records)]
