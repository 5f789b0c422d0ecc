"""A compacted topic on the stage of the log's tests, and ways to look at what is in it."""

from __future__ import annotations

from typing import Any

from runnel.files import Files, read_file
from runnel.log import Partition, Record
from runnel.records import BatchHeader, Producer, batches_of, build_batch
from runnel.records.batch import TRANSACTIONAL
from tests.unit.log.stage import DATA, Stage

FOLDER = f"{DATA}/table-0"


def table(stage: Stage, **settings: Any) -> Partition:
    return stage.partition("table", **{"cleanup_policy": "compact", **settings})


def put(partition: Partition, **values: str | None) -> None:
    """One batch with these keys and values; None deletes."""
    partition.append(records(**values))


def records(**values: str | None) -> list[Record]:
    return [
        Record(value.encode() if value is not None else None, key.encode(), 1_000 + number)
        for number, (key, value) in enumerate(values.items())
    ]


def produce(partition: Partition, producer: Producer, *, transaction: bool = False, **values: str | None) -> None:
    attributes = TRANSACTIONAL if transaction else 0
    partition.append_batch(build_batch(records(**values), producer=producer, attributes=attributes))


def end(stage: Stage, partition: Partition, producer_id: int, *, committed: bool, epoch: int = 0) -> None:
    append = partition.submit_marker(producer_id, epoch, committed=committed, coordinator_epoch=0)
    stage.log.commit()
    append.result(timeout=0)


def shown(partition: Partition) -> dict[int, tuple[str | None, str | None]]:
    """Key and value of each record, by offset."""
    return {
        record.offset: (
            record.key.decode() if record.key is not None else None,
            record.value.decode() if record.value is not None else None,
        )
        for record in partition.records()
    }


def headers(files: Files, base_offset: int = 0) -> list[BatchHeader]:
    """The batches of a segment file, all checked."""
    return [header for _, header in batches_of(read_file(files, f"{FOLDER}/{base_offset:020d}.log"))]


def ranges(files: Files, base_offset: int = 0) -> list[tuple[int, int, int]]:
    """First offset, last offset and count of each batch of a segment file."""
    return [(header.base_offset, header.last_offset, header.count) for header in headers(files, base_offset)]
