"""The rows of the small files: snapshots of producers, checkpoints, leader epochs and synced offsets.

They are read more strictly than the log reads them: what the log would not write is `Malformed`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import CorruptBatch
from runnel.log.dump.rows import CheckpointRow, EpochRow, Malformed, ProducerRow, SyncedRow
from runnel.log.producers import COUNT, ENTRY, SNAPSHOT_START, Producers
from runnel.log.synced import NAME_LENGTH, VALUE

NUMBER = re.compile(rb"-?[0-9]{1,19}")


def snapshot_rows(content: bytes) -> Iterator[ProducerRow]:
    """What a snapshot remembers of each producer. One checksum covers all, so a broken one has no rows."""
    try:
        producers = Producers.decode(content)
    except CorruptBatch as error:
        raise Malformed(0, error.what) from error
    start = SNAPSHOT_START.size + COUNT.size
    for position in range(start, start + len(producers) * ENTRY.size, ENTRY.size):
        producer_id = ENTRY.unpack_from(content, position)[0]
        state = producers.get(producer_id)
        if state is None:
            raise Malformed(position, f"no state of producer {producer_id}")
        yield ProducerRow(
            position,
            producer_id,
            state.epoch,
            state.last_timestamp,
            state.coordinator_epoch,
            state.transaction_start,
            tuple(state.batches),
        )


def checkpoint_rows(content: bytes) -> Iterator[CheckpointRow]:
    for position, (topic, partition, offset) in _lines(content, 3):
        try:
            name = topic.decode("ascii")
        except UnicodeDecodeError as error:
            raise Malformed(position, f"a topic with the name {topic!r}") from error
        yield CheckpointRow(position, name, _number(partition, position), _number(offset, position))


def epoch_rows(content: bytes) -> Iterator[EpochRow]:
    last = EpochRow(-1, -1, -1)
    for position, (epoch, offset) in _lines(content, 2):
        row = EpochRow(position, _number(epoch, position), _number(offset, position))
        if row.epoch <= last.epoch or row.offset <= last.offset:
            before = f" after epoch {last.epoch} from offset {last.offset}" if last.position >= 0 else ""
            raise Malformed(position, f"epoch {row.epoch} from offset {row.offset}{before}")
        yield row
        last = row


def synced_rows(content: bytes) -> Iterator[SyncedRow]:
    position = 0
    while position < len(content):
        start = position + VALUE.size + NAME_LENGTH.size
        if start > len(content):
            raise Malformed(
                position,
                f"{counted(len(content) - position, 'byte is', 'bytes are')} left, an entry has at least {start}",
            )
        offset, checksum = VALUE.unpack_from(content, position)
        (length,) = NAME_LENGTH.unpack_from(content, position + VALUE.size)
        name = content[start : start + length]
        whole = len(name) == length and checksum == crc32c(struct.pack(">q", offset) + name)
        yield SyncedRow(position, name.decode(errors="replace"), offset if whole else None)
        position = start + length


def _lines(content: bytes, columns: int) -> Iterator[tuple[int, list[bytes]]]:
    """The fields of each line after the version and the count, and the line's position."""
    version, _, rest = content.partition(b"\n")
    if version != b"0":
        raise Malformed(0, f"version {version[:20]!r}, only version 0 is known")
    first, _, rest = rest.partition(b"\n")
    count = _number(first, len(version) + 1)
    position = len(version) + len(first) + 2
    for _ in range(count):
        line, newline, rest = rest.partition(b"\n")
        fields = line.split(b" ")
        if not newline or len(fields) != columns:
            raise Malformed(position, f"{line[:40]!r} is no line of {columns} fields")
        yield position, fields
        position += len(line) + 1
    if rest:
        raise Malformed(position, f"{counted(len(rest), 'byte is', 'bytes are')} left after {counted(count, 'line')}")


def _number(text: bytes, position: int) -> int:
    if not NUMBER.fullmatch(text):
        raise Malformed(position, f"{text[:40]!r} is no number")
    return int(text)
