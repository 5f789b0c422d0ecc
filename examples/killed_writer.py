"""A writer that is killed again and again, and the check that nothing was lost.

Run as a program, this file is the writer: it opens a data directory, checks what stands there against all that was ever
acknowledged or seen, and then appends until somebody kills it. Imported, it is the other side: `WriterProcess` starts
the program, keeps its reports and kills it.

What a producer sends follows from the seed and its sequence alone, so the check knows what every record must hold. A
restarted writer goes on behind the last batch that was reported as acknowledged: batches of which nobody knows whether
they were written, at most five of each producer, it sends again, as a Kafka client does. The log must keep them once.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from runnel.clock import SYSTEM_CLOCK
from runnel.errors import DamagedLog
from runnel.files import DISK, Buffer, DiskFile, DiskFiles, Files
from runnel.log import Append, Appended, Log, Partition, TopicSettings, open_log
from runnel.records import Producer, Record, build_batch, with_timestamps

TOPIC = "orders"
PARTITIONS = 3
PRODUCERS = 6
UNDER_WAY = 5  # batches of an eager producer that wait for their answers
SETTINGS = TopicSettings(segment_bytes=16 * 1024 * 1024, retention_ms=-1)
NOISE = 1024 * 1024  # bytes from which all values are cut
PAGE = 4 * 1024
LARGE = 256 * 1024  # bytes of a write that is reported when it begins
PATIENCE = 120  # seconds after which a writer that reports nothing new is given up


# --- what is written


@functools.cache
def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(NOISE)


def planned_batch(seed: int, producer: int, sequence: int) -> list[Record]:
    """The records of the producer's batch that begins with this sequence. One batch in three is large."""
    chance = random.Random(f"{seed}/{producer}/{sequence}")
    if chance.random() < 1 / 3:
        sizes = [chance.randrange(60_000, 120_000) for _ in range(chance.randrange(3, 9))]
    else:
        sizes = [chance.randrange(200) for _ in range(chance.randrange(1, 20))]
    records: list[Record] = []
    for number, size in enumerate(sizes, sequence):
        start = chance.randrange(NOISE - size)
        records.append(Record(noise(seed)[start : start + size], key=f"{producer}/{number}".encode()))
    return records


def planned_records(seed: int, producer: int) -> Iterator[tuple[Record, bool]]:
    """All that the producer will ever send, and of each record whether it is the last one of its batch."""
    sequence = 0
    while True:
        records = planned_batch(seed, producer, sequence)
        for record in records:
            yield record, record is records[-1]
        sequence += len(records)


# --- what was promised


class Acknowledged(NamedTuple):
    """An append that returned."""

    producer: int
    sequence: int
    count: int
    base_offset: int
    duplicate: bool  # sent again after a kill, and recognised


class Seen(NamedTuple):
    """A record that a reader was given."""

    partition: int
    offset: int
    key: str


@dataclass
class History:
    """All that the writers have reported. It outlives them."""

    seed: int
    acknowledged: list[Acknowledged] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    @property
    def records_acknowledged(self) -> int:
        return sum(append.count for append in self.acknowledged)

    def next_sequence(self, producer: int) -> int:
        return sum(append.count for append in self.acknowledged if append.producer == producer)

    def next_unseen(self, partition: int) -> int:
        return max((seen.offset + 1 for seen in self.seen if seen.partition == partition), default=0)

    def encode(self) -> str:
        return json.dumps([self.seed, self.acknowledged, self.seen])

    @classmethod
    def decode(cls, text: str) -> History:
        seed, acknowledged, seen = json.loads(text)
        return cls(seed, [Acknowledged(*append) for append in acknowledged], [Seen(*record) for record in seen])


# --- the check


@dataclass(frozen=True)
class Restart:
    """What a restart found; `cut` counts the bytes of torn writes that it removed."""

    milliseconds: float
    found: int
    cut: int
    epoch: int
    broken: list[str]


