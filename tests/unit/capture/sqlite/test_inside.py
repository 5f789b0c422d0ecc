"""A position inside of a large transaction, when an older state of the file was brought back since."""

import sqlite3
from contextlib import closing

import pytest

from runnel.capture.errors import PositionLost
from runnel.capture.events import Began, Change, Position
from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource
from runnel.capture.sqlite import changes as reading

COUNT = 6  # lines


@pytest.fixture
def inside(captured):
    """The position in the middle of what was read together."""
    captured.write("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    captured.prepare()
    for number in range(COUNT):
        captured.write(f"INSERT INTO orders VALUES ({number})")
    before = captured.position
    began = next(each for each in captured.events() if isinstance(each, Began))
    assert began.at["until"] == before.at["id"] + COUNT
    return Position(began.at, COUNT // 2)


@pytest.fixture
def restored(captured, inside, tmp_path):
    """Gives the changes behind it, as they are read from the state after the first of the lines, and some others."""
    sources = []

    def restore(position, *, others):
        path = tmp_path / "restored.sqlite"
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            captured.writer.backup(copy)
            copy.execute("DELETE FROM _runnel_shop_log WHERE id > ?", [position.at["id"] + 1])
            for number in range(others):
                copy.execute("INSERT INTO orders VALUES (?)", [100 + number])
        sources.append(SqliteSource(path, "shop", Selection().has))
        return sources[-1].changes(position)

    yield restore
    for each in sources:
        each.close()


def test_a_transaction_whose_end_is_not_there_any_more_is_lost(inside, restored):
    with pytest.raises(PositionLost, match=f"does not have line {COUNT + 1} as it was read before"):
        restored(inside, others=0)


def test_a_transaction_whose_end_is_another_line_now_is_lost(inside, restored):
    with pytest.raises(PositionLost, match=f"does not have line {COUNT + 1} as it was read before"):
        restored(inside, others=COUNT)


def test_one_whose_end_goes_while_it_is_read_is_lost(captured, inside):
    changes = captured.source().changes(inside)
    captured.write(f"DELETE FROM _runnel_shop_log WHERE id > {inside.at['id'] + 1}")
    with pytest.raises(PositionLost, match=f"does not have line {COUNT + 1}"):
        changes.read(0)


def test_one_whose_end_goes_between_two_readings_is_lost(captured, inside, monkeypatch):
    monkeypatch.setattr(reading, "AT_ONCE", 2)
    changes = captured.source().changes(inside)
    assert len([each for each in changes.read(0) if isinstance(each, Change)]) == 2
    captured.write(f"DELETE FROM _runnel_shop_log WHERE id > {inside.at['id'] + 1}")
    with pytest.raises(PositionLost, match=f"does not have line {COUNT + 1}"):
        changes.read(0)


def without_time(position):
    return Position({name: told for name, told in position.at.items() if name != "until_time"}, position.index)


def test_a_position_of_an_older_version_is_gone_on_with(captured, inside):
    events = captured.source().changes(without_time(inside)).read(0)
    assert [each.at for each in events if isinstance(each, Began)] == [inside.at]
    assert [each.after for each in events if isinstance(each, Change)] == [(number,) for number in range(COUNT)]


def test_one_of_an_older_version_whose_end_is_not_there_is_lost_too(inside, restored):
    with pytest.raises(PositionLost):
        restored(without_time(inside), others=0)
