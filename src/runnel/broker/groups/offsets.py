"""Committed offsets: decisions over what is durable, and who may commit.

A decision is made by a function of the state alone; see `runnel.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from runnel.broker.groups.group import Group, GroupState
from runnel.broker.groups.records import CommittedOffset, OffsetKey
from runnel.broker.groups.state import (
    GroupsState,
    group_gone,
    offset_entry,
    offsets_gone,
    offsets_of,
)
from runnel.broker.groups.subscription import CONSUMER
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision, Entry, Transacted


class Committer(NamedTuple):
    """Who commits."""

    member_id: str
    instance_id: str | None
    generation: int  # negative: not as a member


class TopicPartition(NamedTuple):
    topic: str
    partition: int


Committed = dict[TopicPartition, CommittedOffset]


def check_commit(group: Group, committer: Committer) -> ErrorCode:
    """Whether it may commit now. A group without members takes the offsets of anybody who does not claim to be one."""
    if committer.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if committer.generation < 0 and not committer.member_id and committer.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.members.check(committer.member_id, committer.instance_id)
    if error:
        return error
    if committer.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def why_refused(error: ErrorCode, group: str | None, committer: Committer) -> str:
    """For people, of a commit that is refused as a whole."""
    member, number = committer.member_id, committer.generation
    match error:
        case ErrorCode.UNKNOWN_MEMBER_ID if member:
            return f"{member!r} is no member of group {group!r}"
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return f"group {group!r} has members, and whoever commits does not say that it is one"
        case ErrorCode.ILLEGAL_GENERATION | ErrorCode.STALE_MEMBER_EPOCH:
            return f"{member!r} commits in generation or epoch {number} of group {group!r}, which is over"
        case ErrorCode.FENCED_INSTANCE_ID:
            return f"the instance id {committer.instance_id!r} of group {group!r} is another member's than {member!r}"
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return f"there is no group {group!r} of which {member!r} could be a member"
        case ErrorCode.UNSUPPORTED_VERSION:
            return f"group {group!r} is a consumer group, whose members commit from version 9 on"
    return f"a commit for group {group!r}"


def commit(now: int, group: str, offsets: Committed) -> Callable[[GroupsState], Decision[None]]:
    entries = [offset_entry(now, OffsetKey(group, *place), committed) for place, committed in offsets.items()]
    return lambda _: Decision(None, entries)


def commit_in_transaction(
    now: int, group: str, offsets: Committed, transaction: Transacted
) -> Callable[[GroupsState], Decision[None]]:
    """They count when the transaction is committed."""
    plain = [offset_entry(now, OffsetKey(group, *place), committed) for place, committed in offsets.items()]
    entries = [entry._replace(transaction=transaction) for entry in plain]
    return lambda _: Decision(None, entries)


def end_transaction(now: int, transaction: Transacted) -> Callable[[GroupsState], Decision[None]]:
    return lambda _: Decision(None, [Entry(None, None, now, transaction)])


def unstable(group: str) -> Callable[[GroupsState], Decision[set[TopicPartition]]]:
    """The places whose next offset an open transaction holds."""
    return lambda state: Decision({TopicPartition(key.topic, key.partition) for key in state.pending.of_group(group)})


def has_pending(group: str, producer_ids: Set[int]) -> Callable[[GroupsState], Decision[bool]]:
    return lambda state: Decision(state.pending.has(group, producer_ids))


def fetch(group: str, places: Sequence[TopicPartition] | None) -> Callable[[GroupsState], Decision[Committed]]:
    """What is committed at those places; None: everywhere."""

    def decide(state: GroupsState) -> Decision[Committed]:
        if places is None:
            return Decision(
                {TopicPartition(key.topic, key.partition): value for key, value in offsets_of(state, group)}
            )
        topics = state.offsets.get(group, {})
        found = ((place, topics.get(place.topic, {}).get(place.partition)) for place in places)
        return Decision({place: committed for place, committed in found if committed is not None})

    return decide


def delete(now: int, group: str, places: Sequence[TopicPartition]) -> Callable[[GroupsState], Decision[None]]:
    def decide(state: GroupsState) -> Decision[None]:
        topics, pending = state.offsets.get(group, {}), state.pending.of_group(group)
        keys = [OffsetKey(group, *place) for place in places]
        known = [key for key in keys if key in pending or key.partition in topics.get(key.topic, {})]
        return Decision(None, offsets_gone(now, known))

    return decide


def delete_group(now: int, group: str) -> Callable[[GroupsState], Decision[ErrorCode]]:
    return lambda state: Decision(ErrorCode.NONE, group_gone(now, state, group))


def forget_topic(now: int, group: str, topic: str) -> Callable[[GroupsState], Decision[None]]:
    def decide(state: GroupsState) -> Decision[None]:
        committed = [OffsetKey(group, topic, number) for number in state.offsets.get(group, {}).get(topic, {})]
        pending = [key for key in state.pending.of_group(group) if key.topic == topic]
        return Decision(None, offsets_gone(now, dict.fromkeys(committed + pending)))

    return decide


# --- retention


class Retention(NamedTuple):
    """Which of a group's offsets are kept for how long. A group's own facts are taken when it is made."""

    kept_for: int
    since: int | None  # the group has been empty since then: nothing expires sooner than so long after it
    subscribed: frozenset[str]  # never while a member is subscribed

    def has_expired(self, topic: str, committed: CommittedOffset, now: int) -> bool:
        if topic in self.subscribed:
            return False
        if committed.expires_at is not None:
            return now >= committed.expires_at
        return now - max(committed.committed_at, self.since or 0) >= self.kept_for


def retention_of(group: Group, kept_for: int) -> Retention | None:
    """None: nothing of it expires now."""
    if group.protocol_type is None:
        return Retention(kept_for, None, frozenset())
    if group.state is GroupState.EMPTY:
        return Retention(kept_for, group.state_since, frozenset())
    if group.state is GroupState.STABLE and group.protocol_type == CONSUMER and group.subscribed is not None:
        return Retention(kept_for, None, group.subscribed)
    return None


@dataclass(slots=True)
class Expiry:
    """What came of it, known when the decision is made."""

    expired: int = 0
    group_gone: bool = False


def expire(
    now: int, group: str, retention: Retention, outcome: Expiry, *, is_idle: bool
) -> Callable[[GroupsState], Decision[None]]:
    """Delete what has expired; an idle group goes with its last offset."""

    def decide(state: GroupsState) -> Decision[None]:
        known, pending = offsets_of(state, group), state.pending.of_group(group)
        # To delete an offset would overtake the one that an open transaction has for the same place.
        expired = [
            key for key, committed in known if key not in pending and retention.has_expired(key.topic, committed, now)
        ]
        outcome.expired = len(expired)
        outcome.group_gone = is_idle and len(expired) == len(known) and not pending
        return Decision(None, group_gone(now, state, group) if outcome.group_gone else offsets_gone(now, expired))

    return decide
