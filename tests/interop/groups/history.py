"""What the members of a group and its broker said to each other, and what the members did: the checker's only input.

Everything is of one group and one topic. Times are the machine's monotonic clock, in nanoseconds.

`asked` is when a request was on its way and the broker did not have it yet, `answered` when its answer had left the
broker and the client did not have it yet; None if it never had one. So what was decided for a request was decided
between the two, and if A was answered before B was asked, A was decided before B.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

Partitions = frozenset[int]
NO_ERROR = 0


class Processed(NamedTuple):
    """A member has done its work on a record. What it commits afterwards may cover it."""

    at: int
    client: str
    partition: int
    offset: int


class Produced(NamedTuple):
    """A record is in the topic."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Exchange:
    asked: int
    answered: int | None
    member: str
    error: int | None  # None: there was no answer

    @property
    def ended(self) -> int | None:
        """When it was answered without an error."""
        return self.answered if self.error == NO_ERROR else None


@dataclass(frozen=True)
class Beat(Exchange):
    """ConsumerGroupHeartbeat; None where nothing is said of partitions. With epoch 0 it joins, below it leaves."""

    epoch: int
    owned: Partitions | None
    new_epoch: int
    given: Partitions | None


@dataclass(frozen=True)
class Join(Exchange):
    """JoinGroup of a member that has its id; `owned` is what it has not let go."""

    owned: Partitions
    generation: int


@dataclass(frozen=True)
class Sync(Exchange):
    generation: int
    given: Partitions


@dataclass(frozen=True)
class ClassicBeat(Exchange):
    generation: int


@dataclass(frozen=True)
class Leave(Exchange):
    pass


@dataclass(frozen=True)
class Commit(Exchange):
    """Of one partition; `epoch` is a generation where the member is a classic one."""

    epoch: int
    partition: int
    offset: int


class Assigned(NamedTuple):
    client: str
    partitions: Partitions


@dataclass(frozen=True)
class Described:
    """The group as its broker describes it, by the ids of its members."""

    asked: int
    answered: int
    kind: str  # consumer or classic
    state: str
    members: dict[str, Assigned]


class Restarted(NamedTuple):
    """The broker was killed and started again, between the two."""

    begun: int
    ended: int


@dataclass(frozen=True)
class End:
    """After the storm, when all was quiet or nobody waited any longer: who lives, and what is committed."""

    alive: frozenset[str]  # clients
    described: Described
    committed: dict[int, int]
    ends: dict[int, int]


Event = Processed | Produced | Exchange | Described | Restarted | End
Kind = TypeVar("Kind", Processed, Produced, Beat, Join, Sync, ClassicBeat, Leave, Commit, Described, Restarted, End)


class History:
    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def accepted(self) -> list[Commit]:
        """In the order in which they were asked for."""
        return sorted((commit for commit in self.of(Commit) if commit.ended is not None), key=lambda each: each.asked)


# --- what follows from the requests and answers


class Grant(NamedTuple):
    """The broker gave a partition to a member, at some time between the two."""

    begun: int
    ended: int
    member: str
    epoch: int
    partition: int


class Statement(NamedTuple):
    """A member said what it has: the rest is let go."""

    asked: int
    member: str
    owned: Partitions


def grants(history: History) -> Iterator[Grant]:
    for beat in history.of(Beat):
        if beat.ended is not None and beat.given is not None:
            yield from (Grant(beat.asked, beat.ended, beat.member, beat.new_epoch, each) for each in beat.given)
    for sync in history.of(Sync):
        if sync.ended is not None:
            yield from (Grant(sync.asked, sync.ended, sync.member, sync.generation, each) for each in sync.given)


def statements(history: History) -> Iterator[Statement]:
    for beat in history.of(Beat):
        if beat.epoch <= 0:
            yield Statement(beat.asked, beat.member, frozenset())
        elif beat.owned is not None:
            yield Statement(beat.asked, beat.member, beat.owned)
    for join in history.of(Join):
        yield Statement(join.asked, join.member, join.owned)
    for leave in history.of(Leave):
        yield Statement(leave.asked, leave.member, frozenset())
