"""Watchers: first what is there, then every change, once, whatever dies in between. The same for every store."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

import pytest

import runnel
from runnel.client import Token
from runnel.views.errors import InvalidFilter, InvalidPosition, PositionOutOfRange, StoreUnreachable, ViewReplaced
from runnel.views.opening import open_store
from runnel.views.reader import SqlReader
from runnel.views.store import Keep
from tests.contract.views.clicks import claimed, marker, seen
from tests.contract.views.test_exchange import NEW, OTHER_KEY, copied, of_days

processes = get_context("forkserver")
processes.set_forkserver_preload(["runnel.views.sqlite", "runnel.views.postgres", __name__])

PAGES = 12
KILLS = 4


class Follower:
    """What somebody knows who deals with the steps of a watcher, and forgets all but what was kept."""

    def __init__(self) -> None:
        self.rows: dict[str, dict] = {}
        self.position: str | None = None
        self.last = -1

    def take(self, step) -> None:
        if step.is_snapshot:
            self.rows.clear()
        for change in step:
            if not step.is_snapshot:
                assert change.position > self.last, "told twice"
                self.last = change.position
            page = change.key["page"]
            assert self.rows.get(page) == change.before
            self.rows[page] = change.after
            if change.after is None:
                del self.rows[page]
        if step.is_snapshot and step.changes:
            self.last = step.changes[-1].position
        self.position = step.position


def drained(view, follower):
    for step in view.watch(follower.position, timeout=0):
        follower.take(step)


def rows_of(view):
    return {row["page"]: row for row in view}


@pytest.fixture
def views(place):
    with runnel.views(place.address) as found:
        yield found


def batches_of(view):
    """How many the writer of a killed test has applied."""
    with view._source as reader:
        done = reader.marker()
    return 0 if done is None else done.positions["clicks"]["0"]


def test_first_comes_what_is_there_then_every_change_in_whole_batches(store, views):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
        with views["clicks"].watch() as steps:
            first = next(steps)
            assert first.is_snapshot
            assert [(change.kind, change.after) for change in first] == [
                ("insert", {"page": "a", "seen": 1}),
                ("insert", {"page": "b", "seen": 2}),
            ]
            writer.apply(seen(("a", 3), ("c", 1)), marker(1))
            second = next(steps)
            assert not second.is_snapshot
            assert [(change.kind, change.key["page"]) for change in second] == [("update", "a"), ("insert", "c")]
            assert steps.position == second.position


def test_a_view_without_rows_begins_with_a_snapshot_of_nothing(store, views):
    with claimed(store) as writer:
        steps = views["clicks"].watch(timeout=0)
        first = next(steps)
        assert first.is_snapshot
        assert len(first) == 0
        writer.apply(seen(("a", 1)), marker(0))
        assert [change.kind for change in next(steps)] == ["insert"]
        # One that was told before the first batch goes on, too.
        (step,) = views["clicks"].watch(first.position, timeout=0)
        assert [change.kind for change in step] == ["insert"]


def test_a_watcher_goes_on_after_the_changes_it_dealt_with(store, views):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        position = views["clicks"].position()
        writer.apply(seen(("a", 2), ("b", 1), ("c", 1)), marker(1))
        (step,) = views["clicks"].watch(position, timeout=0)
        assert [change.key["page"] for change in step] == ["a", "b", "c"]
        for number, change in enumerate(step, start=1):
            rest = list(views["clicks"].watch(step.after(change), timeout=0))
            assert [each.key["page"] for one in rest for each in one] == ["a", "b", "c"][number:]


def test_inside_of_a_snapshot_there_is_nowhere_to_go_on(store, views):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
    first = next(views["clicks"].watch())
    assert [first.after(change) for change in first] == [None, first.position]


def test_a_filter_that_nothing_fits_moves_on_all_the_same(store, views):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        steps = views["clicks"].where(("seen", ">", 100)).watch(timeout=0)
        position = next(steps).position
        for batch in range(1, 5):
            writer.apply(seen(("a", batch + 1)), marker(batch))
        assert list(steps) == []
        assert steps.position == views["clicks"].position() != position


def test_a_position_that_was_trimmed_away_is_told(open_at, views):
    with claimed(open_at(keep=Keep(rows=2))) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        position = views["clicks"].position()
        for batch in range(1, 5):
            writer.apply(seen(("a", batch + 1)), marker(batch))
        writer.trim()
        with pytest.raises(PositionOutOfRange, match="read the view as it is and watch from there"):
            next(views["clicks"].watch(position, timeout=0))


def test_a_watcher_sees_a_batch_that_changes_more_than_is_kept(open_at, views):
    with claimed(open_at(keep=Keep(rows=2))) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        steps = views["clicks"].watch(timeout=0)
        next(steps)
        writer.apply(seen(("b", 1), ("c", 1), ("d", 1)), marker(1))
        writer.trim()
        assert [change.key["page"] for change in next(steps)] == ["b", "c", "d"]
        writer.apply(seen(("a", 2)), marker(2))
        assert [(change.kind, change.after["seen"]) for change in next(steps)] == [("update", 2)]


def test_a_watcher_that_large_batches_have_left_behind_begins_anew(open_at, views):
    with claimed(open_at(keep=Keep(rows=2))) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        steps = views["clicks"].watch(timeout=0)
        next(steps)
        writer.apply(seen(("b", 1), ("c", 1), ("d", 1)), marker(1))
        writer.apply(seen(("e", 1), ("f", 1), ("g", 1)), marker(2))
        writer.trim()
        with pytest.raises(PositionOutOfRange, match="read the view as it is and watch from there"):
            next(steps)
        anew = views["clicks"].watch(timeout=0)
        assert {change.key["page"] for change in next(anew)} == set("abcdefg")


def test_a_view_that_was_made_anew_is_told_by_the_position(store, views, place):
    with claimed(store) as writer:
        for batch in range(3):
            writer.apply(seen(("a", batch)), marker(batch))
    position = views["clicks"].position()
    for statement in ("DROP TABLE clicks", "DROP TABLE runnel_changes_1", "DROP TABLE runnel_commits"):
        place.query(statement)
    place.query("DROP TABLE runnel_views")
    with claimed(store) as writer:
        for batch in range(5):
            writer.apply(seen(("a", batch)), marker(batch, NEW))
    with pytest.raises(ViewReplaced) as told:
        next(views["clicks"].watch(position, timeout=0))
    assert str(told.value) == (
        "view 'clicks' was made anew, and the position 3@checkpoint-1 is of the one before "
        "(read it as it is and watch from there)"
    )


def of_an_older_runnel(place):
    place.query("ALTER TABLE runnel_views DROP COLUMN log")


def of_this_runnel(place):
    pass


@pytest.mark.parametrize("made", [of_this_runnel, of_an_older_runnel])
def test_positions_go_on_when_a_copy_with_the_same_columns_takes_the_place_and_gives_it_back(store, views, place, made):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2), ("c", 3)), marker(0))
    copied(store, seen(("a", 1), ("b", 5), ("d", 4)))
    made(place)
    view = views["clicks"]
    always, now_and_then, later = Follower(), Follower(), Follower()
    watching = view.watch(timeout=0)
    first = next(watching)
    for follower in (always, now_and_then, later):
        follower.take(first)
    for expected in (
        [("update", "b"), ("insert", "d"), ("delete", "c")],
        [("update", "b"), ("insert", "c"), ("delete", "d")],
    ):
        store.exchange("clicks")
        step = next(watching)
        assert [(change.kind, change.key["page"]) for change in step] == expected
        always.take(step)
        drained(view, now_and_then)
        assert always.rows == now_and_then.rows == rows_of(view)
        assert always.position == now_and_then.position == view.position()
    with claimed(store) as writer:
        writer.apply(seen(("b", 7)), marker(1))
    always.take(next(watching))
    drained(view, later)
    assert always.rows == later.rows == rows_of(view)


@pytest.mark.parametrize("made", [of_this_runnel, of_an_older_runnel])
def test_positions_are_of_the_view_before_when_a_copy_with_other_columns_takes_the_place(store, views, place, made):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
    copied(store, of_days(("a", 1, 1)), OTHER_KEY)
    made(place)
    view = views["clicks"]
    watching = view.watch(timeout=0)
    position = next(watching).position
    store.exchange("clicks")
    with pytest.raises(ViewReplaced, match=f"the position {position} is of the one before"):
        next(watching)
    with claimed(store, OTHER_KEY) as writer:
        for batch in range(8, 14):
            writer.apply(of_days(("a", batch, 1)), marker(batch, NEW))
    with pytest.raises(ViewReplaced, match=f"the position {position} is of the one before"):
        next(view.watch(position, timeout=0))
    assert [change.after for change in next(view.watch(timeout=0))] == [{"page": "a", "seen": 13, "day": 1}]


def test_rows_have_the_key_of_their_moment_whatever_takes_the_place_right_behind_it(store, views, monkeypatch):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    copied(store, of_days(("a", 1, 1)), OTHER_KEY)
    look = SqlReader.snapshot

    def snapshot(reader, where=()):
        found = look(reader, where)
        store.exchange("clicks")
        return found

    monkeypatch.setattr(SqlReader, "snapshot", snapshot)
    assert [change.key for change in next(views["clicks"].watch(timeout=0))] == [{"page": "a"}]


def test_positions_go_on_when_another_checkpoint_goes_on_with_the_rows(store, views):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        position = views["clicks"].position()
        writer.apply(seen(("a", 2)), marker(0, NEW))
        (step,) = views["clicks"].watch(position, timeout=0)
        assert [(change.before["seen"], change.after["seen"]) for change in step] == [(1, 2)]


def test_a_store_that_an_older_runnel_made_without_a_view_takes_one(store, views, place):
    with claimed(store):
        pass
    for statement in ("DROP TABLE clicks", "DROP TABLE runnel_changes_1", "DELETE FROM runnel_views"):
        place.query(statement)
    of_an_older_runnel(place)
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    assert views["clicks"].position() == "1@checkpoint-1"


@pytest.mark.parametrize("position", ["", "7", "@", "x@y", "-1@y", 7])
def test_what_is_no_position_is_told(store, views, position):
    with claimed(store):
        pass
    with pytest.raises(InvalidPosition, match="is no position of view 'clicks'"):
        views["clicks"].watch(position)


def test_what_is_ordered_or_limited_cannot_be_watched(store, views):
    with claimed(store):
        pass
    for chosen in (views["clicks"].order_by("seen"), views["clicks"].limit(3)):
        with pytest.raises(InvalidFilter, match="what is ordered or limited cannot be watched"):
            chosen.watch()


def test_a_watcher_that_waits_can_be_stopped(store, views):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    steps = views["clicks"].watch()
    next(steps)
    ended = threading.Event()

    def watch():
        assert list(steps) == []
        ended.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    steps.stop()
    watcher.join()
    assert ended.is_set()


def test_a_store_that_is_away_for_a_while_is_waited_for(store, views, monkeypatch):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        steps = views["clicks"].watch(timeout=0)
        next(steps)
        writer.apply(seen(("a", 2)), marker(1))
        changes, away = SqlReader.changes, [1, 2, 3]

        def come_and_go(*arguments, **more):
            if away:
                away.pop()
                raise StoreUnreachable("the store", "connection refused")
            return changes(*arguments, **more)

        monkeypatch.setattr(SqlReader, "changes", come_and_go)
        assert [change.after["seen"] for change in next(steps)] == [2]
        assert away == []


def apply_for_ever(address: str, seed: int) -> None:
    """A writer that goes on where the one before it died."""
    store = open_store(address, keep=Keep(rows=100_000))
    with claimed(store) as writer:
        done = writer.marker()
        batch = done.batch + 1 if done else 0
        while True:
            chance = random.Random(f"{seed} {batch}")
            pages = chance.sample(range(PAGES), chance.randint(0, 5))
            rows = [(f"p{page}", chance.randrange(100)) for page in pages]
            changes = [chance.choice(["update_after", "update_after", "delete"]) for _ in rows]
            writer.apply(seen(*rows, changes=changes), marker(batch, clicks={"0": batch + 1}))
            batch += 1


@contextmanager
def killed_writer(address: str, seed: int) -> Iterator[None]:
    """It writes inside of the block, and dies in the middle of something."""
    writer = processes.Process(target=apply_for_ever, args=(address, seed), daemon=True)
    writer.start()
    try:
        yield
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        writer.close()


def test_watchers_miss_nothing_and_are_told_nothing_twice_though_the_writer_is_killed(place, store, views):
    """Two watchers, of all and of a part, that forget and go on again, while the writer is killed and begun again."""
    chance = random.Random(7)
    with claimed(store):
        pass
    view = views["clicks"]
    everything, many = Follower(), Follower()
    for life in range(KILLS):
        with killed_writer(place.address, life):
            done = batches_of(view)
            for follower, chosen in ((everything, view), (many, view.where(("seen", ">=", 50)))):
                with chosen.watch(follower.position) as steps:
                    for step in steps:
                        follower.take(step)
                        if batches_of(view) > done + 20 and chance.random() < 0.3:
                            break  # what comes after is not dealt with: the next one begins there
        drained(view, everything)
        drained(view.where(("seen", ">=", 50)), many)
        expected = rows_of(view)
        assert everything.rows == expected
        assert many.rows == {page: row for page, row in expected.items() if row["seen"] >= 50}


def wait_in_another_process(address: str, offset: int) -> None:
    runnel.views(address)["clicks"].wait_for(Token("clicks", 0, offset), timeout=120)


def test_a_write_is_waited_for_though_the_writer_is_killed(place, store):
    with claimed(store):
        pass
    waiting = processes.Process(target=wait_in_another_process, args=(place.address, 60), daemon=True)
    waiting.start()
    with runnel.views(place.address) as views:
        for life in range(3):
            with killed_writer(place.address, life):
                views["clicks"].wait_for(Token("clicks", 0, 25 * (life + 1) - 1), timeout=120)
                assert batches_of(views["clicks"]) >= 25 * (life + 1)
    waiting.join()
    assert waiting.exitcode == 0
    waiting.close()
