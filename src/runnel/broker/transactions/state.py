"""What is durable of transactions: where each transactional id stands. Only `replay` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

NOT_THERE = -1  # a producer id or an epoch
LAST_EPOCH = 2**15 - 2  # of a client; the one after it is kept for fencing it


class Status(IntEnum):
    """Numbered as in Kafka's records."""

    EMPTY = 0  # nothing was written since the producer was initialised
    ONGOING = 1
    PREPARE_COMMIT = 2  # it is committed, and the markers are on their way
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # every partition has its marker
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def is_ending(self) -> bool:
        return self in ENDING

    @property
    def kafka_name(self) -> str:
        """As tools show it and ask for it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


ONGOING = Status.ONGOING  # a name of the module is found in a tenth of the time that a member of an enum takes
EMPTY = Status.EMPTY
PREPARE_COMMIT = Status.PREPARE_COMMIT
COMPLETE_COMMIT = Status.COMPLETE_COMMIT
ENDING = (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
COMMITTED = (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class ProducerEpoch(NamedTuple):
    """Who writes: of one producer id only the newest epoch is in force."""

    producer_id: int
    epoch: int


class Transaction(NamedTuple):
    """Where a transactional id stands."""

    producer_id: int
    epoch: int
    timeout: int  # milliseconds
    status: Status
    partitions: frozenset[TopicPartition] = frozenset()  # that have, or will have, records of it
    started: int = -1
    updated: int = -1
    previous_producer_id: int = NOT_THERE
    next_producer_id: int = NOT_THERE  # from when this transaction is complete: the epochs of this one are used up
    last_epoch: int = NOT_THERE  # the one before, if the same producer has it from us and may ask again
    version: int = 0  # 2: each end gives a new epoch

    @property
    def is_exhausted(self) -> bool:
        return self.epoch >= LAST_EPOCH

    @property
    def committed(self) -> bool:
        return self.status in COMMITTED

    @property
    def producer(self) -> ProducerEpoch:
        return ProducerEpoch(self.producer_id, self.epoch)


@dataclass(slots=True)
class TransactionsState:
    by_id: dict[str, Transaction] = field(default_factory=dict)
