"""What a cleaner did, as its broker tells it and as /proc shows it.

- Ours begins when its worker's process is there, and ends with the line of the broker's log that says so. The worker is
  the broker's only child.
- Kafka's begins and ends with the lines of its cleaner's log, which it writes at the level INFO.

Both name the records before and after. Processor time and memory are those of the whole server, the worker included,
because nobody can tell the cleaner's part of Java's heap from the rest.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.broker_process import cpu_of_stat, cpu_seconds, resident
from benchmarks.broker_servers import Running
from tests.interop.kafka_server import LOGGING

INTERVAL = 0.03
Number = TypeVar("Number", int, float)
CLEANER_LOGGING = """\
logger.cleaner.name = org.apache.kafka.storage.internals.log
logger.cleaner.level = INFO
"""
KAFKA_LOGGING = LOGGING + CLEANER_LOGGING
OURS_ENDED = r"^(\S+)Z INFO \S+: compacted {partition} up to offset \d+: (\d+) of (\d+) records"
KAFKA_BEGAN = r"^(\S+ \S+) INFO +\S+: .*Beginning cleaning of log {partition}\b"
KAFKA_ENDED = (
    r"^(\S+ \S+) INFO +\S+: [^\n]*\n\tLog cleaner thread \d+ cleaned log {partition} "
    r"(?s:.*?)\tStart size: [^\n]*\(([\d,]+) messages\)\n\tEnd size: [^\n]*\(([\d,]+) messages\)"
)


@dataclass(frozen=True)
class Cleaning:
    """One round of a cleaner; times are seconds since 1970."""

    began: float
    ended: float
    records_before: int
    records_after: int

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Cleaner(Protocol):
    """Looks at the cleaner of one broker, again and again, until it has cleaned one partition."""

    def look(self) -> Cleaning | None:
        """None as long as it is not done."""


@dataclass
class OurCleaner:
    broker: Running
    partition: str
    workers: "list[Worker]" = field(default_factory=list)  # the one; more if a round failed
    began: float = 0.0

    def look(self) -> Cleaning | None:
        now = time.time()
        for pid in children(self.broker.pid):
            if not any(worker.pid == pid for worker in self.workers):
                self.workers.append(Worker(pid))
                self.began = self.began or now
        for worker in self.workers:
            worker.look(now)
        found = re.search(OURS_ENDED.format(partition=self.partition), log_of(self.broker), re.MULTILINE)
        if found is None:
            return None
        if len(self.workers) != 1:
            raise RuntimeError(f"{len(self.workers)} workers were seen compacting {self.partition}, expected one")
        ended = datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()
        return Cleaning(self.began, ended, records_before=int(found[3]), records_after=int(found[2]))


@dataclass
class KafkaCleaner:
    broker: Running
    partition: str

    def look(self) -> Cleaning | None:
        log = log_of(self.broker)
        began = re.search(KAFKA_BEGAN.format(partition=self.partition), log, re.MULTILINE)
        ended = re.search(KAFKA_ENDED.format(partition=self.partition), log, re.MULTILINE)
        if began is None or ended is None:
            return None
        return Cleaning(_kafka_time(began[1]), _kafka_time(ended[1]), _number(ended[2]), _number(ended[3]))


@dataclass
class Worker:
    """A worker of ours, and what it had used at which time."""

    pid: int
    used: list[tuple[float, float]] = field(default_factory=list)  # time, processor seconds until then
    peak: int = 0  # bytes of resident memory

    def look(self, now: float) -> None:
        try:
            self.used.append((now, cpu_seconds(self.pid)))
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return  # it has ended
        if found := re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE):
            self.peak = int(found[1]) * 1024


@dataclass(frozen=True)
class Watched:
    """A cleaning, and what the server used meanwhile."""

    cleaning: Cleaning
    cpu: float  # seconds
    memory: int  # bytes: the most that was resident


class Watch:
    """Looks at a cleaner from a thread of its own, so that a load can run at the same time."""

    def __init__(self, broker: Running, cleaner: Cleaner, limit: float) -> None:
        self._broker = broker
        self.cleaner = cleaner
        self._deadline = time.monotonic() + limit
        self._limit = limit
        self._result: Watched | BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def result(self) -> Watched:
        """When it is done."""
        self._thread.join()
        if not isinstance(self._result, Watched):
            raise RuntimeError(f"the cleaner of {self._broker.name} could not be watched") from self._result
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._watched()
        except BaseException as error:
            self._result = error

    def _watched(self) -> Watched:
        used, memory = server_cpu(self._broker.pid), 0
        while (cleaning := self.cleaner.look()) is None:
            if time.monotonic() > self._deadline:
                raise TimeoutError(f"not cleaned after {self._limit:.0f} s")
            memory = max(memory, server_memory(self._broker.pid))
            time.sleep(INTERVAL)
        return Watched(cleaning, server_cpu(self._broker.pid) - used, memory)


# --- what the server uses


def children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (thread / "children").read_text().split())
        except OSError:
            continue  # the thread has ended
    return found


def server_cpu(pid: int) -> float:
    """Of the process and of its children, those that have ended included."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return cpu_of_stat(stat) + ended_children_cpu(stat) + sum(_of_each(cpu_seconds, children(pid)))


def ended_children_cpu(line: str) -> float:
    """Of a line of /proc/PID/stat: the processor time of children that were waited for."""
    name, end, fields = line.rpartition(")")
    moved = fields.split()
    moved[11:13] = moved[13:15]
    return cpu_of_stat(f"{name}{end} {' '.join(moved)}")


def server_memory(pid: int) -> int:
    return resident(pid) + sum(_of_each(resident, children(pid)))


def _of_each(what: Callable[[int], Number], pids: Sequence[int]) -> list[Number]:
    """Without those that have ended."""
    found: list[Number] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(what(pid))
    return found


def busiest_share(used: Sequence[tuple[float, float]], window: float) -> float:
    """The largest share of a core over any time of this length; over all of it if there is less."""
    most, first = 0.0, 0
    for now, cpu in used:
        while first + 1 < len(used) and used[first + 1][0] <= now - window:
            first += 1
        began, before = used[first]
        if now - began >= min(window, used[-1][0] - used[0][0]) > 0:
            most = max(most, (cpu - before) / (now - began))
    return most


# --- what the server says


def log_of(broker: Running) -> str:
    return (broker.data.parent / "server.log").read_text(errors="replace")


def _kafka_time(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").timestamp()  # in local time


def _number(text: str) -> int:
    return int(text.replace(",", ""))
