"""What a running app does when one of its views is rebuilt, without Spark."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from runnel import App
from runnel.app.handover import LOOK_FOR_OLD_EVERY, Handover
from runnel.app.rebuilds import Rebuilds
from runnel.app.runner import Running, place_of
from runnel.files import DiskFiles


@dataclass
class Query:
    place: Any
    name: str = "pages"
    stops: int = 0
    meanwhile: Any = None

    def stop(self) -> None:
        self.stops += 1
        if self.meanwhile is not None:
            self.meanwhile()


@pytest.fixture
def query(tmp_path):
    return Query(place_of(App("shop"), Running("127.0.0.1:1", tmp_path)))


@pytest.fixture
def rebuilds(query):
    """Of somebody who rebuilds, and has the lock."""
    found = Rebuilds(query.place, query.name)
    with found.owned():
        yield found


def test_a_query_is_let_go_when_somebody_asks(query, rebuilds):
    handover = Handover(query, "code", lambda: query)
    assert not handover.look()
    rebuilds.ask()
    assert handover.look()
    assert (handover.is_away, query.stops, rebuilds.is_released) == (True, 1, True)


def test_another_one_who_asks_after_the_first_has_died_is_told_that_the_query_is_let_go(query, rebuilds):
    handover = Handover(query, "code", lambda: query)
    rebuilds.ask()
    handover.look()
    rebuilds.take_back()  # as whoever comes next begins
    rebuilds.ask()
    assert not handover.look()
    assert (handover.is_away, query.stops, rebuilds.is_released) == (True, 1, True)


def test_a_query_goes_on_when_nobody_asks_any_more(query, tmp_path):
    again = []
    handover = Handover(query, "code", lambda: again.append(1) or query)
    rebuilds = Rebuilds(query.place, query.name)
    with rebuilds.owned():
        rebuilds.ask()
        handover.look()
    assert handover.look()
    assert (again, handover.is_away) == ([1], False)
    lock = DiskFiles().lock(str(tmp_path / "rebuilds" / "pages" / "lock"))
    assert lock is not None, "the lock is free again"
    lock.release()


def test_what_was_let_go_for_one_who_gave_up_is_not_taken_for_let_go_by_the_next(query):
    """The batch under way takes its time, and by its end another one rebuilds, who has not asked for anything yet."""
    handover = Handover(query, "code", lambda: query)
    rebuilds = Rebuilds(query.place, query.name)
    with rebuilds.owned():
        rebuilds.ask()
        query.meanwhile = rebuilds.take_back
        assert handover.look()
        assert not rebuilds.is_released
        assert handover.look()
        assert not handover.is_away
        assert not rebuilds.is_released
        rebuilds.ask()
        query.meanwhile = None
        assert handover.look()
        assert (handover.is_away, rebuilds.is_released) == (True, True)


def test_a_query_that_begins_again_is_no_longer_let_go(query, rebuilds):
    """Who asked has given up in the moment in which it was told, and another one has taken the lock."""
    handover = Handover(query, "code", lambda: query)
    rebuilds.ask()
    handover.look()
    (rebuilds.directory / "release").unlink()
    assert rebuilds.is_released
    assert handover.look()
    assert (handover.is_away, rebuilds.is_released) == (False, False)


def test_a_copy_whose_time_is_over_is_removed_while_the_app_runs(query):
    now = [0.0]
    handover = Handover(query, "code", lambda: query, clock=lambda: now[0])
    rebuilds = Rebuilds(query.place, query.name)
    old = rebuilds.directory / "old"
    old.mkdir(parents=True)
    kept = rebuilds.directory / "kept.json"
    for until, is_left in ((99_999_999_999_999, True), (1, False)):
        kept.write_text(json.dumps({"until": until, "checkpoint": "1"}))
        now[0] += LOOK_FOR_OLD_EVERY - 1
        handover.look()
        assert old.exists()
        with rebuilds.owned():  # by one who may want it
            now[0] += 1
            handover.look()
        assert old.exists()
        now[0] += LOOK_FOR_OLD_EVERY
        handover.look()
        assert (old.exists(), kept.exists()) == (is_left, is_left)
