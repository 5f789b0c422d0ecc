"""A capture that runs, ours or Debezium's: how far it is, and what its process uses.

How far it is, the topics say. What is committed counts, so that records in a transaction of ours do when it is over.
The end of a backlog is known by a change of a small table, which is made last: its record is there when all before it
is.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from benchmarks import broker_wire as wire
from benchmarks.broker_process import peak, reset_peak
from benchmarks.broker_servers import Running
from benchmarks.capture_database import DONE, Database
from benchmarks.daily_memory import proportional

PREFIX = "bench"  # what the topics of both begin with
PATIENCE = 900.0  # seconds
PAUSE = 0.02  # between two questions how far a topic is
CONSUMED = 5_000
READ_PATIENCE = 60.0


class Process(Protocol):
    """Our command, or a Java."""

    @property
    def pid(self) -> int: ...

    def check(self) -> None:
        """Raises if it has ended."""


@dataclass
class Command:
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        if self.process.poll() is not None:
            said = self.log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"the capture ended with {self.process.returncode}; {self.log} ends with:\n{said}")


@dataclass(frozen=True)
class Captured:
    """`slot` is where it reads the database's log."""

    process: Process
    database: Database
    broker: Running
    slot: str
    prefix: str = PREFIX

    @property
    def pid(self) -> int:
        return self.process.pid

    def topic(self, table: str) -> str:
        return topic_of(table, self.prefix)

    def end(self, table: str) -> int:
        """The offset behind the last record of a table that is committed."""
        with self.broker.connect() as connection:
            found = wire.end_offsets(connection, self.topic(table), 1, committed=True)
        return 0 if found is None else found[0]

    def wait_beyond(self, table: str, offset: int, limit: float = PATIENCE) -> None:
        """Until a table's topic has a committed record at an offset or behind it."""
        deadline = time.monotonic() + limit
        with self.broker.connect() as connection:
            while (wire.end_offsets(connection, self.topic(table), 1, committed=True) or {0: 0})[0] <= offset:
                self.process.check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no record at {offset} of {self.topic(table)} in {limit:.0f} s")
                time.sleep(PAUSE)

    def catch_up(self) -> None:
        """Until all is in the topics that was done to the database."""
        end = self.end(DONE)
        self.database.finish()
        self.wait_beyond(DONE, end)

    def count(self, table: str, start: int) -> int:
        """How many records of a table are committed, from an offset on."""
        return committed_records(self.broker, self.topic(table), start, self.end(table))

    @contextmanager
    def halted(self) -> Iterator[None]:
        """It does nothing at all meanwhile."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    # --- what it uses

    def forget_peak(self) -> None:
        reset_peak(self.pid)

    @property
    def peak(self) -> int:
        """Bytes: the most that was resident since it was forgotten."""
        return peak(self.pid)

    @property
    def proportional(self) -> int:
        """Bytes, of which those that it shares count by their share. Neither side starts other processes."""
        return proportional(self.pid)


def topic_of(table: str, prefix: str = PREFIX) -> str:
    return f"{prefix}.public.{table}"


def committed_records(broker: Running, topic: str, start: int, end: int) -> int:
    """Between two offsets; tombstones are records, and the marks of transactions are none."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": str(uuid4()),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    count = 0
    deadline = time.monotonic() + READ_PATIENCE
    try:
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            messages = consumer.consume(CONSUMED, 1.0)
            count += sum(message.error() is None for message in messages)
            if any(message.error() is not None for message in messages):  # nothing is left but a transaction's mark
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} gave {count:,} records in {READ_PATIENCE:.0f} s")
    finally:
        consumer.close()
    return count
