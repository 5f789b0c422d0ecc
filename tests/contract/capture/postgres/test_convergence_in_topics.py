"""Whatever writers do at once, and whenever the capture is killed: at rest its topics tell the tables as they are, as a
subscription of PostgreSQL's own has them, too; the events in the order of commits, nothing twice, and transactions with
the right counts.
"""

from __future__ import annotations

import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from runnel import Broker
from runnel.capture.state import read_state
from runnel.client.cluster import Cluster
from tests.contract.capture.captured_postgres import Database
from tests.contract.capture.postgres.histories import TABLES, WHOLE, Writer, columns_of, numbers_of_columns, rows_of
from tests.contract.capture.postgres.lives import Life, lived_here, started
from tests.contract.capture.postgres.rebuilding import RebuiltTable, rebuilt, shown
from tests.contract.capture.postgres.reference import FOLLOWED, Reference, reference_of
from tests.contract.capture.topics import check_transactions, committed

WRITERS = 3
PAUSE = 0.005  # between a writer's transactions: so many that the capture comes along
LITTLE_MEMORY = "?options=-c%20logical_decoding_work_mem%3D64kB"  # the least: what is larger comes in pieces
STEPS = ("capture.write", "capture.state", "capture.commit", "capture.confirm")


def rebuilt_tables(life: Life) -> dict[str, RebuiltTable]:
    topics = committed(life.bootstrap, f"{life.name}.")
    check_transactions(topics, life.name)
    with Cluster(life.bootstrap) as cluster:
        state = read_state(cluster, life.name)
    assert state.is_complete
    found = {}
    for table in TABLES:
        since = state.tables[f"{life.schema}.{table}"].since
        assert since is not None
        records = topics.get(f"{life.name}.{life.schema}.{table}", [])
        found[table] = rebuilt(records, since["lsn"], is_whole=table in WHOLE)
    return found


def rows_told(table: RebuiltTable) -> list[dict[str, Any]]:
    """Those that have a key, and those that have none."""
    return [*table.rows.values(), *map(json.loads, table.bag.elements())]


def check(database: Database, life: Life, reference: Reference) -> None:
    """Three witnesses: the topics, the database's own subscription, and the database. None waits for another."""
    reference.wait()
    told = rebuilt_tables(life)
    with database.connect() as connection:
        for table in TABLES:
            columns = columns_of(connection, table)
            rows = shown(rows_told(told[table]), columns)
            if table in FOLLOWED:
                assert rows == shown(reference.rows(table), columns), f"{table} by its subscription"
            assert rows == shown(rows_of(connection, table), columns), f"{table} by itself"


def history(database: Database, broker: Broker, seed: str, *, kills: int, in_progress: bool = False) -> None:
    """Twice: while the tables are read, and when only changes are left to be told."""
    chance, numbers = random.Random(seed), numbers_of_columns()
    database.run(*(statement for statements in TABLES.values() for statement in statements))
    url = database.server.url + (LITTLE_MEMORY if in_progress else "")
    life = Life(url, database.schema, database.schema, broker.bootstrap, in_progress=in_progress)
    with reference_of(database) as reference:
        writers = [Writer(database, f"{seed}/{number}", numbers, large=in_progress) for number in range(WRITERS)]
        for _ in range(40):
            writers[0].transact()  # something is there before it is captured
        for _ in range(2):
            with writing(writers):
                for _ in range(kills):
                    kill(chance, life)
            assert not lived_here(life._replace(small=200))
            check(database, life, reference)


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


def kill(chance: random.Random, life: Life) -> None:
    """At a durable step, or in between: whatever comes first."""
    step = f"{chance.choice(STEPS)}:{chance.choice(['before', 'after'])}:{chance.randrange(1, 12)}"
    process = started(life, step)
    process.join(chance.uniform(0.3, 1.5))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.close()


@pytest.mark.servers
@pytest.mark.parametrize("in_progress", [False, True], ids=["whole", "in progress"])
def test_topics_tell_the_tables_as_they_are_wherever_the_capture_was_killed(database, broker, seed, in_progress):
    history(database, broker, f"{seed}", kills=2, in_progress=in_progress)


@pytest.mark.soak
def test_longer_histories_converge(server, broker, seed, rounds):
    for number in range(rounds):
        with ExitStack() as stack:
            database = Database(server, stack)
            history(database, broker, f"{seed}/{number}", kills=8, in_progress=number % 2 == 1)
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
