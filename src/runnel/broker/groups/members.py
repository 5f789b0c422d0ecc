"""The members of a group while it runs: who they are, what they can do, and who waits for an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from runnel.broker.groups.alarm import Alarm
from runnel.broker.groups.answers import JoinAnswer, SyncAnswer
from runnel.broker.groups.records import StoredMember
from runnel.protocol.error_codes import ErrorCode


class GroupProtocol(NamedTuple):
    """An assignor that a member can follow, and what it tells the leader for it; opaque to us."""

    name: str
    metadata: bytes


class Named(NamedTuple):
    """What changes of a static member that comes back."""

    member_id: str
    protocols: tuple[GroupProtocol, ...]
    rebalance_timeout: int
    session_timeout: int


@dataclass(slots=True, eq=False)
class Member:
    id: str
    instance_id: str | None  # set: a static member
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    protocols: tuple[GroupProtocol, ...]  # the one it likes most comes first
    assignment: bytes = b""
    is_new: bool = False  # its first JoinGroup waits: it has no id yet to send heartbeats with
    join: Future[JoinAnswer] | None = None
    sync: Future[SyncAnswer] | None = None
    stored_as: Named | None = None  # what the disk has of it, while it is stored under another id
    session: Alarm = field(init=False)  # set by the group that admits it

    def named(self) -> Named:
        return Named(self.id, self.protocols, self.rebalance_timeout, self.session_timeout)

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")

    def await_join(self, waiting: Future[JoinAnswer]) -> None:
        self.answer_join(JoinAnswer(self.id, ErrorCode.REBALANCE_IN_PROGRESS))  # it has asked again
        self.join = waiting

    def await_sync(self, waiting: Future[SyncAnswer]) -> None:
        self.answer_sync(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        self.sync = waiting

    def answer_join(self, answer: JoinAnswer) -> None:
        waiting, self.join = self.join, None
        if waiting is not None:
            waiting.set_result(answer)

    def answer_sync(self, answer: SyncAnswer) -> bool:
        """Whether it waited for it."""
        waiting, self.sync = self.sync, None
        if waiting is not None:
            waiting.set_result(answer)
        return waiting is not None

    def dismiss(self, error: ErrorCode, member_id: str = "") -> None:
        """It is no member any more, and is told so if it waits."""
        self.session.stop()
        self.answer_join(JoinAnswer(member_id, error))
        self.answer_sync(SyncAnswer(error))

    @property
    def may_be_silent(self) -> bool:
        """Nobody sends heartbeats while it waits."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def stored(self, protocol_name: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout,
            self.session_timeout,
            self.metadata(protocol_name),
            assignment,
        )


class Members:
    """All members of a group, in the order they came, one of them the leader."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}  # member ids by instance id
        self.leader: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def find(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def static_id(self, instance_id: str | None) -> str | None:
        """The member id of a static member."""
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether somebody who names itself so is a member."""
        if instance_id is not None:
            known = self._static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        self._members[member.id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> None:
        member = self._members.pop(member_id)
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back under a new id; it keeps its place."""
        was_leader = self.leader == member.id
        renamed = {member_id if known is member else known.id: known for known in self._members.values()}
        member.id = member_id
        self._members = renamed
        if member.instance_id is not None:
            self._static[member.instance_id] = member_id
        if was_leader:
            self.leader = member_id

    # --- joining

    @property
    def joined(self) -> int:
        """How many wait for the next generation."""
        return sum(member.join is not None for member in self._members.values())

    def elect_joined_leader(self) -> bool:
        """The leader stays if it has joined; otherwise the first that has is it. False if nobody has."""
        if self.leader is not None and self._members[self.leader].join is None:
            joined = next((member.id for member in self._members.values() if member.join is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return self.leader is not None

    @property
    def rebalance_timeout(self) -> int:
        return max((member.rebalance_timeout for member in self._members.values()), default=0)

    # --- the protocol

    def common_protocols(self) -> set[str]:
        """Those that every member can follow."""
        counts = Counter(name for member in self._members.values() for name in {each.name for each in member.protocols})
        return {name for name, count in counts.items() if count == len(self._members)}

    def can_follow_one_of(self, protocols: Iterable[GroupProtocol]) -> bool:
        common = self.common_protocols()
        return any(not self._members or each.name in common for each in protocols)

    def elect_protocol(self) -> str:
        """Each member votes for the first of its own that all can follow; most votes win, then the earlier vote."""
        common = self.common_protocols()
        votes = Counter(
            next(each.name for each in member.protocols if each.name in common) for member in self._members.values()
        )
        return votes.most_common(1)[0][0]
