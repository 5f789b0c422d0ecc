"""All groups of a broker: the room where the durable state and the running groups meet.

Everything is called on the event loop's thread, except `fold`. What is answered later is answered by a
`concurrent.futures.Future`, perhaps from another thread.

The state lives in partition 0 of `__consumer_offsets`, in Kafka's own records; one node keeps all groups there. Until
the log can be compacted, `fold` puts a snapshot beside it and trims it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.groups import offsets, state
from runnel.broker.groups.alarm import Alarm, Timers
from runnel.broker.groups.answers import JoinAnswer, SyncAnswer, kept
from runnel.broker.groups.group import Group, GroupState
from runnel.broker.groups.joining import JoinRequest, join
from runnel.broker.groups.leaving import Leaving, leave
from runnel.broker.groups.offsets import Committed, Committer, Retention, TopicPartition
from runnel.broker.groups.records import StoredGroup, fits
from runnel.broker.groups.state import DurableGroups, GroupsState
from runnel.broker.groups.subscription import CONSUMER
from runnel.broker.groups.syncing import SyncRequest, heartbeat, sync
from runnel.broker.topics import OFFSETS_TOPIC
from runnel.clock import Clock
from runnel.files import DISK, Files
from runnel.log import Log, TopicSettings
from runnel.log.journal import PartitionJournal
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision, JournaledState, SnapshotFile
from runnel.settings import MIB, MINUTE

SNAPSHOT = "consumer-offsets.snapshot"
# A commit for ten thousand partitions, or a group of thousands of members, is one batch.
MOST_BYTES_OF_A_DECISION = 16 * MIB
FOLD_AFTER = 10_000  # entries: so many are read in a moment

logger = logging.getLogger(__name__)


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    name: str
    state: GroupState
    protocol_type: str
    protocol_name: str  # empty unless the group is stable
    members: tuple[DescribedMember, ...]


def open_groups(
    log: Log,
    *,
    settings: Callable[[], BrokerSettings],
    clock: Clock,
    timers: Timers,
    chance: random.Random,
    files: Files = DISK,
) -> Groups:
    """The groups of a data directory, read but not running: see `Groups.start`."""
    kept_as = TopicSettings(
        segment_bytes=max(settings().offsets_topic_segment_bytes, MOST_BYTES_OF_A_DECISION),
        max_message_bytes=MOST_BYTES_OF_A_DECISION,
    )
    journal = PartitionJournal(log.partition(OFFSETS_TOPIC, 0, kept_as))
    snapshot = SnapshotFile(os.path.join(log.path, SNAPSHOT), state.dump, state.load, files)
    groups = Groups(JournaledState(journal, GroupsState, state.replay, snapshot), journal, clock, timers, chance)
    groups.settings = settings
    groups.read()
    return groups


class Groups:
    """Use `open_groups`."""

    settings: Callable[[], BrokerSettings]

    def __init__(
        self,
        durable: DurableGroups,
        journal: PartitionJournal,
        clock: Clock,
        timers: Timers,
        chance: random.Random,
    ) -> None:
        self.clock = clock
        self.timers = timers
        self.chance = chance
        self.rebalances = 0  # completed ones
        self.commits = 0  # of one partition's offset each
        self.expired = 0  # offsets
        self._durable = durable
        self._journal = journal
        self._groups: dict[str, Group] = {}  # every group that is durable, and those that begin
        self._retention = Alarm(timers, clock, self._retain)

    # --- its life

    def read(self) -> None:
        """Rebuild the durable state; a long journal is folded on this occasion."""
        self._durable.start()
        if self.needs_folding:
            self.fold()

    def start(self) -> None:
        """Let the groups run: the sessions of all members begin."""
        stored = self._durable.read(lambda known: {name: known.groups.get(name) for name in known.names()})
        for name, facts in stored.items():
            group = self._groups[name] = Group(name, self)
            if facts is not None:
                group.restore(facts)
        self._retention.set(self.settings().offsets_retention_check_interval_ms)

    def stop(self) -> None:
        """Answer all who wait: they find their coordinator again when there is one."""
        self._retention.stop()
        for group in self._groups.values():
            group.stop(ErrorCode.NOT_COORDINATOR)
        self._groups.clear()

    @property
    def needs_folding(self) -> bool:
        return self._journal.end_offset - self._journal.start_offset >= FOLD_AFTER

    def fold(self) -> None:
        """Put the durable state into the snapshot and trim the log. It waits for the disk: call it in a thread."""
        self._durable.fold(trim=True)

    # --- members

    def join(self, name: str, request: JoinRequest) -> Future[JoinAnswer]:
        error = self._check_join(name, request)
        if error:
            return kept(JoinAnswer(request.member_id, error))
        group = self._groups.get(name) or Group(name, self)
        answer = join(group, request)
        if group.members or group.invited:
            self._groups[name] = group
        return answer

    def _check_join(self, name: str, request: JoinRequest) -> ErrorCode:
        settings = self.settings()
        least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not name or not fits(name):
            return ErrorCode.INVALID_GROUP_ID
        if not least <= request.session_timeout <= most:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = (each.name for each in request.protocols)
        if not fits(request.member_id, request.instance_id, request.protocol_type, *names):
            return ErrorCode.INVALID_REQUEST
        if request.member_id and name not in self._groups:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def sync(self, name: str, request: SyncRequest) -> Future[SyncAnswer]:
        group = self._groups.get(name)
        if group is None:
            return kept(SyncAnswer(_missing(name)))
        return sync(group, request)

    def heartbeat(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        group = self._groups.get(name)
        return _missing(name) if group is None else heartbeat(group, member_id, instance_id, generation)

    def leave(self, name: str, leaving: Sequence[Leaving]) -> tuple[ErrorCode, list[ErrorCode]]:
        """The answer for all, and one for each of them."""
        group = self._groups.get(name)
        if group is None:
            error = _missing(name)
            return (error, []) if error is ErrorCode.INVALID_GROUP_ID else (ErrorCode.NONE, [error] * len(leaving))
        return ErrorCode.NONE, leave(group, leaving)

    # --- offsets

    def check_commit(self, name: str, committer: Committer) -> ErrorCode:
        """Whether a commit would be taken now; GROUP_ID_NOT_FOUND if a group is meant that does not exist."""
        group = self._groups.get(name)
        if group is not None:
            return offsets.check_commit(group, committer)
        if not fits(name):
            return ErrorCode.INVALID_GROUP_ID
        return ErrorCode.NONE if committer.generation < 0 else ErrorCode.GROUP_ID_NOT_FOUND

    def commit(self, name: str, committer: Committer, committed: Committed) -> Future[None]:
        """Commit what `check_commit` allows. A commit is a sign of life, and may bring a group into being."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name, self)
        member = group.members.find(committer.member_id)
        if member is not None:
            group.heard_from(member)
        self.commits += len(committed)
        return self._durable.submit(offsets.commit(self.clock.now(), name, committed))

    def fetch(self, name: str, places: Sequence[TopicPartition] | None) -> Future[Committed]:
        """What is committed, at those places or (None) everywhere; nothing for a group that does not exist."""
        return self._durable.submit(offsets.fetch(name, places))

    def check_deletion(self, name: str) -> ErrorCode:
        """Whether offsets of the group can be deleted at all; those of subscribed topics cannot."""
        group = self._groups.get(name)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def is_subscribed_to(self, name: str, topic: str) -> bool:
        group = self._groups.get(name)
        return group is not None and group.state is not GroupState.EMPTY and group.is_subscribed_to(topic)

    def delete_offsets(self, name: str, places: Sequence[TopicPartition]) -> Future[None]:
        return self._durable.submit(offsets.delete(self.clock.now(), name, places))

    def forget_topic(self, topic: str) -> Future[None]:
        """A topic is deleted, and all that was committed for it."""
        answer: Future[None] = kept(None)
        for name in tuple(self._groups):
            # Answers come in the order of the decisions, and a loss is one of all that follow: the last says it all.
            answer = self._durable.submit(offsets.forget_topic(self.clock.now(), name, topic))
        return answer

    # --- retention

    def _retain(self) -> None:
        self._retention.set(self.settings().offsets_retention_check_interval_ms)
        self.expire_offsets()

    def expire_offsets(self) -> None:
        """Delete the offsets that nobody has needed for long enough, and the groups that have none left."""
        kept_for = self.settings().offsets_retention_minutes * MINUTE
        for group in tuple(self._groups.values()):
            retention = offsets.retention_of(group, kept_for)
            if retention is not None:
                self._expire(group, retention)

    def _expire(self, group: Group, retention: Retention) -> None:
        is_idle = group.state is GroupState.EMPTY and not group.invited
        outcome = offsets.Expiry()
        future = self._durable.submit(offsets.expire(self.clock.now(), group.name, retention, outcome, is_idle=is_idle))
        self.expired += outcome.expired
        if outcome.group_gone:
            self._drop(group, future)

    # --- administration

    def names(self) -> list[str]:
        return list(self._groups)

    def describe(self, name: str) -> DescribedGroup | None:
        group = self._groups.get(name)
        if group is None:
            return None
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            name,
            group.state,
            group.protocol_type or "",
            (group.protocol_name or "") if is_stable else "",
            tuple(
                DescribedMember(
                    member.id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(group.protocol_name) if is_stable else b"",
                    member.assignment,
                )
                for member in group.members
            ),
        )

    def delete(self, name: str) -> Future[ErrorCode]:
        """Delete a group without members, and its offsets."""
        group = self._groups.get(name)
        if group is None:
            return kept(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY:
            return kept(ErrorCode.NON_EMPTY_GROUP)
        future = self._durable.submit(offsets.delete_group(self.clock.now(), name))
        self._drop(group, future)
        return future

    def count_by_state(self) -> dict[str, int]:
        counts = Counter(group.state for group in self._groups.values())
        return {state.value: counts[state] for state in GroupState if state is not GroupState.DEAD}

    # --- between the durable state and the running groups

    def store(self, group: str, stored: StoredGroup, then: Callable[[BaseException | None], object]) -> None:
        now = self.clock.now()
        future = self._durable.submit(lambda _: Decision(None, [state.group_entry(now, group, stored)]))
        self._when_durable(future, then)

    def _drop(self, group: Group, future: Future[Any]) -> None:
        """An empty group is gone at once, for whoever comes now; if that is lost, it is back."""
        group.stop(ErrorCode.UNKNOWN_MEMBER_ID)
        del self._groups[group.name]
        self._when_durable(future, partial(self._bring_back, group))

    def _bring_back(self, group: Group, error: BaseException | None) -> None:
        if error is not None and group.name not in self._groups:
            logger.warning("group %s: that it is gone could not be stored: %s", group.name, error)
            group.state = GroupState.EMPTY
            self._groups[group.name] = group

    def _when_durable(self, future: Future[Any], then: Callable[[BaseException | None], object]) -> None:
        def hand_over(done: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits any more
                self.timers.call_soon_threadsafe(then, done.exception())

        future.add_done_callback(hand_over)


def _missing(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if name else ErrorCode.INVALID_GROUP_ID
