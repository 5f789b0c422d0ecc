"""How far a capture is, as it is kept."""

from runnel.capture.state import TableState


def test_a_key_is_kept_as_it_is():
    for key in [(1,), ("a", None), (b"\x00\xff", 2.5, 2**63 - 1), (float("inf"),)]:
        kept = TableState("reading", key, 3)
        assert TableState.from_json(kept.to_json().encode()) == kept


def test_a_complete_table_says_from_where_on():
    kept = TableState("complete", None, 3, {"id": 7})
    assert TableState.from_json(kept.to_json().encode()) == kept
