"""Whatever writers do at once, and whenever the capture is killed: at rest its topics tell the tables as they are, as a
subscription of PostgreSQL's own has them, too; the events in the order of commits, nothing twice, and transactions with
the right counts.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from runnel import Broker
from runnel.capture.chosen import Mode
from runnel.capture.state import State
from tests.contract.capture.captured_postgres import Database
from tests.contract.capture.lives import wait_until
from tests.contract.capture.postgres.histories import TABLES, WHOLE, Writer, columns_of, numbers_of_columns, rows_of
from tests.contract.capture.postgres.lives import STEPS, Life, is_partly_read, lived_here, started
from tests.contract.capture.postgres.rebuilding import RebuiltTable, rebuilt_tables, shown
from tests.contract.capture.postgres.reference import FOLLOWED, Reference, reference_of

WRITERS = 3
PAUSE = 0.005  # between a writer's transactions: so many that the capture comes along
LITTLE_MEMORY = "?options=-c%20logical_decoding_work_mem%3D64kB"  # the least: what is larger comes in pieces
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "in progress": {"in_progress": True},
    "by chunks": {"mode": Mode.INCREMENTAL, "tables": "[^l].*"},  # loose has no key
}


def rows_told(table: RebuiltTable) -> list[dict[str, Any]]:
    """Those that have a key, and those that have none."""
    return [*table.rows.values(), *map(json.loads, table.bag.elements())]


def check(database: Database, life: Life, reference: Reference) -> None:
    """Three witnesses: the topics, the database's own subscription, and the database. None waits for another."""
    reference.wait()
    told = rebuilt_tables(life, [name for name in TABLES if re.fullmatch(life.tables, name)], WHOLE)
    with database.connect() as connection:
        for table, rebuilt_table in told.items():
            columns = columns_of(connection, table)
            rows = shown(rows_told(rebuilt_table), columns)
            if table in FOLLOWED:
                assert rows == shown(reference.rows(table), columns), f"{table} by its subscription"
            assert rows == shown(rows_of(connection, table), columns), f"{table} by itself"


def history(database: Database, broker: Broker, seed: str, *, kills: int, **way: Any) -> None:
    """Twice: while the tables are read, and when only changes are left to be told."""
    in_progress = bool(way.get("in_progress"))
    chance, numbers = random.Random(seed), numbers_of_columns()
    database.run(*(statement for statements in TABLES.values() for statement in statements))
    url = database.server.url + (LITTLE_MEMORY if in_progress else "")
    life = Life(url, database.schema, database.schema, broker.bootstrap, **way)
    deaths: list[State] = []
    with reference_of(database) as reference:
        writers = [Writer(database, f"{seed}/{number}", numbers, large=in_progress) for number in range(WRITERS)]
        for _ in range(40):
            writers[0].transact()  # something is there before it is captured
        if life.mode is Mode.INCREMENTAL:  # so many that reading takes longer than a life
            database.run("INSERT INTO shaped SELECT i, i, 'there' FROM generate_series(1001, 1300) i")
        for _ in range(2):
            with writing(writers):
                for number in range(kills):
                    kill(chance, life, at_once=life.mode is Mode.INCREMENTAL and number % 2 == 0)
                    deaths.append(life.state())
            assert not lived_here(life._replace(small=200, chunk=100))
            check(database, life, reference)
    assert life.mode is Mode.INITIAL or any(map(is_partly_read, deaths)), "it was never killed while it read"


@contextmanager
def writing(writers: list[Writer]) -> Iterator[None]:
    is_over = threading.Event()
    errors: list[BaseException] = []

    def write(writer: Writer) -> None:
        try:
            while not is_over.wait(PAUSE):
                writer.transact()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not errors, errors


def kill(chance: random.Random, life: Life, *, at_once: bool = False) -> None:
    """At a durable step, or in between: whatever comes first. `at_once`: when some of a table was read."""
    step = f"{chance.choice(STEPS)}:{chance.choice(['before', 'after'])}:{chance.randrange(1, 12)}"
    process = started(life, "" if at_once else step)
    if at_once:
        wait_until(lambda: is_partly_read(life.state()) or life.state().is_complete)
    process.join(chance.uniform(0.0, 0.1) if at_once else chance.uniform(0.3, 1.5))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.close()


@pytest.mark.servers
@pytest.mark.parametrize("way", WAYS)
def test_topics_tell_the_tables_as_they_are_wherever_the_capture_was_killed(database, broker, seed, way):
    history(database, broker, f"{seed}", kills=2, **WAYS[way])


@pytest.mark.soak
def test_longer_histories_converge(server, broker, seed, rounds, told):
    for number, way in zip(told(range(rounds)), itertools.cycle(WAYS.values()), strict=False):
        with ExitStack() as stack:
            database = Database(server, stack)
            history(database, broker, f"{seed}/{number}", kills=8, **way)
            database.close()


@pytest.mark.servers
def test_the_tables_of_a_history_are_all_written_to(database):
    database.run(*(statement for statements in TABLES.values() for statement in statements))
    writer = Writer(database, "1", numbers_of_columns())
    written: Counter[str] = Counter()
    for _ in range(150):
        writer.transact()
        written.update(table for table in TABLES if database.ask(f"SELECT FROM {table} LIMIT 1"))
    assert all(written[table] > 5 for table in TABLES), written
