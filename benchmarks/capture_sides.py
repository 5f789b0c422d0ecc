"""The two captures: how each is started on a database, and asked for a snapshot.

- Ours is `runnel capture run` of an environment as users have it.
- Debezium's embedded engine 3.3 has a heap and a collector as Kafka Connect's script gives them, writes JSON without
  schemas, looks for changes every 10 ms and takes 8,192 at once. Its records go to the topics with acks=all, and a
  batch counts as processed when all of it is acknowledged; its offsets are in a file.

Both write into a broker of ours, into topics of one partition which are there before.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from benchmarks.broker_environment import users_variables
from benchmarks.broker_servers import Running
from benchmarks.capture_database import BIG, BIG_DONE, DONE, SIGNALS, Database
from benchmarks.capture_running import PREFIX, Captured, Command, topic_of
from tests.contract.views.postgres_server import USER
from tests.interop.debezium.engine import Engine, postgres_settings

OURS = "Runnel"
DEBEZIUM = "Debezium 3.3, embedded"
NAMES = (OURS, DEBEZIUM)
FIRST = "first"  # our capture that reads the big table from its beginning
READY_SECONDS = 120.0
STOP_SECONDS = 60.0
PUBLICATION = SLOT = "peer"
CONNECT_OPTIONS = (
    "-server",
    "-Xms256M",
    "-Xmx2G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
ALL_TABLES = r"public\\..*"  # as a file of properties has it
ENGINE = {
    "snapshot.mode": "no_data",
    "poll.interval.ms": "10",
    "max.batch.size": "8192",
    "max.queue.size": "16384",  # it must be larger than a batch
    "converter.schemas.enable": "false",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "signal.data.collection": f"public.{SIGNALS}",
}


class Side(Protocol):
    @property
    def name(self) -> str: ...

    def capturing(self, database: Database, broker: Running, place: Path) -> AbstractContextManager[Captured]:
        """All tables, from now on."""

    def first_reading(self, captured: Captured, place: Path, rows: int) -> float:
        """The seconds that a snapshot of the big table takes, from when it is asked for."""

    def begin_reading(self, captured: Captured) -> None:
        """Ask for a snapshot of the big table beside the changes."""


@dataclass(frozen=True)
class Ours:
    program: Path
    name: str = OURS

    @contextmanager
    def capturing(
        self, database: Database, broker: Running, place: Path, *, name: str = PREFIX, options: Sequence[str] = ()
    ) -> Iterator[Captured]:
        """With options, such as those that name the tables; otherwise all tables are captured from now on."""
        command = [str(self.program), "capture", "run", name, database.url, "--bootstrap", broker.bootstrap]
        with self._started([*command, *(options or ("--snapshot", "none"))], place / f"{name}.log") as started:
            yield Captured(started, database, broker, f"runnel_{name}", name)

    def first_reading(self, captured: Captured, place: Path, rows: int) -> float:
        """By a new capture, whose start counts. The table behind the big one is the last that is read."""
        database, broker = captured.database, captured.broker
        for table in (BIG, BIG_DONE):
            broker.create_topic(topic_of(table, FIRST), 1)
        options = [part for table in (BIG, BIG_DONE) for part in ("--tables", f"public.{table}")]
        begin = time.perf_counter()
        with self.capturing(database, broker, place, name=FIRST, options=options) as first:
            first.wait_beyond(BIG_DONE, 0)
            seconds = time.perf_counter() - begin
            if (count := first.count(BIG, 0)) != rows:
                raise RuntimeError(f"{self.name} has {count:,} of {rows:,} rows")
        return seconds

    def begin_reading(self, captured: Captured) -> None:
        asked = [str(self.program), "capture", "snapshot", PREFIX, "--tables", f"public.{BIG}"]
        bootstrap = ["--bootstrap", captured.broker.bootstrap]
        subprocess.run([*asked, *bootstrap], check=True, env=users_variables(), stdout=subprocess.DEVNULL)

    @contextmanager
    def _started(self, command: Sequence[str], log: Path) -> Iterator[Command]:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, env=users_variables(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield Command(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True)
class Debezium:
    name: str = DEBEZIUM

    @contextmanager
    def capturing(self, database: Database, broker: Running, place: Path) -> Iterator[Captured]:
        database.do(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        settings = postgres_settings(
            database.postgres.port,
            user=USER,
            database=database.name,
            prefix=PREFIX,
            slot=SLOT,
            publication=PUBLICATION,
            tables=ALL_TABLES,
        )
        own = {**ENGINE, "offset.storage.file.filename": str(place / "offsets")}
        to = f"kafka:{broker.bootstrap}"
        with Engine(place / "engine", settings | own, to, options=CONNECT_OPTIONS) as engine:
            yield Captured(engine, database, broker, SLOT)

    def first_reading(self, captured: Captured, place: Path, rows: int) -> float:  # noqa: ARG002
        """By its blocking snapshot, so that it is one of an engine that is warmed up."""
        end = captured.end(BIG)
        begin = time.perf_counter()
        self._signal(captured, "blocking")
        captured.wait_beyond(BIG, end + rows - 1)
        return time.perf_counter() - begin

    def begin_reading(self, captured: Captured) -> None:
        self._signal(captured, "incremental")

    def _signal(self, captured: Captured, kind: str) -> None:
        data = json.dumps({"data-collections": [f"public.{BIG}"], "type": kind})
        captured.database.do(f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)", str(uuid4()), data)


def wait_until_ready(captured: Captured) -> None:
    """Until it tells of changes. What is changed before it has its place in the log is nothing to it."""
    deadline = time.monotonic() + READY_SECONDS
    while captured.end(DONE) == 0:
        captured.process.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"the capture of {captured.database.name} told of nothing in {READY_SECONDS:.0f} s")
        captured.database.finish()
        time.sleep(0.2)
