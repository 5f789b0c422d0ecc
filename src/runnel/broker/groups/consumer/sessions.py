"""The time-outs of one consumer group's members. They are volatile: after a restart they begin anew.

- `session`: nothing was heard of a member;
- `revocation`: it does not let go what it should;
- `joining`, `syncing`: a classic member does not come, after it was told to join, or has joined.

Whoever is late is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from functools import partial

from runnel.broker.groups.alarm import Alarm, Timers
from runnel.broker.groups.consumer.member import ConsumerMember, Given, Progress
from runnel.clock import Clock


class Limit(StrEnum):
    SESSION = "nothing was heard of it within its session time-out"
    REVOCATION = "it did not let go of its partitions within its rebalance time-out"
    JOINING = "it did not join again within its rebalance time-out"
    SYNCING = "it did not ask for its assignment within its rebalance time-out"


class Sessions:
    def __init__(self, timers: Timers, clock: Clock, late: Callable[[str, Limit], object]) -> None:
        self._timers = timers
        self._clock = clock
        self._late = late
        self._alarms: dict[str, dict[Limit, Alarm]] = {}
        self._revoking: dict[str, tuple[int, Given]] = {}  # what the revocation's time-out is about

    def begin(self, member: ConsumerMember, timeout: int) -> None:
        """The member was heard of."""
        self.set(member.id, Limit.SESSION, timeout)

    def follow(self, member: ConsumerMember) -> None:
        """The member may have begun or ended to let partitions go."""
        if member.classic is None and member.progress is Progress.UNREVOKED and member.revoking:
            about = (member.epoch, member.revoking)
            if self._revoking.get(member.id) != about:
                self._revoking[member.id] = about
                self.set(member.id, Limit.REVOCATION, member.rebalance_timeout)
        elif self._revoking.pop(member.id, None) is not None:
            self.clear(member.id, Limit.REVOCATION)

    def set(self, member_id: str, limit: Limit, milliseconds: int) -> None:
        alarms = self._alarms.setdefault(member_id, {})
        if limit not in alarms:
            alarms[limit] = Alarm(self._timers, self._clock, partial(self._late, member_id, limit))
        alarms[limit].set(max(0, milliseconds))

    def set_if_unset(self, member_id: str, limit: Limit, milliseconds: int) -> None:
        alarm = self._alarms.get(member_id, {}).get(limit)
        if alarm is None or not alarm.is_set:
            self.set(member_id, limit, milliseconds)

    def clear(self, member_id: str, limit: Limit) -> None:
        alarm = self._alarms.get(member_id, {}).get(limit)
        if alarm is not None:
            alarm.stop()

    def keep_only(self, member_ids: Collection[str]) -> None:
        """All others are no members any more."""
        for member_id in [known for known in self._alarms if known not in member_ids]:
            for alarm in self._alarms.pop(member_id).values():
                alarm.stop()
            self._revoking.pop(member_id, None)

    def has_begun(self, member_id: str) -> bool:
        alarm = self._alarms.get(member_id, {}).get(Limit.SESSION)
        return alarm is not None and alarm.is_set
