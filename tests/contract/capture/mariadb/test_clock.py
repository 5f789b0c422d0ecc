"""A database whose clock is not ours."""

from __future__ import annotations

import time

import pytest

from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers

HOURS = 7_200


def test_changes_of_a_clock_that_is_two_hours_ahead_or_behind_are_told(database, broker):
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    name, start = f"clock_{database.schema}", int(time.time())
    capture = capture_of(name, database.source(), broker.bootstrap)
    with running(capture):
        wait_until(capture.is_streaming.is_set)
        for number, seconds in enumerate((start + HOURS, start - HOURS)):
            database.run(f"SET timestamp = {seconds}", f"INSERT INTO t VALUES ({number})")
        caught_up(capture, database.source("looking"))
    ahead, behind = committed(broker.bootstrap, f"{name}.{database.schema}.t")[f"{name}.{database.schema}.t"]
    assert ahead.value["source"]["ts_ms"] == (start + HOURS) * 1000
    assert start * 1000 <= ahead.timestamp <= time.time() * 1000
    assert behind.timestamp == behind.value["source"]["ts_ms"] == (start - HOURS) * 1000
