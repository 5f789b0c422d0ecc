"""Random histories by several writers, captured by one who dies again and again: at rest its topics are the database's
tables, the events of each key in the order of commits, nothing twice, and transactions with the right counts.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from contextlib import closing

import pymysql
import pytest

from runnel.capture import capture as captures
from runnel.capture.mariadb import changes, snapshot
from runnel.capture.state import read_state
from runnel.client.cluster import Cluster
from tests.contract.capture.captured_mariadb import MariadbDatabase, plain
from tests.contract.capture.cut_off import lived
from tests.contract.capture.lives import capture_of
from tests.contract.capture.topics import check_transactions, committed, line_of_place, rebuilt

TABLES = (
    "CREATE TABLE plain (id int PRIMARY KEY, v varchar(9000), n int)",
    "CREATE TABLE pairs (a int, b varchar(5), v text, PRIMARY KEY (b, a))",
    "CREATE TABLE loose (x int, y varchar(10))",
)
STATEMENTS = (
    "INSERT INTO plain (id, v, n) VALUES ({k}, {text}, {n}) ON DUPLICATE KEY UPDATE v = VALUES(v)",
    "INSERT IGNORE INTO plain (id, v, n) SELECT seq, {text}, {n} FROM seq_{k}_to_{k5}",
    "REPLACE INTO plain (id, v, n) VALUES ({k}, {text}, {n})",
    "UPDATE plain SET n = n + 1 WHERE id % 5 = {n} % 5",
    "UPDATE IGNORE plain SET id = id + 1000 WHERE id = {k}",
    "DELETE FROM plain WHERE id IN ({k}, {k} + 1000)",
    "INSERT INTO pairs (a, b, v) VALUES ({k}, 'b{n}', {text}) ON DUPLICATE KEY UPDATE v = 'again'",
    "UPDATE IGNORE pairs SET a = a + 1000 WHERE a = {k}",
    "DELETE FROM pairs WHERE a % 7 = {n}",
    "INSERT INTO loose VALUES ({n}, 'l{k}')",
    "UPDATE loose SET y = 'm' WHERE x = {n}",
    "DELETE FROM loose WHERE x = {n}",
)
TEXTS = ("NULL", "''", "'ä'", "repeat(uuid(), 200)")
SWAP = (
    "CREATE TABLE other LIKE pairs",
    "INSERT INTO other SELECT a + 1, b, 'of the other' FROM pairs",
    "RENAME TABLE pairs TO old_pairs, other TO pairs",
)
STEPS = ("capture.write", "capture.state", "capture.commit", "capture.confirm")
LOST = (1213, 1205)  # deadlocks, and waits that are too long
EACH_OTHER = (*LOST, 1412, 1062)  # what writers do to each other: also altered tables, and duplicates


def write(database: MariadbDatabase, seed: str, transactions: int) -> None:
    chance = random.Random(seed)
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        for _ in range(transactions):
            statements = [
                chance.choice(STATEMENTS).format(k=(k := chance.randrange(30)), k5=k + 5, n=chance.randrange(10),
                                                 text=chance.choice(TEXTS))
                for _ in range(chance.randrange(1, 6))
            ]  # fmt: skip
            if chance.random() < 0.3:
                statements[1:1] = ["SAVEPOINT s", "DELETE FROM plain", "INSERT INTO loose VALUES (-9, 's')",
                                   "ROLLBACK TO SAVEPOINT s"]  # fmt: skip
            try:
                for statement in ("BEGIN", *statements, "ROLLBACK" if chance.random() < 0.1 else "COMMIT"):
                    cursor.execute(statement)
            except pymysql.MySQLError as error:
                if error.args[0] not in EACH_OTHER:
                    raise
                cursor.execute("ROLLBACK")


def insist(database: MariadbDatabase, *statements: str) -> None:
    """Beside writers, to whom one of them may lose."""
    for statement in statements:
        while True:
            try:
                database.run(statement)
                break
            except pymysql.MySQLError as error:
                if error.args[0] not in LOST:
                    raise


def live(database: MariadbDatabase, name: str, bootstrap: str, die_at: str | None) -> bool:
    """One life of a capture, until it is cut off or has nothing left to tell; whether it was cut off."""
    source, looking = database.source(name), database.source(f"{name}-looking")
    try:
        return lived(capture_of(name, source, bootstrap, transactions=True), looking, die_at or "", knows_all=True)
    finally:
        source.close()


def check(database: MariadbDatabase, name: str, bootstrap: str) -> None:
    topics = committed(bootstrap, f"{name}.")
    with Cluster(bootstrap) as cluster:
        state = read_state(cluster, name)
    assert state.is_complete
    with database.source(f"{name}-checking").snapshot() as found:
        for table in found.tables():
            rows = [json.loads(json.dumps(plain(table, row))) for piece in found.rows(table) for row in piece]
            since = line_of_place(state.tables[str(table.id)].since)
            told = rebuilt(topics[f"{name}.{database.schema}.{table.id.name}"], complete_from=since)
            if table.key:
                keys = [table.columns[place].name for place in table.key]
                assert {tuple(row[key] for key in keys): row for row in told.rows.values()} == {
                    tuple(row[key] for key in keys): row for row in rows
                }, table.id
            else:
                assert told.bag == Counter(json.dumps(row, sort_keys=True) for row in rows), table.id
    check_transactions(topics, name)


def history(database: MariadbDatabase, bootstrap: str, seed: str, transactions: int, kills: int) -> None:
    chance, name = random.Random(seed), f"c{database.schema}"
    database.run(*TABLES)
    write(database, f"{seed}/before", 20)
    cuts = 0
    for number in range(2):
        writers = [
            threading.Thread(target=write, args=(database, f"{seed}/{number}/{each}", transactions))
            for each in range(2)
        ]
        for writer in writers:
            writer.start()
        if number:
            insist(database, *SWAP)
        for _ in range(kills):
            step = f"{chance.choice(STEPS)}:{chance.choice(['before', 'after'])}:{chance.randrange(1, 5)}"
            cuts += live(database, name, bootstrap, step)
        if number:
            insist(database, "ALTER TABLE plain ADD COLUMN extra int DEFAULT NULL", "UPDATE plain SET extra = id")
        for writer in writers:
            writer.join()
        assert not live(database, name, bootstrap, None)
        check(database, name, bootstrap)
    assert cuts


@pytest.fixture
def small(monkeypatch):
    """Pieces of few rows, so that there are many steps."""
    monkeypatch.setattr(changes, "AT_ONCE", 20)
    monkeypatch.setattr(snapshot, "MOST", 16)
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.02)


@pytest.mark.servers
def test_topics_tell_the_tables_as_they_are_wherever_the_capture_was_cut_off(database, broker, small, seed):
    history(database, broker.bootstrap, f"{seed}", transactions=40, kills=3)


@pytest.mark.soak
def test_longer_histories_converge(mariadb, broker, small, seed, rounds):
    for number in range(rounds):
        database = MariadbDatabase(mariadb)
        history(database, broker.bootstrap, f"{seed}/{number}", transactions=150, kills=8)
        database.close()
