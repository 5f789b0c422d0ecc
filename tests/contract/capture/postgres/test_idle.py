"""An idle captured table beside a busy one: the server keeps no more of its log for us than it must."""

from __future__ import annotations

import time

import pytest

from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.lives import running, wait_until
from tests.contract.capture.postgres.lives import Life, end_of_log, in_small_pieces

SEGMENT = 16 * 1024 * 1024  # bytes of a file of the log
KEPT = 3 * SEGMENT  # the one that is written to, the one before, and what came since the server last looked
BUSY = "INSERT INTO busy SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i"


@pytest.fixture
def life(database: Database, broker) -> Life:
    database.run("CREATE TABLE idle(id int PRIMARY KEY)", "CREATE TABLE busy(id int, v text)")
    return Life(database.server.url, database.schema, database.schema, broker.bootstrap, tables="idle")


@pytest.mark.servers
def test_the_log_that_is_kept_for_an_idle_table_stays_bounded_beside_a_busy_one(database: Database, life: Life):
    source, looking = life.source(), life.source()
    with in_small_pieces(1000), running(life.capture(source)) as capture:
        wait_until(capture.is_streaming.is_set)
        for _ in range(4):
            database.run(BUSY, "TRUNCATE busy", "SELECT pg_switch_wal()")
            # A server notes what is running at each checkpoint, and by itself every 15 s: only then it can let go.
            wait_for(lambda: database.run("CHECKPOINT") or looking.retained() <= KEPT)
        step = capture.state.step
        database.run("INSERT INTO idle VALUES (1)")
        wait_until(lambda: capture.state.step > step)
    source.close()


@pytest.mark.servers
def test_without_a_capture_that_runs_it_is_all_kept(database: Database, life: Life):
    """The test above could fail."""
    source = life.source()
    source.prepare()
    for _ in range(4):
        database.run(BUSY, "TRUNCATE busy", "SELECT pg_switch_wal()", "CHECKPOINT")
    assert source.retained() > KEPT


@pytest.mark.soak
def test_the_log_that_is_kept_for_an_idle_table_stays_bounded_for_minutes(database: Database, life: Life):
    """As it is in daily use: nothing is hurried, and the server looks by itself."""
    source, looking = life.source(), life.source()
    most, start = 0, end_of_log(life.url)
    with running(life.capture(source)) as capture:
        wait_until(capture.is_streaming.is_set)
        ended = time.monotonic() + 180
        while time.monotonic() < ended:
            database.run(BUSY, "TRUNCATE busy")
            most = max(most, looking.retained())
            time.sleep(1)  # about 20 MB a second
    source.close()
    written = end_of_log(life.url) - start  # which is more than the rows
    # 15 s until the server looks, and it keeps what a transaction needs that began before that: since it looked before,
    # 15 s more. 5 s until the capture says how far it is, and then some.
    seconds = 45
    assert most <= KEPT + written * seconds // 180, (most, written)
