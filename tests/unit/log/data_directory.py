"""A small data directory on the real disk for those who look into files, and ways to harm it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from crc32c import crc32c

from runnel.log import Codec, Log, LogSettings, Record, TopicSettings, open_log
from runnel.log.verify import Report, Severity
from runnel.records import Producer, build_batch, parse_header
from runnel.records.batch import CHECKED_FROM
from runnel.testing import StoppedClock


class Found(NamedTuple):
    path: str
    position: int | None
    offset: int | None
    what: str


SETTINGS = TopicSettings(segment_bytes=1_024, index_interval_bytes=200, retention_ms=-1)
NOW = 1_700_000_000_000
ORDERS_END = 60
ORDERS = "orders-0"
AUDIT = "audit-0"


def opened(path: Path) -> Log:
    settings = LogSettings(low_disk_bytes=0)
    return open_log(path, settings=settings, clock=StoppedClock(NOW), background=False)


def filled(path: Path) -> Log:
    """Two partitions: `orders` in several segments with every codec, `audit` of an idempotent producer."""
    log = opened(path)
    orders = log.partition("orders", 0, SETTINGS)
    for number in range(ORDERS_END // 2):
        records = [
            Record(b"value %d" % number, b"key", NOW + number * 10, (("trace", b"\x01"),)),
            Record(None, None, NOW + number * 10 - 25),
        ]
        orders.submit(build_batch(records, codec=list(Codec)[number % len(Codec)]))
    audit = log.partition("audit", 0, SETTINGS)
    for number in range(6):
        audit.submit(build_batch([Record(b"entry %d" % number, None, NOW)], producer=Producer(7, 1, number)))
    log.commit()
    return log


def clean_directory(path: Path) -> Path:
    return _written(path, _contents(clean=True))


def killed_directory(path: Path) -> Path:
    """What stands on the disk when the process dies: nothing was checkpointed since the start."""
    return _written(path, _contents(clean=False))


@cache
def _contents(*, clean: bool) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        log = filled(Path(folder))
        if clean:
            log.close()
        contents = files_of(Path(folder))
        log.close()
        return contents


def _written(path: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def files_of(path: Path) -> dict[str, bytes]:
    """The content of each file, by its path in the directory."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def last_batch_position(segment: Path) -> int:
    content, position = segment.read_bytes(), 0
    while position + parse_header(content, position).size < len(content):
        position += parse_header(content, position).size
    return position


def rechecked(batch: bytes) -> bytes:
    """The batch with the checksum that its bytes should have."""
    checksum = crc32c(batch[CHECKED_FROM:]).to_bytes(4, "big")
    return batch[: CHECKED_FROM - 4] + checksum + batch[CHECKED_FROM:]


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def cut(path: Path, size: int) -> None:
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)


def add(path: Path, content: bytes) -> None:
    path.write_bytes(path.read_bytes() + content)


def problems_in(report: Report, directory: Path, severity: Severity = Severity.PROBLEM) -> list[Found]:
    """What the report says, with paths inside of the directory."""
    return [
        Found(os.path.relpath(problem.path, directory), problem.position, problem.offset, problem.what)
        for problem in report.problems
        if problem.severity is severity
    ]
