"""What is measured of one life of a capture, ours or Debezium's, on a database and a broker of its own.

A life begins with a minute of changes, to warm up. Then come, one after the other:

- a backlog: the capture is halted while it is written, and the clock runs from when it goes on until the last change is
  committed in its topic. The same with many tables, and with rows of a megabyte.
- how old a change is when somebody reads it, at a steady rate.
- a snapshot of the big table.
- how old a change is while the big table is read once more, beside the changes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks import capture_delays
from benchmarks.broker_servers import CRITICAL, Runnel, Running, running
from benchmarks.broker_turns import say
from benchmarks.capture_database import (
    BIG,
    BULK,
    CHANGES,
    DONE,
    LARGE,
    ORDERS,
    SIGNALS,
    TICKS,
    TOMBSTONES,
    database,
)
from benchmarks.capture_running import Captured, topic_of
from benchmarks.capture_sides import Side, wait_until_ready
from benchmarks.harness import Options
from tests.contract.views.postgres_server import Postgres

ROOT = Path(__file__).parents[1]
MB = 1e6
MILLION = 1e6
RATE = 500  # changes a second


@dataclass(frozen=True)
class Sizes:
    warm: int  # seconds
    backlog: int  # transactions of 100 changes
    many: int  # transactions of 100 changes
    tables: int
    large: int  # rows
    snapshot: int  # rows
    delays: int  # seconds
    bulk: int  # rows of one transaction
    few: int  # rows of a transaction that is small beside it
    is_quick: bool = False

    @classmethod
    def of(cls, options: Options) -> "Sizes":
        if options.quick:
            return cls(2, 30, 20, 20, 3, 5_000, 2, 20_000, 5_000, is_quick=True)
        return cls(60, 3_000, 1_000, 200, 50, 2_000_000, 15, 1_000_000, 100_000)


@dataclass(frozen=True)
class Caught:
    """A backlog that was read."""

    changes: int
    seconds: float
    server_cpu: float  # seconds
    peak: int  # bytes, of the capture's process
    proportional: int

    @property
    def per_second(self) -> float:
        return self.changes / self.seconds

    @property
    def server_cpu_of_a_million(self) -> float:
        return self.server_cpu / self.changes * MILLION

    def __str__(self) -> str:
        return (
            f"{self.per_second:,.0f} changes/s, {self.server_cpu_of_a_million:.1f} s CPU of the server per million,"
            f" peak {self.peak / MB:.0f} MB, Pss {self.proportional / MB:.0f} MB"
        )


@dataclass(frozen=True)
class Delays:
    p50: float  # milliseconds
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f}, p99 {self.p99:.1f} ms"


@dataclass(frozen=True)
class Life:
    backlog: Caught
    many: Caught
    large: Caught
    quiet: Delays
    rows_per_second: float  # of the snapshot
    meanwhile: Delays

    def __str__(self) -> str:
        return f"{self.backlog}; snapshot {self.rows_per_second:,.0f} rows/s; quiet {self.quiet}; then {self.meanwhile}"


def life(side: Side, postgres: Postgres, program: Path, place: Path, sizes: Sizes) -> Life:
    place.mkdir()
    with database(postgres) as own, running(Runnel(place / "broker", program)) as broker:
        make_topics(broker, sizes.tables)
        with side.capturing(own, broker, place) as captured:
            wait_until_ready(captured)
            _warm_up(captured, sizes.warm)
            backlog = caught_up(captured, lambda: own.change(sizes.backlog))
            _tell(side, "backlog", backlog)
            quiet = delays(captured, sizes.delays)
            _tell(side, "delays", quiet)
            many = caught_up(captured, lambda: own.change_many(sizes.many, sizes.tables))
            _tell(side, f"{sizes.tables} tables", many)
            large = caught_up(captured, lambda: own.insert_large(sizes.large))
            _tell(side, "rows of a megabyte", large)
            rows_per_second = sizes.snapshot / side.first_reading(captured, place, sizes.snapshot)
            _tell(side, "snapshot", f"{rows_per_second:,.0f} rows/s")
            meanwhile = _delays_beside_reading(side, captured, sizes)
    return Life(backlog, many, large, quiet, rows_per_second, meanwhile)


def _tell(side: Side, what: str, found: object) -> None:
    say(f"{side.name}, {what}: {found}")


def make_topics(broker: Running, tables: int) -> None:
    names = [ORDERS, TICKS, BIG, BULK, LARGE, DONE, SIGNALS, *(f"many_{number}" for number in range(tables))]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": CRITICAL})
    for future in admin.create_topics([NewTopic(topic_of(name), 1, 1) for name in names]).values():
        future.result()


# --- backlogs


def _warm_up(captured: Captured, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        captured.database.change(100)
        captured.catch_up()


def caught_up(captured: Captured, write: Callable[[], int]) -> Caught:
    """What the capture makes of what is written while it is halted."""
    own = captured.database
    captured.catch_up()
    orders, done = captured.end(ORDERS), captured.end(DONE)
    with captured.halted():
        sent = own.sender_cpu(captured.slot)  # it sends as much as buffers hold
        changes = write()
        own.finish()
        own.settle()
        captured.forget_peak()
        used = own.server_cpu() - (own.sender_cpu(captured.slot) - sent)
        begin = time.perf_counter()
    captured.wait_beyond(DONE, done)
    seconds = time.perf_counter() - begin
    found = Caught(changes, seconds, own.server_cpu() - used, captured.peak, captured.proportional)
    _check_orders(captured, orders, changes)
    return found


def _check_orders(captured: Captured, start: int, changes: int) -> None:
    """That all are there, if they were changes of the orders. A delete is two records."""
    if captured.end(ORDERS) == start:
        return
    expected = changes // CHANGES * (CHANGES + TOMBSTONES)
    if (count := captured.count(ORDERS, start)) != expected:
        raise RuntimeError(f"{captured.topic(ORDERS)} has {count:,} of {expected:,} records")


# --- delays


def delays(captured: Captured, seconds: int) -> Delays:
    command = [sys.executable, "-m", capture_delays.__name__]
    given = [captured.database.url, captured.broker.bootstrap, captured.topic(TICKS), TICKS, RATE, seconds]
    run = subprocess.run([*command, *map(str, given)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Delays(**json.loads(run.stdout))


def _delays_beside_reading(side: Side, captured: Captured, sizes: Sizes) -> Delays:
    begin = captured.end(BIG)
    side.begin_reading(captured)
    captured.wait_beyond(BIG, begin)
    found = delays(captured, sizes.delays)
    read = captured.end(BIG) - begin
    _tell(side, f"delays while about {read:,} rows were read", found)
    if sizes.snapshot <= read and not sizes.is_quick:
        raise RuntimeError(f"the snapshot was over before the delays were measured: {read:,} rows")
    return found