def reopen(path: str, history: History, files: Files = DISK) -> tuple[Log, Restart]:
    """Open the directory, after a kill or for the first time, and hold it against the history."""
    start = time.perf_counter()
    log = open_log(path, files=files)
    took = time.perf_counter() - start
    partitions = [log.partition(TOPIC, number, SETTINGS) for number in range(PARTITIONS)]
    return log, Restart(
        milliseconds=took * 1000,
        found=sum(partition.end_offset for partition in partitions),
        cut=sum(finding.size for finding in log.findings if not finding.damage),
        epoch=max(partition.leader_epoch for partition in partitions),
        broken=list(broken_promises(log, partitions, history)),
    )


def broken_promises(log: Log, partitions: list[Partition], history: History) -> Iterator[str]:
    """A sentence for each promise that was not kept."""
    for finding in log.findings:
        if finding.damage:
            yield f"{finding.path} is damaged: {finding.reason}"
    held: list[list[str] | None] = [None] * len(partitions)
    for number, partition in enumerate(partitions):
        keys: list[str] = []
        try:
            difference = first_difference(partition, history.seed, keys)
        except DamagedLog as error:
            difference = str(error)
        if difference is None:
            held[number] = keys
        else:  # and it would make no sense to look on there
            yield difference
    for producer, sequence, count, base, _ in history.acknowledged:
        found = held[producer % PARTITIONS]
        expected = [f"{producer}/{number}" for number in range(sequence, sequence + count)]
        if found is not None and found[base : base + count] != expected:
            yield f"records {expected[0]} to {expected[-1]} were acknowledged at offset {base} and are not there"
    for number, offset, key in history.seen:
        found = held[number]
        if found is not None and found[offset : offset + 1] != [key]:
            yield f"a reader saw record {key} at offset {offset} and it is not there"


def first_difference(partition: Partition, seed: int, keys: list[str]) -> str | None:
    """Compare every record with the plan, until one differs; `keys` takes those that are as planned."""
    plans = {name: planned_records(seed, name) for name in range(partition.id.partition, PRODUCERS, PARTITIONS)}
    at_the_end_of_a_batch = dict.fromkeys(plans, True)
    for record in partition.records():
        key = (record.key or b"").decode()
        producer = int(key.partition("/")[0] or -1)
        if producer not in plans:
            return f"{partition.id} holds a record at offset {record.offset} that nobody wrote"
        planned, at_the_end_of_a_batch[producer] = next(plans[producer])
        if (record.key, record.value, record.offset) != (planned.key, planned.value, len(keys)):
            return f"{partition.id} holds a wrong record at offset {record.offset}, after offset {len(keys) - 1}"
        keys.append(key)
    for producer, whole in at_the_end_of_a_batch.items():
        if not whole:
            return f"{partition.id} holds only a part of the last batch of producer {producer}"
    return None


# --- the process that is killed


class PagewiseFile(DiskFile):
    """Written page by page, so that a kill tears a write in two far more often than it would one system call.

    A large write is reported when it begins, for those who want to kill in the middle of one.
    """

    __slots__ = ()

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        data = memoryview(b"".join(buffers))
        if len(data) >= LARGE:
            report("writing", len(data))
        for start in range(0, len(data), PAGE):
            super().write([data[start : start + PAGE]], position + start)


class PagewiseDisk(DiskFiles):
    def open(self, path: str, *, create: bool = False) -> DiskFile:
        return PagewiseFile(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0))


