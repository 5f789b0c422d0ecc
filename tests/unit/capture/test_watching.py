"""How a capture is doing, and what is said before a disk fills."""

import logging
import threading
from collections import Counter
from types import SimpleNamespace

import pytest

from runnel.capture.events import Position
from runnel.capture.lag import Lag
from runnel.capture.snapshots import Progress
from runnel.capture.state import State, TableState
from runnel.capture.watching import RetainedWarning, Watching
from runnel.errors import Transient


class Database:
    unit = "bytes"

    def __init__(self):
        self.kept = 100
        self.limit = None
        self.error = None
        self.closed = 0

    def behind(self, position):
        if self.error is not None:
            raise self.error
        return 7

    def retained(self):
        return self.kept

    def retained_limit(self):
        return self.limit

    def close(self):
        self.closed += 1


@pytest.fixture
def database():
    return Database()


@pytest.fixture
def work():
    return SimpleNamespace(
        name="shop", progress=Progress(40, 100), state=State("x", Position({}), 3), is_streaming=threading.Event()
    )


@pytest.fixture
def watching(work, database):
    publisher = SimpleNamespace(events=Counter({("t", "c"): 2}), rejected=Counter({"t": 1}))
    return Watching(work, publisher, SimpleNamespace(lag=Lag()), lambda: database, retained_warning=1_000)


def test_a_look_asks_how_far_behind_it_is_and_what_is_kept(watching):
    assert (watching.numbers.behind, watching.numbers.unit, watching.numbers.retained) == (None, "", None)
    watching.look()
    numbers = watching.numbers
    assert (numbers.behind, numbers.unit, numbers.retained) == (7, "bytes", 100)
    assert (numbers.rows, numbers.estimate, numbers.steps, numbers.is_streaming) == (40, 100, 3, False)
    assert (numbers.events, numbers.rejected) == ({("t", "c"): 2}, {"t": 1})


def test_a_capture_that_waits_is_behind_and_reads_neither_tables_nor_changes(work, database):
    lag = Lag()
    lag.read(1, is_current=True)  # long ago
    publisher = SimpleNamespace(events=Counter(), rejected=Counter())
    watching = Watching(work, publisher, SimpleNamespace(lag=lag), lambda: database)
    numbers = watching.numbers
    assert (numbers.is_streaming, numbers.is_waiting, numbers.lag_seconds > 1_000) == (False, True, True)
    work.is_streaming.set()
    assert watching.numbers.is_waiting is False
    work.is_streaming.clear()
    work.state = State("x", Position({}), 3, {"main.orders": TableState()})
    assert (watching.numbers.is_waiting, watching.numbers.lag_seconds) == (False, 0.0)


def test_nothing_is_asked_before_there_is_a_position(watching, work):
    work.state = State()
    watching.look()
    assert watching.numbers.behind is None


def test_what_cannot_be_asked_is_not_known_and_asked_again_later(watching, database):
    watching.look()
    database.error = Transient("it is away")
    watching.look()
    assert (watching.numbers.behind, watching.numbers.retained, database.closed) == (None, None, 1)
    database.error = None
    watching.look()
    assert watching.numbers.behind == 7


def test_it_looks_by_itself_until_it_is_stopped(watching, database):
    watching.start()
    watching.stop()
    assert database.closed == 1
    assert watching.numbers.behind == 7


def test_much_that_is_kept_is_said_once_each_time_it_comes_to_that(watching, database, caplog):
    with caplog.at_level(logging.WARNING):
        for kept in (1_000, 1_001, 5_000, 900, 2_000):
            database.kept = kept
            watching.look()
    assert caplog.messages == [
        f"capture shop: the server keeps {kept} bytes of its log for it, more than 1,000; "
        "see what holds the capture up, or remove it"
        for kept in ("1,001", "2,000")
    ]


def test_half_of_what_the_server_keeps_at_most_is_much(caplog):
    warning = RetainedWarning("shop", 1_000_000)
    with caplog.at_level(logging.WARNING):
        warning.see(1_000, 2_000)
        warning.see(1_001, 2_000)
    (said,) = caplog.messages
    assert "keeps 1,001 bytes of its log for it, more than 1,000; beyond 2,000 (max_slot_wal_keep_size)" in said
