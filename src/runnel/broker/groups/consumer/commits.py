"""Who may commit and fetch the offsets of a consumer group.

A member whose epoch has risen may still commit, with the epoch that it had, what it has had since that epoch or
longer: nobody else can have got it in between (KIP-1251).
"""

from __future__ import annotations

from uuid import UUID

from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.member import ConsumerMember
from runnel.protocol.error_codes import ErrorCode

FIRST_WITH_EPOCHS = 9  # versions of OffsetCommit


def check_commit(group: ConsumerGroup, member_id: str, epoch: int, version: int | None) -> ErrorCode:
    """Whether it may commit at all; `version` of OffsetCommit, None in a transaction."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if version is None and epoch < 0 and not member_id:
        return ErrorCode.NONE  # an older producer, which knows nothing of the group
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version is not None and version < FIRST_WITH_EPOCHS and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    return stale(member) if epoch > member.epoch else ErrorCode.NONE


def check_partition(group: ConsumerGroup, member_id: str, epoch: int, topic: UUID, partition: int) -> ErrorCode:
    """Whether a commit that is allowed may be one of this partition."""
    member = group.members.get(member_id)
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    given_at = member.given_at(topic, partition)
    return stale(member) if given_at is None or epoch < given_at else ErrorCode.NONE


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else stale(member)


def stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
