"""Tells the time in which a group is at work from the time in which it waits for somebody's next heartbeat.

Each member is in one of three states:
- resting: it waits for the time of its next heartbeat and has nothing to say before;
- asking: it waits for an answer, or prepares its next request;
- joining: it waits for the answer to a JoinGroup, which the broker gives when all members have sent theirs.

A group waits for heartbeats while nobody asks and at least one member rests: all that could happen next is that this
member's heartbeat is due. All other time is beyond the heartbeats. It is the broker's, and the little that the members
need to read an answer and to divide the partitions.
"""

import time
from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import NamedTuple


class State(Enum):
    RESTING = auto()
    ASKING = auto()
    JOINING = auto()


class Rebalance(NamedTuple):
    """In seconds."""

    total: float
    beyond: float  # the heartbeats


class GroupClock:
    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._states: dict[Hashable, State] = {}
        self._began = self._counted = now()
        self._beyond = 0.0

    def set(self, member: Hashable, state: State) -> None:
        self._count()
        self._states[member] = state

    def remove(self, member: Hashable) -> None:
        self._count()
        self._states.pop(member, None)

    def start(self) -> None:
        self._began = self._counted = self._now()
        self._beyond = 0.0

    def stop(self) -> Rebalance:
        self._count()
        return Rebalance(self._counted - self._began, self._beyond)

    def _count(self) -> None:
        now = self._now()
        if not self._waits_for_heartbeats():
            self._beyond += now - self._counted
        self._counted = now

    def _waits_for_heartbeats(self) -> bool:
        states = self._states.values()
        return State.ASKING not in states and State.RESTING in states
