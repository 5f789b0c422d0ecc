"""Whatever batches are applied, and wherever watchers go on: what a watcher was told is the part of the view that it
watches, and no change was told twice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import runnel
from runnel.views.sqlite import SqliteStore
from runnel.views.store import Keep
from tests.contract.views.clicks import claimed, marker, seen

PAGES = ["a", "b", "c", "d"]
COUNTS = st.none() | st.integers(0, 5)
ROW = st.tuples(st.sampled_from(PAGES), COUNTS, st.sampled_from(["insert", "update_after", "delete"]))
BATCH = st.lists(ROW, max_size=6)
FILTERS = [
    ((), lambda row: True),
    ((("seen", ">=", 3),), lambda row: row["seen"] is not None and row["seen"] >= 3),
    ((("seen", "=", None),), lambda row: row["seen"] is None),
    ((("page", "in", ["a", "b"]), ("seen", "!=", 2)), lambda row: row["page"] in "ab" and row["seen"] not in (None, 2)),
]
# After each batch: for each watcher, whether it looks; and after how many of the changes it dies, if it does.
LOOKS = st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 4)), min_size=len(FILTERS), max_size=len(FILTERS))


class Follower:
    """Deals with one change after the other, and keeps with each where it would go on."""

    def __init__(self, chosen) -> None:
        self.chosen = chosen
        self.rows: dict = {}
        self.position = None
        self.told: set[int] = set()

    def look(self, dies_after) -> None:
        for step in self.chosen.watch(self.position, timeout=0):
            if step.is_snapshot:
                if dies_after is not None and dies_after < len(step):
                    return  # nothing of it was kept
                self.rows = {change.key["page"]: change.after for change in step}
                self.position = step.position
                continue
            for number, change in enumerate(step):
                if number == dies_after:
                    return
                assert change.position not in self.told
                self.told.add(change.position)
                assert self.rows.pop(change.key["page"], None) == change.before
                if change.after is not None:
                    self.rows[change.key["page"]] = change.after
                self.position = step.after(change)
            self.position = step.position


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(BATCH, LOOKS), max_size=8))
def test_a_follower_knows_the_part_of_the_view_that_it_watches(lives):
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(str(Path(directory) / "views.sqlite"), keep=Keep(rows=10_000))
        with claimed(store) as writer, runnel.views(directory) as views:
            view = views["clicks"]
            followers = [Follower(view.where(*conditions)) for conditions, _ in FILTERS]
            for batch, (rows, looks) in enumerate(lives):
                changes = [change for *_, change in rows]
                writer.apply(seen(*[(page, count) for page, count, _ in rows], changes=changes), marker(batch))
                for follower, (does_look, dies_after) in zip(followers, looks, strict=True):
                    if does_look:
                        follower.look(dies_after)
            everything = list(view)
            for follower, (conditions, fits) in zip(followers, FILTERS, strict=True):
                follower.look(None)
                expected = {row["page"]: row for row in everything if fits(row)}
                assert follower.rows == expected
                assert {row["page"]: row for row in view.where(*conditions)} == expected
