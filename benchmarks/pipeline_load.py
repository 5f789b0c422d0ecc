"""Sends clicks at a fixed rate and measures how long each takes, in a process of its own (`load`).

Latency counts from the call of `produce` until a reader has the row: a consumer of committed records, or somebody who
looks into the view's SQLite file every two milliseconds. Several readers can wait for the same rows. The first seconds
are not counted. Times are of the monotonic clock, which all processes of a machine share.
"""

import gc
import json
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.broker_environment import ROOT
from benchmarks.broker_turns import percentile
from benchmarks.pipeline_events import PARTITIONS

PAGES = 1_000  # a page comes once in so many clicks
LIMIT = 60.0
PAUSE = 0.002  # between two looks into a view
VIEW = "counted"
SHARES = (50, 95, 99, 100)


@dataclass(frozen=True)
class Where:
    """A topic, or a view with the path of its file."""

    name: str
    path: str | None = None


@dataclass(frozen=True)
class Job:
    bootstrap: str
    topic: str
    rate: float
    seconds: float
    warm_up: float  # seconds, the part that is not counted
    readers: tuple[Where, ...]


@dataclass(frozen=True)
class Rows:
    """When each was sent and seen, and how many of the first are not counted."""

    sent: list[float]
    seen: list[float]
    warm: int

    @property
    def latencies(self) -> list[float]:
        """In milliseconds."""
        return [1e3 * (seen - sent) for sent, seen in zip(self.sent[self.warm :], self.seen[self.warm :], strict=True)]

    def between(self, begin: float, end: float) -> list[float]:
        """Those of the rows that were sent in this time and count."""
        sent = self.sent[self.warm :]
        return [taken for at, taken in zip(sent, self.latencies, strict=True) if begin <= at <= end]

    @property
    def percentiles(self) -> dict[str, float]:
        taken = self.latencies
        return {f"p{share}": percentile(taken, share / 100) for share in SHARES}


def load(job: Job) -> list[Rows]:
    """Of each reader."""
    with start(job) as process:
        return result(job, process)


def start(job: Job) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __name__, json.dumps(asdict(job))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def result(job: Job, process: subprocess.Popen[str]) -> list[Rows]:
    """When all is sent and seen."""
    try:
        told, _ = process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"the load of {job.topic} ended with {process.returncode}")
    times = json.loads(told)
    return [Rows(times["sent"], seen, int(job.warm_up * job.rate)) for seen in times["seen"]]


# --- in the process


class Load:
    def __init__(self, bootstrap: str, topic: str, rate: float, seconds: float) -> None:
        self._topic = topic
        self._rate = rate
        self.count = int(rate * seconds)
        self.sent = [0.0] * self.count
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def send(self, end: threading.Event | None = None) -> None:
        begin = time.perf_counter()
        for number in range(self.count):
            time.sleep(max(begin + number / self._rate - time.perf_counter(), 0))
            if end is not None and end.is_set():
                break
            now = time.perf_counter()
            self.sent[number] = now
            self._producer.produce(self._topic, _click(number), partition=number % PARTITIONS)
            self._producer.poll(0)
        self._producer.flush(LIMIT)


class Seen:
    """What one reader has seen of so many rows."""

    def __init__(self, count: int) -> None:
        self.at = [0.0] * count
        self.missing = count

    def see(self, number: int) -> None:
        if not self.at[number]:
            self.at[number] = time.perf_counter()
            self.missing -= 1


def _click(number: int) -> bytes:
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    click = {"page": f"p{number % PAGES}", "customer_id": number, "at": at, "ms": 5, "number": number}
    return json.dumps(click, separators=(",", ":")).encode()


def read_topic(seen: Seen, bootstrap: str, topic: str, end: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "load",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while seen.missing and not end.is_set():
        first = consumer.poll(0.05)  # to consume several at once would wait until all are there, or for all of the time
        for message in [first, *consumer.consume(500, 0)] if first is not None else ():
            if message.error() is None:
                seen.see(json.loads(message.value() or b"")["number"])
    consumer.close()


def read_view(seen: Seen, path: str, end: threading.Event, view: str = VIEW) -> None:
    while not Path(path).exists() and not end.is_set():
        time.sleep(PAUSE)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    newest = dict.fromkeys(range(PAGES), -1)
    version, highest = None, -1
    while seen.missing and not end.is_set():
        time.sleep(PAUSE)
        found = connection.execute("PRAGMA data_version").fetchone()
        if found == version:
            continue
        version = found
        try:
            rows = connection.execute(f"SELECT newest FROM {view} WHERE newest > ?", (highest - 20 * PAGES,)).fetchall()
        except sqlite3.OperationalError:  # the table is not there yet
            continue
        for (number,) in rows:
            page = number % PAGES
            for each in range(newest[page] + PAGES if newest[page] >= 0 else page, number + 1, PAGES):
                seen.see(each)
            newest[page] = max(newest[page], number)
            highest = max(highest, number)
    connection.close()


def _reader(seen: Seen, where: Where, job: Job, end: threading.Event) -> threading.Thread:
    if where.path is None:
        return threading.Thread(target=read_topic, args=(seen, job.bootstrap, where.name, end))
    return threading.Thread(target=read_view, args=(seen, where.path, end, where.name))


def main(text: str) -> None:
    """Prints the times as JSON."""
    gc.disable()
    sys.setswitchinterval(0.0005)
    given = json.loads(text)
    job = Job(**{**given, "readers": tuple(Where(**each) for each in given["readers"])})
    sending = Load(job.bootstrap, job.topic, job.rate, job.seconds)
    end = threading.Event()
    seen = [Seen(sending.count) for _ in job.readers]
    readers = [_reader(each, where, job, end) for each, where in zip(seen, job.readers, strict=True)]
    try:
        for reader in readers:
            reader.start()
        sending.send()
        deadline = time.monotonic() + LIMIT
        for reader in readers:
            reader.join(max(deadline - time.monotonic(), 0))
    finally:
        end.set()
    if missing := max(each.missing for each in seen):
        raise SystemExit(f"{missing} of {sending.count} rows were not seen")
    print(json.dumps({"sent": sending.sent, "seen": [each.at for each in seen]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
