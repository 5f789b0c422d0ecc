"""A captured table that becomes a partition of another one, and is a table of its own again."""

from __future__ import annotations

import pytest

from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.lives import capture_of, running
from tests.contract.capture.postgres.lives import end_of_log, has_come_to
from tests.contract.capture.postgres.test_replaced import _soon, folded  # noqa: F401  # a fixture
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers

MADE = (
    "CREATE TABLE whole(id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE part(id int PRIMARY KEY, v text)",
    "INSERT INTO part VALUES (101, 'a'), (102, 'b')",
)
ATTACHED = "ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (100) TO (200)"
MEANWHILE = (
    "DELETE FROM whole WHERE id = 101",
    "UPDATE whole SET v = 'meanwhile' WHERE id = 102",
    "INSERT INTO whole VALUES (103, 'meanwhile')",
)


@pytest.mark.parametrize("lives", [1, 2])
def test_its_topic_is_empty_as_long_as_it_is_a_partition_and_then_has_its_rows(broker, database, caplog, lives):
    database.run(*MADE)
    for life in range(lives):
        with running(capture(broker, database)) as at_work:
            settle(at_work, database, {"whole", "part"} if life == 0 else {"whole"})
            if life == 0:
                database.run(ATTACHED, *MEANWHILE)
                settle(at_work, database, {"whole"})
                assert rows(broker, database) == []
            if life == lives - 1:
                database.run("ALTER TABLE whole DETACH PARTITION part", "INSERT INTO part VALUES (104, 'end')")
                if lives == 1:
                    settle(at_work, database, {"whole", "part"})
    with running(capture(broker, database)) as at_work:
        settle(at_work, database, {"whole", "part"})
    assert rows(broker, database) == sorted(database.ask("SELECT * FROM part"))
    assert f'table "{database.schema}.part"' in caplog.text
    assert "it is a partition of another one that is captured" in caplog.text


def capture(broker, database: Database):
    selection = Selection(tables=[rf"{database.schema}\.(whole|part)"])
    return capture_of(database.schema, database.source(selection.has), broker.bootstrap, selection)


def settle(at_work, database: Database, tables: set[str]) -> None:
    end = end_of_log(database.server.url)
    names = {f"{database.schema}.{name}" for name in tables}
    wait_for(lambda: has_come_to(at_work, end) and at_work.state.tables.keys() == names)
    wait_for(lambda: has_come_to(at_work, end_of_log(database.server.url)))


def rows(broker, database: Database) -> list[tuple[object, ...]]:
    name = f"{database.schema}.{database.schema}.part"
    return sorted(tuple(row.values()) for row in folded(committed(broker.bootstrap, name).get(name, [])))
