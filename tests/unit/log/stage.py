"""Where the tests of the log play: a disk in memory, a clock that stands still, and nothing in the background."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

from runnel.log import Log, LogSettings, Partition, Record, TopicSettings, open_log
from runnel.records import NO_TIMESTAMP, Producer, build_batch
from runnel.records.batch import NO_PRODUCER
from runnel.testing import FaultyFiles, StoppedClock

DATA = "/data"


class Stage:
    """A log on a disk in memory; `settings` are those of `LogSettings`."""

    def __init__(self, *, files: FaultyFiles | None = None, **settings: int) -> None:
        self.clock = StoppedClock()
        self.files = files or FaultyFiles(clock=self.clock)
        self.settings = LogSettings(**{"low_disk_bytes": 0, "sync_workers": 1, **settings})
        self.log = self.open()

    def open(self) -> Log:
        return open_log(
            DATA, settings=self.settings, files=self.files, clock=self.clock, chance=Random(0), background=False
        )

    def partition(self, topic: str = "orders", **settings: Any) -> Partition:
        return self.log.partition(topic, 0, TopicSettings(**settings) if settings else None)

    def stop_and_start(self) -> Log:
        self.log.close()
        self.log = self.open()
        return self.log

    def kill(self) -> Log:
        """The process dies, and another one opens what it left."""
        self.files = self.files.kill()
        self.log = self.open()
        return self.log

    def lose_power(self, seed: int = 0) -> Log:
        self.files = self.files.crash(Random(seed))
        self.log = self.open()
        return self.log

    def count(self, operation: str, path_part: str = "") -> int:
        """How many operations of this kind there were on paths with `path_part`."""
        done = (line.split(" ", 1) for line in self.files.history)
        return sum(name == operation and path_part in rest for name, rest in done)


def open_on_disk(path: Path) -> Log:
    """A log on the real disk that does nothing in the background."""
    return open_log(path, settings=LogSettings(low_disk_bytes=0), background=False)


def left_by_kill(log: Log, target: Path) -> Path:
    """What the directory of an open log would be if its process died now."""
    shutil.copytree(log.path, target)
    log.close()
    return target


def flip(path: Path | str, position: int) -> None:
    """Change one byte of a file."""
    with open(path, "r+b") as file:
        file.seek(position if position >= 0 else os.path.getsize(path) + position)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))


def batch(*values: bytes, timestamp: int = NO_TIMESTAMP, producer: Producer = NO_PRODUCER) -> bytes:
    """A batch of records with these values."""
    return build_batch([Record(value, None, timestamp) for value in values], producer=producer)


def fill(partition: Partition, batches: int, *, records: int = 1, size: int = 100) -> None:
    """Append so many batches. The value of each record is its offset, filled up to `size` bytes."""
    for _ in range(batches):
        offset = partition.end_offset
        partition.append([Record(value_at(offset + number, size)) for number in range(records)])


def value_at(offset: int, size: int = 100) -> bytes:
    return b"%d" % offset + b"." * (size - len(str(offset)))


def offsets(partition: Partition, offset: int | None = None) -> list[int]:
    """The offsets that can be read, each with the value that `fill` gave it."""
    found: list[int] = []
    for record in partition.records(offset):
        assert record.value is not None
        assert record.value.startswith(b"%d." % record.offset)
        found.append(record.offset)
    return found


def segment_path(partition: Partition, base_offset: int, suffix: str = ".log") -> str:
    return f"{partition.id}/{base_offset:020d}{suffix}"
