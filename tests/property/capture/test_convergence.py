"""Whatever writers do at once, and whenever the capture is killed: at rest its topics tell the tables as they are, the
events of each key in the order of commits, nothing twice, and transactions with the right counts.
"""

from __future__ import annotations

import json
import math
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runnel import Broker
from runnel.capture.state import read_state
from runnel.client.cluster import Cluster
from tests.contract.capture.lives import BY_CHUNKS, INITIAL, Way, lived_here, started, wait_until
from tests.contract.capture.topics import check_transactions, committed, rebuilt
from tests.property.capture.histories import TABLES, Writer, known, make, tables_in

WRITERS = 2
STEPS = (
    "capture.write",
    "capture.state",
    "capture.commit",
    "capture.confirm",
    "capture.sqlite.trim",
    "capture.sqlite.follow",
)


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


def check(path: Path, name: str, bootstrap: str, way: Way) -> None:
    topics = committed(bootstrap, f"{name}.")
    with Cluster(bootstrap) as cluster:
        state = read_state(cluster, name)
    there = tables_in(str(path))
    for table in TABLES:
        if rf"main\.{table}" in way.without:
            continue
        rows, keys = there.get(table, ([], []))
        assert (f"main.{table}" in state.tables) == (table in there), table
        since = state.tables[f"main.{table}"].since if table in there else {"id": math.inf}
        assert since is not None
        told = rebuilt(topics.get(f"{name}.main.{table}", []), complete_from=since["id"], known=known)
        shown = [known(json.loads(row)) for row in rows]
        if keys:
            assert {key: known(row) for key, row in told.rows.items()} == dict(zip(keys, shown, strict=True)), table
        else:
            assert not told.rows, table
            assert told.bag == Counter(json.dumps(row, sort_keys=True) for row in shown), table
    check_transactions(topics, name)


def history(broker: Broker, directory: Path, seed: int, *, transactions: int, kills: int, way: Way = INITIAL) -> None:
    """Twice as much of it: while the tables are read, and when only changes are left to be told."""
    chance, name, path = random.Random(seed), f"seed{seed}", str(directory / f"{seed}.sqlite")
    make(path, chance)
    writers = [Writer(path, chance.randrange(2**32), recursive=bool(number)) for number in range(WRITERS)]
    for _ in range(20):
        writers[0].transact()  # something is there before it is captured
    for _ in range(2):
        with writing(writers, transactions):
            for _ in range(kills):
                kill(chance, path, name, broker.bootstrap, way)
        assert not lived_here(path, name, broker.bootstrap, small=50, way=way)
        check(Path(path), name, broker.bootstrap, way)
    for writer in writers:
        writer.close()


@contextmanager
def writing(writers: list[Writer], transactions: int, pause: float = 0.0) -> Iterator[threading.Event]:
    """So many of them, or until the event is set; with a pause of so many seconds behind each."""
    left, enough = threading.Semaphore(transactions), threading.Event()
    errors: list[BaseException] = []

    def write(writer: Writer) -> None:
        try:
            while not enough.is_set() and left.acquire(blocking=False):
                writer.transact()
                enough.wait(pause)
        except BaseException as error:
            errors.append(error)
            writer.close()  # nobody is to wait for it

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield enough
    finally:
        for thread in threads:
            thread.join()
        assert not errors


def kill(chance: random.Random, path: str, name: str, bootstrap: str, way: Way) -> None:
    """At a durable step, or in between: whatever comes first."""
    step = f"{chance.choice(STEPS)}:{chance.choice(['before', 'after'])}:{chance.randrange(1, 9)}"
    process = started(path, name, bootstrap, step, way=way)
    process.join(chance.uniform(0.1, 1.5))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.close()


@pytest.mark.parametrize("number", range(2))
def test_topics_tell_the_tables_as_they_are_wherever_the_capture_was_killed(broker, tmp_path, number):
    history(broker, tmp_path, number, transactions=100, kills=2)


@pytest.mark.servers  # it takes its time
def test_tables_that_are_read_by_chunks_converge_wherever_the_capture_was_killed(broker, tmp_path):
    history(broker, tmp_path, 50, transactions=100, kills=2, way=BY_CHUNKS)


@pytest.mark.parametrize("place", ["before:1", "after:1"])
def test_a_history_converges_where_the_capture_was_cut_off_as_it_followed_a_table(broker, tmp_path, place):
    number = sum(map(ord, place))
    chance, name, path = random.Random(number), f"followed{number}", str(tmp_path / "followed.sqlite")
    make(path, chance)
    writers = [Writer(path, chance.randrange(2**32), definitions=0.2) for _ in range(WRITERS)]
    writers[0].transact()
    for _ in range(2):
        assert not lived_here(path, name, broker.bootstrap, small=50)
        with writing(writers, 10_000, pause=0.02) as enough:
            try:  # all may be told for a moment, and nothing to be followed
                wait_until(lambda: lived_here(path, name, broker.bootstrap, f"capture.sqlite.follow:{place}"))
            finally:
                enough.set()
    assert not lived_here(path, name, broker.bootstrap, small=50)
    check(Path(path), name, broker.bootstrap, INITIAL)
    for writer in writers:
        writer.close()


@pytest.mark.soak
def test_longer_histories_converge(broker, tmp_path, rounds, seed, told):
    for number in told(range(rounds)):
        way = (INITIAL, BY_CHUNKS)[number % 2]
        history(broker, tmp_path, seed * 1_000 + number + 100, transactions=300, kills=6, way=way)


def test_the_tables_of_a_history_are_all_written_to(tmp_path):
    path = tmp_path / "alone.sqlite"
    make(str(path), random.Random(1))
    writer = Writer(str(path), 1)
    seen = set()
    for _ in range(150):
        writer.transact()
        seen |= {table for table, (rows, _) in tables_in(str(path)).items() if rows}
    writer.close()
    assert seen == set(TABLES)
    assert all(writer.defined[what] > 2 for what in ("add", "rename", "drop", "make"))