def write_until_killed(path: str, history: History) -> None:
    log, restart = reopen(path, history, PagewiseDisk())
    report("restart", asdict(restart))
    partitions = [log.partition(TOPIC, number) for number in range(PARTITIONS)]
    threads = [threading.Thread(target=follow, args=(partition, history)) for partition in partitions]
    for producer in range(PRODUCERS):
        produce = produce_eagerly if producer else produce_patiently
        threads.append(threading.Thread(target=produce, args=(partitions[producer % PARTITIONS], history, producer)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def produce_patiently(partition: Partition, history: History, producer: int) -> None:
    """Send a batch when the one before it is acknowledged."""
    sequence = history.next_sequence(producer)
    while True:
        records = planned_batch(history.seed, producer, sequence)
        report_acknowledged(producer, sequence, partition.append_batch(encoded(records, producer, sequence)))
        sequence += len(records)


def produce_eagerly(partition: Partition, history: History, producer: int) -> None:
    """Send a batch when the fifth one before it is acknowledged."""
    sequence = history.next_sequence(producer)
    waiting: deque[tuple[int, Append]] = deque()
    while True:
        if len(waiting) == UNDER_WAY:
            first, append = waiting.popleft()
            report_acknowledged(producer, first, append.result())
        records = planned_batch(history.seed, producer, sequence)
        waiting.append((sequence, partition.submit(encoded(records, producer, sequence))))
        sequence += len(records)


def encoded(records: list[Record], producer: int, sequence: int) -> bytes:
    stamped = with_timestamps(records, SYSTEM_CLOCK.now())
    return build_batch(stamped, producer=Producer(producer, 0, sequence))


def follow(partition: Partition, history: History) -> None:
    """Read on from the record after the last one that was seen before the kill."""
    number = partition.id.partition
    for record in partition.follow(history.next_unseen(number)):
        report("seen", Seen(number, record.offset, (record.key or b"").decode()))


def report_acknowledged(producer: int, sequence: int, appended: Appended) -> None:
    base, last = appended.base_offset, appended.last_offset
    report("acknowledged", Acknowledged(producer, sequence, last - base + 1, base, appended.duplicate))


def report(kind: str, content: object) -> None:
    """One call for one line: once it returns, the line outlives this process."""
    os.write(sys.stdout.fileno(), json.dumps([kind, content]).encode() + b"\n")


def end_at_once(failure: threading.ExceptHookArgs) -> None:
    """A writer without one of its threads would look like a slow one."""
    threading.__excepthook__(failure)
    os._exit(1)


def main() -> None:
    logging.basicConfig(level=logging.ERROR)  # torn writes are part of the report
    threading.excepthook = end_at_once
    write_until_killed(sys.argv[1], History.decode(sys.stdin.readline()))


# --- the side that kills


class WriterProcess:
    """A running writer. Leaving the `with` block kills it."""

    def __init__(self, path: str, history: History) -> None:
        self.history = history
        self._restart: Restart | None = None
        self._writes = 0
        self._ended = False
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, __file__, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is meant for us, and we kill it then
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._process.stdin.write(history.encode() + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> WriterProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def restart(self) -> Restart:
        """Wait until it has opened the directory and checked it."""
        self._wait(lambda: self._restart is not None)
        return self._restart

    def wait_for_acknowledgements(self, count: int) -> None:
        """Wait until so many more appends were reported as acknowledged."""
        goal = len(self.history.acknowledged) + count
        self._wait(lambda: len(self.history.acknowledged) >= goal)

    def wait_for_a_write(self) -> None:
        """Wait until it begins with a large write."""
        before = self._writes
        self._wait(lambda: self._writes > before)

    def kill(self) -> None:
        """SIGKILL, and take in what was reported up to then."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._process.stdin.close()
        self._process.stdout.close()

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._news:
            if not self._news.wait_for(lambda: condition() or self._ended, PATIENCE):
                raise TimeoutError(f"the writer has reported nothing of interest for {PATIENCE} seconds")
            if not condition():
                raise RuntimeError("the writer ended by itself; its error stands above")

    def _listen(self) -> None:
        for line in self._process.stdout:
            if line.endswith("\n"):  # the last one may be torn, too
                with self._news:
                    self._note(*json.loads(line))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _note(self, kind: str, content: Any) -> None:
        if kind == "acknowledged":
            self.history.acknowledged.append(Acknowledged(*content))
        elif kind == "seen":
            self.history.seen.append(Seen(*content))
        elif kind == "writing":
            self._writes += 1
        else:
            self._restart = Restart(**content)


if __name__ == "__main__":
    main()
