"""What the benchmarks of the log share: batches to append, and folders that do not outlive a measurement."""

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runnel.records import Record, build_batch

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
BATCH = 16 * KIB
RECORDS_PER_BATCH = 16
SMALL_BATCH = 200
TOPIC = "bench"


def batch_of(size: int, records: int) -> bytes:
    """A batch of exactly `size` bytes: records of about one size, with the present time and random values."""
    now, chance = time.time_ns() // 1_000_000, random.Random(size)
    values = [chance.randbytes((size - 61) // records - 12) for _ in range(records)]
    missing = size - len(_built(values, now))
    values[-1] += chance.randbytes(missing)
    batch = _built(values, now)
    assert len(batch) == size
    return batch


def _built(values: list[bytes], now: int) -> bytes:
    return build_batch([Record(value, timestamp=now) for value in values])


def first_segment(log: Path, partition: int = 0) -> Path:
    return log / f"{TOPIC}-{partition}" / f"{0:020d}.log"


@contextmanager
def folder(place: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=place))
    try:
        yield path
    finally:
        shutil.rmtree(path)
