"""One classic group while it runs: its state, its generation, and its way from one generation to the next.

    Empty ── a member joins ──> PreparingRebalance ── all have joined, or time is up ──> CompletingRebalance
      ^                            ^          │                                             │
      └──── all have left ─────────┼──────────┘                              the leader's assignment is durable
                                   └──── somebody comes, leaves, fails or changes ──── Stable <┘

It is volatile. What must survive a restart is handed to `home.store`, and what a member is told of it waits until it is
durable. `joining.py`, `syncing.py` and `leaving.py` hold what a request does; here is what they have in common.

Two names for the members' time-outs: a *session* ends when nothing was heard of a member for its session time-out; a
*rebalance* waits for the slowest member's rebalance time-out.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Protocol
from uuid import UUID

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.groups.alarm import Alarm, Timers
from runnel.broker.groups.answers import JoinAnswer, JoinedMember, SyncAnswer
from runnel.broker.groups.members import GroupProtocol, Member, Members
from runnel.broker.groups.records import StoredGroup
from runnel.broker.groups.subscription import CONSUMER, subscribed_topics
from runnel.clock import Clock
from runnel.protocol.error_codes import ErrorCode

# A new member cannot send heartbeats, and its connection may be gone: after so long it is expected to ask again.
NEW_MEMBER_TIMEOUT = 300_000
MOST_OF_A_CLIENT_ID = 255  # in a member id, which must fit into a record

logger = logging.getLogger(__name__)


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Home(Protocol):
    """What a group needs around it."""

    clock: Clock
    timers: Timers
    chance: random.Random
    rebalances: int  # completed ones

    def settings(self) -> BrokerSettings: ...

    def store(self, group: str, stored: StoredGroup, then: Callable[[BaseException | None], object]) -> None:
        """Make it durable; `then` is called on the event loop, with the error if it was lost."""
        ...


class Group:
    def __init__(self, name: str, home: Home) -> None:
        self.name = name
        self.home = home
        self.state = GroupState.EMPTY
        self.state_since: int | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed: frozenset[str] | None = None  # what its members are subscribed to; None: not known
        self.members = Members()
        self.invited: dict[str, Alarm] = {}  # got an id with MEMBER_ID_REQUIRED and have not come with it yet
        self._unsynced: set[str] = set()  # have not sent SyncGroup in this generation
        self._is_first = False  # the rebalance under way is that of a group that was empty
        self._somebody_came = False  # while that one was being delayed
        self._delay_left = 0
        self._join_alarm = Alarm(home.timers, home.clock, self._join_time_is_up)
        self._sync_alarm = Alarm(home.timers, home.clock, self._sync_time_is_up)

    # --- as it is stored

    def restore(self, stored: StoredGroup) -> None:
        """Be what was stored. The members' sessions begin anew."""
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        self.state_since = None if stored.state_since < 0 else stored.state_since
        self.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        for each in stored.members:
            self.admit(
                Member(
                    each.member_id,
                    each.instance_id,
                    each.client_id,
                    each.client_host,
                    each.rebalance_timeout,
                    each.session_timeout,
                    (GroupProtocol(stored.protocol_name or "", each.subscription),),
                    each.assignment,
                )
            )
        if stored.leader is not None and stored.leader in self.members:
            self.members.leader = stored.leader
        self._learn_subscription()
        if len(self.members) > self.home.settings().group_max_size:
            self.rebalance("it has more members than group.max.size allows")

    def continue_as(self, generation: int, protocol_name: str, members: Iterable[Member]) -> None:
        """Be the stable group of consumers that was another kind of group so far."""
        self.generation = generation
        self.protocol_type, self.protocol_name = CONSUMER, protocol_name
        for member in members:
            self.admit(member)
        self._enter(GroupState.STABLE)
        self._learn_subscription()

    def stored(self, assignments: dict[str, bytes]) -> StoredGroup:
        return StoredGroup(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.members.leader,
            -1 if self.state_since is None else self.state_since,
            tuple(member.stored(self.protocol_name, assignments.get(member.id, b"")) for member in self.members),
        )

    def stop(self, error: ErrorCode) -> None:
        """Everybody who waits is told the error, and nothing happens any more."""
        self.state = GroupState.DEAD
        self._join_alarm.stop()
        self._sync_alarm.stop()
        for member_id in tuple(self.invited):
            self.uninvite(member_id)
        for member in self.members:
            member.dismiss(error, member.id)

    # --- what it tells

    def is_subscribed_to(self, topic: str) -> bool:
        return self.protocol_type == CONSUMER if self.subscribed is None else topic in self.subscribed

    def is_leader(self, member: Member) -> bool:
        return self.members.leader == member.id

    def join_answer(self, member: Member) -> JoinAnswer:
        members: tuple[JoinedMember, ...] = ()
        if self.is_leader(member):
            members = tuple(
                JoinedMember(each.id, each.instance_id, each.metadata(self.protocol_name)) for each in self.members
            )
        return JoinAnswer(
            member.id,
            ErrorCode.NONE,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.members.leader or "",
            members=members,
        )

    def sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    # --- members

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        unique = UUID(int=self.home.chance.getrandbits(128), version=4)
        return f"{(instance_id or client_id)[:MOST_OF_A_CLIENT_ID]}-{unique}"

    def invite(self, member_id: str, session_timeout: int) -> None:
        """It has an id now; it is waited for until its session ends."""
        alarm = Alarm(self.home.timers, self.home.clock, partial(self._invitation_expired, member_id))
        self.invited[member_id] = alarm
        alarm.set(session_timeout)

    def uninvite(self, member_id: str) -> None:
        self.invited.pop(member_id).stop()

    def admit(self, member: Member) -> None:
        member.session = Alarm(self.home.timers, self.home.clock, partial(self._session_ended, member))
        self.members.add(member)
        self.heard_from(member)

    def admit_new(self, member: Member, protocol_type: str) -> None:
        """Somebody who was not there before joins."""
        if member.id in self.invited:
            self.uninvite(member.id)
        if not self.members:
            self.protocol_type = protocol_type
        self._somebody_came = True
        member.is_new = True
        self.admit(member)
        member.session.set(NEW_MEMBER_TIMEOUT)

    def remove(self, member: Member) -> None:
        member.dismiss(ErrorCode.UNKNOWN_MEMBER_ID)
        self.members.remove(member.id)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member goes on under another id."""
        if member.id in self._unsynced:
            self._unsynced.remove(member.id)
            self._unsynced.add(member_id)
        self.members.rename(member, member_id)

    def heard_from(self, member: Member) -> None:
        member.session.set(member.session_timeout)

    def has_synced(self, member: Member) -> None:
        self._unsynced.discard(member.id)
        if not self._unsynced:
            self._sync_alarm.stop()

    def _session_ended(self, member: Member) -> None:
        if member.may_be_silent:
            return  # a new session begins when it is answered
        logger.info("group %s: nothing was heard of member %s, it is removed", self.name, member.id)
        self.remove(member)
        self.after_removal(f"the session of {member.id} ended")

    def _invitation_expired(self, member_id: str) -> None:
        self.invited.pop(member_id, None)
        self.complete_join_if_all_have_joined()

    # --- towards the next generation

    def after_removal(self, reason: str) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            self.complete_join_if_all_have_joined()
        else:
            self.rebalance(reason)

    def rebalance(self, reason: str) -> None:
        """Begin a rebalance, or, if one is under way, look whether it can be completed."""
        if self.state is GroupState.PREPARING_REBALANCE:
            if not self._is_first:
                self.complete_join_if_all_have_joined()
            return
        logger.info("group %s: rebalance after generation %d: %s", self.name, self.generation, reason)
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.reject_assignments(ErrorCode.REBALANCE_IN_PROGRESS)
        self._unsynced.clear()
        self._sync_alarm.stop()
        self._is_first = self.state is GroupState.EMPTY
        self._enter(GroupState.PREPARING_REBALANCE)
        if self._is_first:
            self._delay_first()
        elif not self.complete_join_if_all_have_joined():
            self._join_alarm.set(self.members.rebalance_timeout)

    def _delay_first(self) -> None:
        """A group that just came into being gives its other members time to come."""
        delay = self.home.settings().group_initial_rebalance_delay_ms
        self._delay_left = max(self.members.rebalance_timeout - delay, 0)
        self._somebody_came = False
        self._join_alarm.set(delay)

    def _join_time_is_up(self) -> None:
        if self._is_first and self._somebody_came and self._delay_left:
            delay = min(self.home.settings().group_initial_rebalance_delay_ms, self._delay_left)
            self._delay_left -= delay
            self._somebody_came = False
            self._join_alarm.set(delay)
        else:
            self._complete_join()

    def complete_join_if_all_have_joined(self) -> bool:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return False
        if self.invited or self.members.joined < len(self.members):
            return False
        self._complete_join()
        return True

    def _complete_join(self) -> None:
        """Go on with those who have joined. Static members stay though they have not: they may be restarting."""
        self._join_alarm.stop()
        for member in self.members:
            if member.join is None and member.instance_id is None:
                logger.info("group %s: member %s did not join in time, it is removed", self.name, member.id)
                self.remove(member)
        if self.members and not self.members.elect_joined_leader():
            self._join_alarm.set(self.members.rebalance_timeout)
            return
        self.generation += 1
        if self.members:
            self._await_assignments()
        else:
            self._become_empty()

    def _await_assignments(self) -> None:
        self.protocol_name = self.members.elect_protocol()
        self._learn_subscription()
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._unsynced = {member.id for member in self.members}
        for member in self.members:
            member.answer_join(self.join_answer(member))
            member.is_new = False
            self.heard_from(member)
        self._sync_alarm.set(self.members.rebalance_timeout)

    def _become_empty(self) -> None:
        self.protocol_name = None
        self._learn_subscription()
        self._enter(GroupState.EMPTY)
        logger.info("group %s: empty after generation %d", self.name, self.generation)
        self.home.store(self.name, self.stored({}), self._note_lost_emptiness)

    def _note_lost_emptiness(self, error: BaseException | None) -> None:
        if error is not None:  # after a restart its members are back, and are missed soon
            logger.warning("group %s: that it is empty could not be stored: %s", self.name, error)

    def _sync_time_is_up(self) -> None:
        """Those who got the new generation and did not ask for their assignment are gone."""
        for member_id in tuple(self._unsynced):
            logger.info("group %s: member %s did not sync in time, it is removed", self.name, member_id)
            self.remove(self.members[member_id])
        self.rebalance("some members did not sync in time")

    # --- assignments

    def assign(self, assignments: dict[str, bytes]) -> None:
        """The leader's assignments are durable: the group is stable."""
        for member in self.members:
            member.assignment = assignments.get(member.id, b"")
        self._enter(GroupState.STABLE)
        self.home.rebalances += 1
        for member in self.members:
            if member.answer_sync(self.sync_answer(member)):
                self.heard_from(member)

    def reject_assignments(self, error: ErrorCode) -> None:
        for member in self.members:
            member.assignment = b""
            if member.answer_sync(SyncAnswer(error)):
                self.heard_from(member)

    def _enter(self, state: GroupState) -> None:
        self.state = state
        self.state_since = self.home.clock.now()

    def _learn_subscription(self) -> None:
        metadata = (member.metadata(self.protocol_name) for member in self.members)
        self.subscribed = subscribed_topics(self.protocol_type, metadata)
