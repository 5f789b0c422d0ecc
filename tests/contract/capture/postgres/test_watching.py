"""How far a capture of a real PostgreSQL is behind, and what its server keeps for it."""

from __future__ import annotations

import logging

import pytest

from runnel.capture.opening import source_of
from runnel.capture.selection import Selection
from runnel.capture.watching import Watching
from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.lives import capture_of, caught_up, running

pytestmark = pytest.mark.servers
MEBIBYTE = 2**20


def test_what_the_server_keeps_is_known_and_said_before_it_is_too_much(
    broker, database: Database, caplog: pytest.LogCaptureFixture
):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "CREATE TABLE busy(v text)")
    chosen = Selection(tables=[rf"{database.schema}\.t"])
    source, looking = database.source(chosen.has), database.source(chosen.has)
    capture = capture_of(database.schema, source, broker.bootstrap, chosen)
    watching = Watching(
        capture,
        capture._publisher,
        capture._envelope,
        lambda: source_of(database.server.url, database.schema, Selection()),
        retained_warning=16 * MEBIBYTE,
    )
    with running(capture):
        database.run("INSERT INTO t VALUES (1, 'a')")
        caught_up(capture, looking)

        def is_behind_nothing() -> bool:
            watching.look()
            return watching.numbers.behind == 0

        wait_for(is_behind_nothing)  # the server writes to its log by itself
        numbers = watching.numbers
        assert numbers.unit == "bytes"
        assert numbers.lag_seconds < 60
        assert numbers.retained is not None
    assert sum(numbers.events.values()) == 1
    # It is stopped, and the server goes on.
    database.run("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 20000)", "SELECT pg_switch_wal()")
    with caplog.at_level(logging.WARNING):
        watching.look()
        watching.look()
    behind, retained = watching.numbers.behind, watching.numbers.retained
    assert behind is not None
    assert retained is not None
    assert retained >= behind > 16 * MEBIBYTE
    (said,) = [message for message in caplog.messages if "keeps" in message]
    assert f"capture {database.schema}: the server keeps {retained:,} bytes of its log for it" in said
    watching._close()


def test_what_the_server_keeps_at_most_is_asked_for(database: Database):
    source = database.source()
    assert source.retained_limit() is None
    database.run("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'", "SELECT pg_reload_conf()")
    try:
        wait_for(lambda: source.retained_limit() == 64 * MEBIBYTE)
    finally:
        database.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    wait_for(lambda: source.retained_limit() is None)
