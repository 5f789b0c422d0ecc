"""One member of a consumer group, as it is durable: what it asked for, what it has, and how far it has come.

    Stable ── the target has changed, and it has partitions to let go ──> UnrevokedPartitions
      ^                                                                          │ it lists them no more
      ├── all of its target is its own <── UnreleasedPartitions <── others still have some of it

A member's epoch says up to which target it has come. 0: it is joining; -1: it is leaving for good; -2: a static member
is away and will be back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from runnel.broker.groups.consumer.partitions import Partitions
from runnel.broker.groups.members import GroupProtocol

JOINING = 0
LEAVING = -1
AWAY = -2

Given = Mapping[UUID, Mapping[int, int]]  # partitions by topic id, each with the epoch at which it was given


class Progress(IntEnum):
    """Where a member is on its way to its target, as Kafka numbers it."""

    STABLE = 1
    UNREVOKED = 2  # it has yet to let partitions go
    UNRELEASED = 3  # others have yet to
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicPart:
    """What a member has that speaks the classic protocol in a consumer group."""

    session_timeout: int
    protocols: tuple[GroupProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    id: str
    instance_id: str | None = None  # set: a static member
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()  # the names it is subscribed to
    expression: str | None = None  # and all topics that this describes
    rebalance_timeout: int = -1
    assignor: str | None = None
    classic: ClassicPart | None = None

    epoch: int = 0
    previous_epoch: int = 0
    progress: Progress = Progress.STABLE
    assigned: Given = field(default_factory=dict)
    revoking: Given = field(default_factory=dict)

    def has_reached(self, target_epoch: int) -> bool:
        return self.progress is Progress.STABLE and self.epoch == target_epoch

    @property
    def assigned_partitions(self) -> Partitions:
        return {topic: frozenset(numbers) for topic, numbers in self.assigned.items()}

    @property
    def revoking_partitions(self) -> Partitions:
        return {topic: frozenset(numbers) for topic, numbers in self.revoking.items()}

    @property
    def held_partitions(self) -> Partitions:
        """What it has, and what it has yet to let go."""
        return {
            topic: frozenset(self.assigned.get(topic, {})) | frozenset(self.revoking.get(topic, {}))
            for topic in {**self.assigned, **self.revoking}
        }

    def given_at(self, topic: UUID, partition: int) -> int | None:
        """The epoch at which it got the partition; None if it has it not."""
        given = self.assigned.get(topic, {}).get(partition)
        return self.revoking.get(topic, {}).get(partition) if given is None else given
