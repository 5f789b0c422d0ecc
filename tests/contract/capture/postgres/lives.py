"""Lives of a capture of PostgreSQL: in this process, or in one of its own that may be killed.

Its pieces have few rows, so that there are many steps, and it does not wait to say that it has come further.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

import psycopg
import pytest

from runnel.capture import capture as captures
from runnel.capture.capture import Capture
from runnel.capture.chosen import Mode
from runnel.capture.postgres import changes, replication, snapshot
from runnel.capture.postgres.replication import lsn_number
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from runnel.capture.state import State, read_state
from runnel.client.cluster import Cluster
from runnel.durable import VARIABLE, watched
from tests.contract.capture.lives import Died, capture_of, running, wait_until

STEPS = ("capture.write", "capture.state", "capture.commit", "capture.confirm")  # that come again and again

processes = get_context("forkserver")
processes.set_forkserver_preload(["runnel.capture.sqlite", "runnel.capture.postgres.source", __name__])


class Life(NamedTuple):
    """What is captured, under which name, and into which broker; as plain data, for another process."""

    url: str
    schema: str
    name: str
    bootstrap: str
    small: int = 5
    in_progress: bool = False
    tables: str = ".*"
    mode: Mode = Mode.INITIAL
    chunk: int = 2

    def selection(self) -> Selection:
        return Selection(tables=[rf"{self.schema}\.{self.tables}"])

    def source(self) -> PostgresSource:
        return PostgresSource(self.url, self.name, self.selection().has, in_progress=self.in_progress)

    def capture(self, source: PostgresSource) -> Capture:
        read = {"snapshot": self.mode, "chunk": self.chunk}
        return capture_of(self.name, source, self.bootstrap, self.selection(), transactions=True, **read)

    def state(self) -> State:
        """As it is in the topics."""
        with Cluster(self.bootstrap) as cluster:
            return read_state(cluster, self.name)


@contextmanager
def in_small_pieces(small: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (snapshot, "FEWEST", small),
            (snapshot, "MOST", small),
            (replication, "MESSAGES", small),
            (changes, "PASSED_SECONDS", 0.02),
            (captures, "WAIT_SECONDS", 0.05),
            (captures, "FIRST_PAUSE", 0.02),
            (captures, "IDLE_MICROS", 0),
        ):
            patch.setattr(module, name, value)
        yield


def end_of_log(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert found is not None
    return lsn_number(found[0])


def has_come_to(capture: Capture, end: int) -> bool:
    """Whether all that is before this place of the log is in the topics, nothing of a transaction is missing, and
    nothing is left to be read.
    """
    state = capture.state
    position = state.position
    is_behind = position is not None and not position.index and position.at["lsn"] >= end
    return capture.is_streaming.is_set() and is_behind and state.is_complete


def _live(life: Life, die_at: str, until_still: bool) -> None:
    os.environ[VARIABLE] = die_at
    with in_small_pieces(life.small):
        capture = life.capture(life.source())
        if not until_still:
            capture.run()
            return
        end = end_of_log(life.url)
        with running(capture):
            wait_until(lambda: has_come_to(capture, end))


def started(life: Life, die_at: str = "", *, until_still: bool = False) -> Any:
    process = processes.Process(target=_live, args=(life, die_at, until_still))
    process.start()
    return process


def lived(life: Life, die_at: str = "") -> bool:
    """In a process of its own, until nothing is left to be told, or until it is killed there; whether it was."""
    process = started(life, die_at, until_still=True)
    process.join()
    code = process.exitcode
    process.close()
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def is_partly_read(state: State) -> bool:
    return any(table.rows and table.is_left for table in state.tables.values())


def lived_here(life: Life, die_at: str = "", *, while_reading: bool = False) -> bool:
    """As `lived`, in this process: at its place the capture is cut off by an error that nobody catches. `while_reading`
    counts the places only while a table is partly read.
    """
    reached: Counter[str] = Counter()
    errors: list[BaseException] = []
    source = life.source()

    def die(place: str) -> None:
        reached[place] += not while_reading or is_partly_read(capture.state)
        if f"{place}:{reached[place]}" == die_at:
            raise Died(place)

    def run() -> None:
        try:
            capture.run()
        except BaseException as error:
            errors.append(error)

    with in_small_pieces(life.small):
        capture, end = life.capture(source), end_of_log(life.url)
        thread = threading.Thread(target=run)
        with watched(die):
            thread.start()
            try:
                wait_until(lambda: errors or has_come_to(capture, end), "an end")
            finally:
                capture.stop()
                thread.join()
                source.close()
    for error in errors:
        if not isinstance(error, Died):
            raise error
    return bool(errors)
