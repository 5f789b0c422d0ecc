"""All groups of a broker: the room where the durable state and the running groups meet.

Everything is called on the event loop's thread. What is answered later is answered by a `concurrent.futures.Future`,
perhaps from another thread.

The state lives in partition 0 of `__consumer_offsets`, in Kafka's own records; one node keeps all groups there. It is
compacted.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.groups import offsets, state
from runnel.broker.groups.alarm import Alarm, Timers
from runnel.broker.groups.answers import JoinAnswer, SyncAnswer, kept
from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.heartbeat import HeartbeatAnswer, HeartbeatRequest
from runnel.broker.groups.consumer.remainder import Remainder
from runnel.broker.groups.consumer.running import ConsumerGroups
from runnel.broker.groups.consumer.world import KnownTopics, NoTopics
from runnel.broker.groups.group import Group, GroupState
from runnel.broker.groups.joining import JoinRequest, join
from runnel.broker.groups.leaving import Leaving, leave
from runnel.broker.groups.offsets import Committed, Committer, Retention, TopicPartition
from runnel.broker.groups.records import StoredGroup, fits
from runnel.broker.groups.state import DurableGroups, GroupsState
from runnel.broker.groups.subscription import CONSUMER
from runnel.broker.groups.syncing import SyncRequest, heartbeat, sync
from runnel.broker.groups.takeover import old_snapshot, take_over
from runnel.broker.topics import OFFSETS_TOPIC
from runnel.clock import Clock
from runnel.files import DISK, Files
from runnel.log import Log
from runnel.log.journal import PartitionJournal
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision, JournaledState, Transacted
from runnel.settings import MINUTE

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
    topics: KnownTopics | None = None,
    configs_of: Callable[[str], Mapping[str, str]] = lambda _: {},
    files: Files = DISK,
) -> Groups:
    """The groups of a data directory, read but not running: see `Groups.start`.

    `configs_of` gives a group's own configuration, by its name.
    """
    journal = PartitionJournal(log.partition(OFFSETS_TOPIC), keyed=True)
    snapshot = old_snapshot(log.path, files)
    durable = JournaledState(journal, GroupsState, state.replay, snapshot)
    durable.start()
    if snapshot is not None:
        take_over(log, durable, journal, snapshot, clock.now())
    groups = Groups(durable, clock, timers, chance)
    groups.settings = settings
    groups.consumer.topics = topics or NoTopics()
    groups.consumer.configs_of = configs_of
    return groups


class Groups:
    """Use `open_groups`."""

    settings: Callable[[], BrokerSettings]

    def __init__(
        self,
        durable: DurableGroups,
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
        self._groups: dict[str, Group] = {}  # every classic group that is durable, and those that begin
        self.consumer = ConsumerGroups(durable, self, NoTopics(), lambda _: {})
        self._retention = Alarm(timers, clock, self._retain)
        self._recovery = Alarm(timers, clock, self._recover)
        self._lost: set[str] = set()  # groups that do not run as they are durable, until the disk is well
        self._has_stopped = False

    # --- its life

    def start(self) -> None:
        """Let the groups run: the sessions of all members begin."""
        for name in self._durable.read(lambda known: sorted(known.names())):
            self.resync(name)
        self._retention.set(self.settings().offsets_retention_check_interval_ms)

    def stop(self) -> None:
        """Answer all who wait: they find their coordinator again when there is one."""
        self._retention.stop()
        self._recovery.stop()
        for group in self._groups.values():
            group.stop(ErrorCode.NOT_COORDINATOR)
        self._groups.clear()
        self.consumer.stop()
        self._has_stopped = True

    def resync(self, name: str) -> None:
        """Let a group run as it is durable, if it does not."""

        def look(known: GroupsState) -> Decision[None]:
            consumer = known.consumer.get(name)
            found.append((consumer and consumer.copy(), known.groups.get(name), known.knows(name)))
            return Decision(None)

        found: list[tuple[ConsumerGroup | None, StoredGroup | None, bool]] = []
        self._durable.submit(look)
        if self._has_stopped:
            return
        if not found:  # the disk is ill
            self._lost.add(name)
            self._recovery.set(self.settings().runnel_retry_after_failure_ms)
            return
        consumer, classic, is_known = found[0]
        if consumer is not None:
            if name in self._groups:
                self._groups.pop(name).stop(ErrorCode.NOT_COORDINATOR)
            self.consumer.start(name, consumer)
            return
        self.consumer.forget(name)
        if is_known and name not in self._groups:
            group = self._groups[name] = Group(name, self)
            if classic is not None:
                group.restore(classic)

    def _recover(self) -> None:
        names, self._lost = self._lost, set()
        for name in names:
            self.resync(name)

    # --- members

    def join(self, name: str, request: JoinRequest) -> Future[JoinAnswer]:
        error = self._check_join(name, request)
        if error:
            return kept(JoinAnswer(request.member_id, error))
        if name in self.consumer:
            if not self.consumer.is_empty(name):
                return self.consumer.join(name, request)
            self.consumer.end_empty(name)
            self._groups[name] = Group(name, self)  # also if the member is refused: its offsets need a group
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
        if request.member_id and not self._has_members(name):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _has_members(self, name: str) -> bool:
        return name in self._groups or (name in self.consumer and not self.consumer.is_empty(name))

    def consumer_heartbeat(
        self, name: str, request: HeartbeatRequest, *, needs_member_id: bool = False
    ) -> Future[HeartbeatAnswer]:
        """A heartbeat of the consumer protocol: it may make a group, or make a consumer group of a classic one."""
        if self._has_stopped:
            return kept(HeartbeatAnswer(ErrorCode.NOT_COORDINATOR))
        was = self._groups.get(name)
        answer, is_consumer = self.consumer.heartbeat(name, request, was, needs_member_id=needs_member_id)
        if was is not None and is_consumer:
            logger.info("group %s: somebody speaks the consumer protocol, it is a consumer group", name)
            was.stop(ErrorCode.REBALANCE_IN_PROGRESS)
            del self._groups[name]
            self.resync(name)
        return answer

    def install_classic(self, name: str, remainder: Remainder, *, rebalance: bool) -> None:
        """A consumer group goes on as a classic one."""
        group = self._groups[name] = Group(name, self)
        group.continue_as(remainder.generation, remainder.protocol_name, remainder.members)
        if rebalance:
            group.rebalance("it was a consumer group")

    def sync(self, name: str, request: SyncRequest) -> Future[SyncAnswer]:
        group = self._groups.get(name)
        if group is None and name in self.consumer:
            return self.consumer.sync(name, request)
        if group is None:
            return kept(SyncAnswer(_missing(name)))
        return sync(group, request)

    def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | Future[ErrorCode]:
        """At once, if it can be."""
        group = self._groups.get(name)
        if group is None and name in self.consumer:
            return self.consumer.classic_heartbeat(name, member_id, instance_id, generation)
        return _missing(name) if group is None else heartbeat(group, member_id, instance_id, generation)

    def leave(
        self, name: str, leaving: Sequence[Leaving]
    ) -> tuple[ErrorCode, list[ErrorCode] | Future[list[ErrorCode]]]:
        """The answer for all, and one for each of them, at once if it can be."""
        group = self._groups.get(name)
        if group is None and name in self.consumer:
            return ErrorCode.NONE, self.consumer.leave(name, leaving)
        if group is None:
            error = _missing(name)
            return (error, []) if error is ErrorCode.INVALID_GROUP_ID else (ErrorCode.NONE, [error] * len(leaving))
        return ErrorCode.NONE, leave(group, leaving)

    # --- offsets

    def check_commit(self, name: str, committer: Committer, version: int | None = None) -> ErrorCode:
        """Whether a commit would be taken now; GROUP_ID_NOT_FOUND if a group is meant that does not exist.

        `version` is that of OffsetCommit, None in a transaction. See `check_partition` for what else may be wrong.
        """
        group = self._groups.get(name)
        if group is not None:
            return offsets.check_commit(group, committer)
        if name in self.consumer:
            return self.consumer.check_commit(name, committer.member_id, committer.generation, version)
        if not fits(name):
            return ErrorCode.INVALID_GROUP_ID
        return ErrorCode.NONE if committer.generation < 0 else ErrorCode.GROUP_ID_NOT_FOUND

    def check_partition(self, name: str, committer: Committer, topic: UUID, partition: int) -> ErrorCode:
        """Whether a commit that `check_commit` allows may be one of this partition."""
        if name not in self.consumer:
            return ErrorCode.NONE
        return self.consumer.check_partition(name, committer.member_id, committer.generation, topic, partition)

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a member may fetch offsets; who does not say that it is one may."""
        if name in self.consumer:
            return self.consumer.check_fetch(name, member_id, epoch)
        return ErrorCode.NONE

    def commit(self, name: str, committer: Committer, committed: Committed) -> Future[None]:
        """Commit what `check_commit` allows. A commit is a sign of life, and may bring a group into being."""
        if name not in self.consumer:
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

    # --- offsets in transactions

    def commit_in_transaction(self, name: str, producer: tuple[int, int], committed: Committed) -> Future[None]:
        """What is allowed to be committed; it counts when the producer's transaction is committed."""
        if name not in self._groups and name not in self.consumer:
            self._groups[name] = Group(name, self)
        self.commits += len(committed)
        transaction = Transacted(*producer)
        return self._durable.submit(offsets.commit_in_transaction(self.clock.now(), name, committed, transaction))

    def end_transaction(self, producer_id: int, epoch: int, *, committed: bool) -> Future[None]:
        transaction = Transacted(producer_id, epoch, committed)
        return self._durable.submit(offsets.end_transaction(self.clock.now(), transaction))

    def unstable(self, name: str) -> Future[set[TopicPartition]]:
        """The places of a group for which an open transaction has an offset."""
        return self._durable.submit(offsets.unstable(name))

    def has_pending(self, name: str, producer_ids: Set[int]) -> Future[bool]:
        """Whether one of these producers has an offset of the group in a transaction."""
        return self._durable.submit(offsets.has_pending(name, producer_ids))

    def check_deletion(self, name: str) -> ErrorCode:
        """Whether offsets of the group can be deleted at all; those of subscribed topics cannot."""
        if name in self.consumer:
            return ErrorCode.NONE
        group = self._groups.get(name)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def is_subscribed_to(self, name: str, topic: str) -> bool:
        if name in self.consumer:
            subscribed = self.consumer.subscribed_topics(name)
            return subscribed is None or topic in subscribed
        group = self._groups.get(name)
        return group is not None and group.state is not GroupState.EMPTY and group.is_subscribed_to(topic)

    def delete_offsets(self, name: str, places: Sequence[TopicPartition]) -> Future[None]:
        return self._durable.submit(offsets.delete(self.clock.now(), name, places))

    def forget_topic(self, topic: str) -> Future[None]:
        """A topic is deleted, and all that was committed for it."""
        answer: Future[None] = kept(None)
        for name in (*self._groups, *self.consumer.names()):
            if self.is_subscribed_to(name, topic):
                logger.info("group %s: topic %s, which it reads, is deleted, and its offsets with it", name, topic)
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
        for name in self.consumer.names():
            subscribed = self.consumer.subscribed_topics(name)
            if subscribed is not None:
                self._expire_consumer(name, Retention(kept_for, self.consumer.empty_since(name), subscribed))

    def _expire(self, group: Group, retention: Retention) -> None:
        is_idle = group.state is GroupState.EMPTY and not group.invited
        outcome = offsets.Expiry()
        future = self._durable.submit(offsets.expire(self.clock.now(), group.name, retention, outcome, is_idle=is_idle))
        self.expired += outcome.expired
        if outcome.group_gone:
            self._drop(group, future)

    def _expire_consumer(self, name: str, retention: Retention) -> None:
        outcome = offsets.Expiry()
        is_idle = self.consumer.is_empty(name)
        future = self._durable.submit(offsets.expire(self.clock.now(), name, retention, outcome, is_idle=is_idle))
        self.expired += outcome.expired
        if outcome.group_gone:
            self._drop_consumer(name, future)

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
        if name in self.consumer:
            return self._delete_consumer(name)
        group = self._groups.get(name)
        if group is None:
            return kept(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY:
            return kept(ErrorCode.NON_EMPTY_GROUP)
        future = self._durable.submit(offsets.delete_group(self.clock.now(), name))
        self._drop(group, future)
        return future

    def _delete_consumer(self, name: str) -> Future[ErrorCode]:
        if not self.consumer.is_empty(name):
            return kept(ErrorCode.NON_EMPTY_GROUP)
        future = self._durable.submit(offsets.delete_group(self.clock.now(), name))
        self._drop_consumer(name, future)
        return future

    def count_by_state(self) -> dict[tuple[str, str], int]:
        """By type and state. Consumer groups are left out while the disk keeps us from knowing."""
        classic = Counter(group.state for group in self._groups.values())
        counts = {("classic", state.value): classic[state] for state in GroupState if state is not GroupState.DEAD}
        consumer = self.consumer.count_by_state()
        return counts | {("consumer", state.value): count for state, count in consumer.items()}

    # --- between the durable state and the running groups

    def store(self, group: str, stored: StoredGroup, then: Callable[[BaseException | None], object]) -> None:
        now = self.clock.now()
        future = self._durable.submit(lambda _: Decision(None, [state.group_entry(now, group, stored)]))
        self.when_durable(future, then)

    def _drop(self, group: Group, future: Future[Any]) -> None:
        """An empty group is gone at once, for whoever comes now; if that is lost, it is back."""
        group.stop(ErrorCode.UNKNOWN_MEMBER_ID)
        del self._groups[group.name]
        self.when_durable(future, partial(self._bring_back, group))

    def _drop_consumer(self, name: str, future: Future[Any]) -> None:
        self.consumer.forget(name)
        self.when_durable(future, lambda error: self.resync(name) if error is not None else None)

    def _bring_back(self, group: Group, error: BaseException | None) -> None:
        if error is not None and group.name not in self._groups:
            logger.warning("group %s: that it is gone could not be stored: %s", group.name, error)
            group.state = GroupState.EMPTY
            self._groups[group.name] = group

    def when_durable(self, future: Future[Any], then: Callable[[BaseException | None], object]) -> None:
        future.add_done_callback(lambda done: self.call_soon(partial(then, done.exception())))

    def call_soon(self, then: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self.timers.call_soon_threadsafe(then)


def _missing(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if name else ErrorCode.INVALID_GROUP_ID
