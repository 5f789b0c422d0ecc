"""A topic that somebody deletes. What it had is nowhere else than in the database."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from runnel import Broker
from runnel.capture.chosen import Mode
from runnel.capture.conditions import parse
from runnel.capture.selection import Selection
from runnel.client.admin import Admin
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import committed

numbers = itertools.count()
ROWS = "INSERT INTO orders VALUES (1, 'one', 1), (2, 'two', 2)"


class Captured:
    def __init__(self, broker: Broker, database: Any, **rows: Any) -> None:
        self.broker, self.database, self.name = broker, database, f"deleted{next(numbers)}"
        self.orders, self.loose = (f"{self.name}.{database.schema}.{table}" for table in ("orders", "loose"))
        self.selection = Selection(tables=[rf"{database.schema}\.(orders|loose)"], **rows)

    def live(self, *statements: str, mode: Mode = Mode.INITIAL) -> None:
        source = self.database.source(self.name, self.selection)
        capture = capture_of(self.name, source, self.broker.bootstrap, self.selection, snapshot=mode)
        with running(capture):
            wait_until(lambda: capture.is_streaming.is_set() and capture.state.is_complete)
            if statements:
                self.database.execute(*statements)
            caught_up(capture, source)

    def delete(self, *topics: str, is_made_again: bool = False) -> None:
        with Admin(self.broker.bootstrap) as admin:
            for topic in topics:
                admin.delete(topic)
                if is_made_again:
                    admin.create(topic)

    def told(self, topic: str) -> list[tuple[str | None, int]]:
        records = committed(self.broker.bootstrap, topic).get(topic, [])
        return [(each.op, next(iter(each.value["after"].values()))) for each in records]


@pytest.mark.parametrize("is_made_again", [False, True], ids=["gone", "made-again"])
def test_its_table_is_read_anew_by_the_next_start(broker, database, caplog, is_made_again):
    database.execute(ROWS, "INSERT INTO loose VALUES (1, 1)")
    captured = Captured(broker, database)
    captured.live()
    captured.delete(captured.orders, captured.loose, is_made_again=is_made_again)
    captured.live("INSERT INTO orders VALUES (3, 'three', 3)", "INSERT INTO loose VALUES (2, 2)")
    assert captured.told(captured.orders) == [("r", 1), ("r", 2), ("c", 3)]
    assert captured.told(captured.loose) == [("r", 1), ("c", 2)]
    assert (
        f"topic {captured.orders}, which had {database.schema}.orders, is not there, or was made again" in caplog.text
    )
    captured.live("INSERT INTO orders VALUES (4, 'four', 4)")
    assert captured.told(captured.orders) == [("r", 1), ("r", 2), ("c", 3), ("c", 4)]


def test_a_topic_that_was_never_needed_is_not_missed(broker, database, caplog):
    database.execute(ROWS)
    captured = Captured(broker, database, rows={rf"{database.schema}\.orders": parse("id > 2")})
    captured.live()
    captured.live("INSERT INTO loose VALUES (1, 1)", "INSERT INTO orders VALUES (3, 'three', 3)")
    assert captured.told(captured.orders) == [("c", 3)]
    assert "is not there" not in caplog.text


def test_where_nothing_reads_the_table_anew_it_is_said(broker, database, caplog):
    database.execute(ROWS)
    captured = Captured(broker, database)
    captured.live()
    captured.delete(captured.orders)
    captured.live("INSERT INTO orders VALUES (3, 'three', 3)", mode=Mode.NONE)
    assert captured.told(captured.orders) == [("c", 3)]
    assert "it gets changes alone: nothing reads the table anew" in caplog.text
