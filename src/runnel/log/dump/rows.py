"""What the files of a log are shown as. Each row says at which position of its file it stands."""

from __future__ import annotations

from typing import NamedTuple

from runnel.log.producers import Remembered
from runnel.records import BatchHeader, Marker, Record


class Malformed(Exception):
    """The bytes at `position` are not what the file's format asks for."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"position {position}: {reason}")
        self.position = position
        self.reason = reason


class BatchRow(NamedTuple):
    position: int
    header: BatchHeader
    records: tuple[Record, ...]  # empty unless they were asked for
    marker: Marker | None = None  # how it ends a transaction, if it does


class IndexRow(NamedTuple):
    """The batch at `batch_position` ends with `offset`."""

    position: int
    offset: int
    batch_position: int


class TimeIndexRow(NamedTuple):
    """No batch up to the one that ends with `offset` has a larger timestamp."""

    position: int
    timestamp: int
    offset: int


class TxnIndexRow(NamedTuple):
    """An aborted transaction; from its marker on the last stable offset was `stable_offset`."""

    position: int
    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class ProducerRow(NamedTuple):
    position: int
    producer_id: int
    epoch: int
    timestamp: int
    coordinator_epoch: int
    transaction_start: int  # -1 if no transaction is open
    batches: tuple[Remembered, ...]  # the last five at most, oldest first


class CheckpointRow(NamedTuple):
    position: int
    topic: str
    partition: int
    offset: int


class EpochRow(NamedTuple):
    """From `offset` on the records carry `epoch`, until the next row's."""

    position: int
    epoch: int
    offset: int


class SyncedRow(NamedTuple):
    position: int
    partition: str
    offset: int | None  # None if the entry was torn


Row = BatchRow | IndexRow | TimeIndexRow | TxnIndexRow | ProducerRow | CheckpointRow | EpochRow | SyncedRow
