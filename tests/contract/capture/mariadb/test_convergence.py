"""Random histories by several writers, captured by one who dies again and again: at rest its topics are the database's
tables, the events of each key in the order of commits, nothing twice, and transactions with the right counts. In the
middle of them tables are emptied, swapped, and altered in all ways.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pymysql
import pytest

from runnel.capture.chosen import Mode
from runnel.capture.state import read_state
from runnel.client.cluster import Cluster
from tests.contract.capture.captured_mariadb import MariadbDatabase, plain
from tests.contract.capture.mariadb.lives import Life, killed, lived, lived_here
from tests.contract.capture.topics import Seen, check_transactions, committed, line_of_place, rebuilt

TABLES = (
    "CREATE TABLE plain (id int PRIMARY KEY, v varchar(9000), n int)",
    "CREATE TABLE pairs (a int, b varchar(5), v text, PRIMARY KEY (b, a))",
    "CREATE TABLE loose (x int, y varchar(10))",
    "CREATE TABLE shaped (id int PRIMARY KEY, t int DEFAULT 0, a int, b varchar(20) DEFAULT 'b', c int DEFAULT 5)",
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
    "INSERT INTO shaped (id) VALUES ({k}) ON DUPLICATE KEY UPDATE t = t + 1",
    "UPDATE shaped SET t = t + {n} WHERE id % 3 = {k} % 3",
    "DELETE FROM shaped WHERE id = {k}",
)
TEXTS = ("NULL", "''", "'ä'", "repeat(uuid(), 200)")
SWAP = (
    "CREATE TABLE other LIKE pairs",
    "INSERT INTO other SELECT a + 1, b, 'of the other' FROM pairs",
    "RENAME TABLE pairs TO old_pairs, other TO pairs",
)
# What nobody but one who alters tables does; the writers name no column that is gone by then.
ALTERING = (
    ("TRUNCATE plain",),
    ("ALTER TABLE shaped DROP COLUMN a",),
    ("TRUNCATE loose", "TRUNCATE pairs"),
    ("ALTER TABLE shaped RENAME COLUMN b TO beta",),
    ("ALTER TABLE shaped MODIFY c varchar(20)", "TRUNCATE shaped"),
    ("ALTER TABLE shaped ADD COLUMN first int DEFAULT 3 FIRST", "ALTER TABLE shaped MODIFY beta text AFTER t"),
)
STEPS = {
    "capture.init": 1,
    "capture.topic": 3,
    "capture.write": 4,
    "capture.state": 4,
    "capture.commit": 4,
    "capture.confirm": 4,
}
PAUSE = 0.02  # seconds between a writer's transactions, so that the capture comes along
MOST = 70  # transactions of a writer
LOST = (1213, 1205)  # deadlocks, and waits that are too long
EACH_OTHER = (*LOST, 1412, 1062)  # what writers do to each other: also altered tables, and duplicates


EndOfLife = Callable[[Life, random.Random], bool]


def write(database: MariadbDatabase, seed: str, transactions: int, stop: threading.Event | None = None) -> None:
    """So many transactions, with a little time between them if they may be stopped."""
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
            if stop is not None and stop.wait(PAUSE):
                return


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


def kept(row: Any) -> Any:
    """Of a row of the table that is altered, what stays: one column has two names, and one is a number and a text."""
    if row is None:
        return None
    return {"id": row["id"], "t": row["t"], "b": row.get("beta", row.get("b")), "c": row["c"] and str(row["c"])}


def in_one_shape(record: Seen) -> Seen:
    value = record.value
    if value is None or value["op"] == "t":
        return record
    return record._replace(value={**value, "before": kept(value["before"]), "after": kept(value["after"])})


def latest(records: Sequence[Seen]) -> list[Any]:
    """The rows as the last word of each key tells them."""
    rows: dict[str | None, Any] = {}
    for record in records:
        if record.op == "t":
            rows.clear()
        elif record.value is None or record.value["after"] is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record.value["after"]
    return sorted(rows.values(), key=lambda row: int(row["id"]))


def check(database: MariadbDatabase, life: Life) -> None:
    name = life.name
    topics = committed(life.bootstrap, f"{name}.")
    with Cluster(life.bootstrap) as cluster:
        state = read_state(cluster, name)
    assert state.is_complete
    with closing(life.source("-checking")) as source, source.snapshot() as found:
        for table in found.tables():
            rows = [json.loads(json.dumps(plain(table, row))) for piece in found.rows(table) for row in piece]
            since = line_of_place(state.tables[str(table.id)].since)
            records = topics.get(f"{name}.{database.schema}.{table.id.name}", [])  # it may have been empty at all times
            if table.id.name == "shaped":
                assert latest(records) == sorted(rows, key=lambda row: int(row["id"]))
                records, rows = [in_one_shape(each) for each in records], [kept(each) for each in rows]
            told = rebuilt(records, complete_from=since)
            if table.key:
                keys = [table.columns[place].name for place in table.key]
                assert {tuple(row[key] for key in keys): row for row in told.rows.values()} == {
                    tuple(row[key] for key in keys): row for row in rows
                }, table.id
            else:
                assert told.bag == Counter(json.dumps(row, sort_keys=True) for row in rows), table.id
    check_transactions(topics, name)


def history(database: MariadbDatabase, life: Life, seed: str, transactions: int, end_of_life: EndOfLife) -> None:
    """Writers at work twice, while tables are altered and the capture ends and begins again."""
    chance = random.Random(seed)
    database.run(*TABLES)
    write(database, f"{seed}/before", 20)
    ends = 0
    altering = list(ALTERING)
    for number in range(2):
        stop = threading.Event()
        writers = [
            threading.Thread(target=write, args=(database, f"{seed}/{number}/{each}", transactions, stop))
            for each in range(2)
        ]
        for writer in writers:
            writer.start()
        if number:
            insist(database, *SWAP)
        for _ in range(len(ALTERING) // 2):
            ends += end_of_life(life, chance)
            insist(database, *altering.pop(0))
        assert not lived_here(life)  # beside the writers
        stop.set()
        if number:
            insist(database, "ALTER TABLE plain ADD COLUMN extra int DEFAULT NULL", "UPDATE plain SET extra = id")
        for writer in writers:
            writer.join()
        database.run("UPDATE shaped SET t = t + 1")  # every row as the table is now
        assert not lived_here(life)
        check(database, life)
    assert ends


def is_cut_off(life: Life, chance: random.Random) -> bool:
    return lived_here(life, any_step(chance))


def is_killed(life: Life, chance: random.Random) -> bool:
    """At a step, or anywhere."""
    return lived(life, any_step(chance)) if chance.random() < 0.5 else killed(life, chance.uniform(0.1, 1.5))


def any_step(chance: random.Random) -> str:
    name = chance.choice(sorted(STEPS))
    return f"{name}:{chance.choice(['before', 'after'])}:{chance.randint(1, STEPS[name])}"


def life_of(database: MariadbDatabase, broker: Any, mode: Mode) -> Life:
    return Life(database.url, f"c{database.schema}", broker.bootstrap, mode)


MODES = pytest.mark.parametrize("mode", [Mode.INITIAL, Mode.INCREMENTAL])


@pytest.mark.servers
@MODES
def test_topics_tell_the_tables_as_they_are_wherever_the_capture_was_cut_off(database, broker, seed, mode):
    history(database, life_of(database, broker, mode), f"{seed}", MOST, is_cut_off)


@pytest.mark.servers
@MODES
def test_topics_tell_the_tables_as_they_are_wherever_the_process_was_killed(database, broker, seed, mode):
    history(database, life_of(database, broker, mode), f"{seed}/killed", MOST, is_killed)


@pytest.mark.soak
@pytest.mark.parametrize("end_of_life", [is_cut_off, is_killed])
@MODES
def test_longer_histories_converge(mariadb, broker, seed, rounds, told, mode, end_of_life):
    for number in told(range(rounds)):
        database = MariadbDatabase(mariadb)
        history(database, life_of(database, broker, mode), f"{seed}/{number}", 4 * MOST, end_of_life)
        database.close()
