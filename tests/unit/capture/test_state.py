"""How far a capture is, as it is kept."""

from dataclasses import replace

from runnel.capture.events import Position
from runnel.capture.state import State, TableState


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
