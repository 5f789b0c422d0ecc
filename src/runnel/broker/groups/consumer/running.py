"""All consumer groups while they run: requests become decisions on the durable state, and time-outs do too.

Everything is called on the event loop's thread. A decision is made at once, so that what it changes is known before the
next request; its answer comes when it is durable. If it is lost, `Surroundings.resync` makes what runs follow what is
durable again.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.groups.alarm import Timers
from runnel.broker.groups.answers import JoinAnswer, SyncAnswer
from runnel.broker.groups.consumer import classic, commits
from runnel.broker.groups.consumer.draft import Draft, gone
from runnel.broker.groups.consumer.expressions import described_topics
from runnel.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from runnel.broker.groups.consumer.heartbeat import HeartbeatAnswer, HeartbeatRequest, check, heartbeat
from runnel.broker.groups.consumer.leaving import leave, remove
from runnel.broker.groups.consumer.member import JOINING, ConsumerMember
from runnel.broker.groups.consumer.migration import check_upgrade, upgrade
from runnel.broker.groups.consumer.records import TopicsOfExpression
from runnel.broker.groups.consumer.remainder import Remainder
from runnel.broker.groups.consumer.sessions import Limit, Sessions
from runnel.broker.groups.consumer.target import raise_epoch
from runnel.broker.groups.consumer.world import KnownTopics, World, intervals_of
from runnel.broker.groups.group import Group
from runnel.broker.groups.joining import JoinRequest
from runnel.broker.groups.leaving import Leaving
from runnel.broker.groups.state import DurableGroups, GroupsState
from runnel.broker.groups.syncing import SyncRequest
from runnel.broker.mistakes import Refusal, text_of
from runnel.clock import Clock
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision

NEVER = -1

Told = TypeVar("Told")
Resolved = dict[str, tuple[str, ...]]  # topics by expression

logger = logging.getLogger(__name__)


class Surroundings(Protocol):
    """What consumer groups need around them."""

    clock: Clock
    timers: Timers
    chance: random.Random
    rebalances: int  # completed ones

    def settings(self) -> BrokerSettings: ...

    def install_classic(self, name: str, group: Remainder, *, rebalance: bool) -> None:
        """The group goes on as a classic one."""
        ...

    def resync(self, name: str) -> None:
        """A decision was lost: what runs must follow what is durable."""
        ...

    def when_durable(self, future: Future[Any], then: Callable[[BaseException | None], object]) -> None: ...

    def call_soon(self, then: Callable[[], object]) -> None:
        """On the event loop, from any thread."""
        ...


class Running:
    """What is volatile of one group."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.seen_changes = NEVER  # of the topics, when the group looked at them last
        self.resolved_changes = NEVER  # when its expressions were resolved last
        self.resolved_at = NEVER
        self.resolving = False


@dataclass(slots=True)
class Outcome:
    """What a decision did, known when it is made."""

    group: ConsumerGroup | None = None  # as it is now; None: the request was refused, or there is no such group
    is_made: bool = False  # False: the disk is ill, nobody could decide
    changed: bool = False
    completed: bool = False  # a rebalance: all have what is meant for them
    remainder: Remainder | None = None  # it is a classic group now
    answer: object = None
    refused: ErrorCode = ErrorCode.NONE


class ConsumerGroups:
    def __init__(
        self,
        durable: DurableGroups,
        around: Surroundings,
        topics: KnownTopics,
        configs_of: Callable[[str], Mapping[str, str]],
        apart: Callable[[Callable[[], Any]], Future[Any]] | None = None,
    ) -> None:
        """`configs_of` gives a group's own configuration; `apart` runs what takes time, in a thread of its own."""
        self._durable = durable
        self._around = around
        self.topics = topics
        self.configs_of = configs_of
        self._running: dict[str, Running] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._apart = apart or self._in_thread

    # --- their life

    def start(self, name: str, group: ConsumerGroup) -> None:
        """Let a group run as it is durable: the sessions of all members begin, and it looks at the topics anew."""
        running = self._ensure(name)
        running.seen_changes = running.resolved_changes = NEVER
        running.sessions.keep_only(group.members)
        for member in group.members.values():
            if not running.sessions.has_begun(member.id):
                running.sessions.begin(member, self._session_timeout(name, member))
            running.sessions.follow(member)

    def forget(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.sessions.keep_only(())

    def stop(self) -> None:
        for name in tuple(self._running):
            self.forget(name)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def __len__(self) -> int:
        return len(self._running)

    def names(self) -> list[str]:
        return list(self._running)

    def _ensure(self, name: str) -> Running:
        running = self._running.get(name)
        if running is None:
            sessions = Sessions(self._around.timers, self._around.clock, partial(self._late, name))
            running = self._running[name] = Running(sessions)
        return running

    # --- the consumer protocol

    def heartbeat(
        self, name: str, request: HeartbeatRequest, was: Group | None = None, *, needs_member_id: bool = False
    ) -> tuple[Future[HeartbeatAnswer], bool]:
        """The answer, and whether the group is a consumer group now; `was` is the classic group of this name."""
        if not request.member_id and request.epoch == JOINING and not needs_member_id:
            request = request._replace(member_id=self._new_id())
        world = self._world(name)

        def decide(draft: Draft, known: bool) -> HeartbeatAnswer:
            check(request, name, world, needs_member_id=needs_member_id)
            if not known:
                _begin(draft, world, request, was)
            if request.leaves:
                return leave(draft, world, request)
            return heartbeat(draft, world, request, topics_changed=self._topics_changed(name))

        future, outcome = self._decide(name, decide, _refused_heartbeat)
        if outcome.group is not None and not request.leaves:
            running = self._running[name]
            running.seen_changes = self.topics.changes
            running.sessions.begin(outcome.group.members[request.member_id], world.intervals.session_timeout)
            running.sessions.follow(outcome.group.members[request.member_id])
            self._resolve_if_needed(name, outcome.group)
        return future, outcome.group is not None

    # --- the classic protocol

    def join(self, name: str, request: JoinRequest) -> Future[JoinAnswer]:
        world = self._world(name)
        if not request.member_id:
            fresh = self._new_id()
            world = world._replace(new_id=lambda: fresh)

        def decide(draft: Draft, known: bool) -> JoinAnswer:
            _must_exist(known, name)
            return classic.join(draft, world, request, topics_changed=self._topics_changed(name))

        future, outcome = self._decide(name, decide, lambda code, _: JoinAnswer(request.member_id, code), settle=False)
        member_id = request.member_id or world.new_id()
        if outcome.group is not None and member_id in outcome.group.members:
            running = self._running[name]
            running.seen_changes = self.topics.changes
            running.sessions.begin(outcome.group.members[member_id], request.session_timeout)
            running.sessions.clear(member_id, Limit.JOINING)
            running.sessions.set(member_id, Limit.SYNCING, request.rebalance_timeout)
        return future

    def sync(self, name: str, request: SyncRequest) -> Future[SyncAnswer]:
        world = self._world(name)

        def decide(draft: Draft, known: bool) -> SyncAnswer:
            _must_exist(known, name)
            return classic.sync(draft.group, name, world, request)

        future, outcome = self._decide(name, decide, lambda code, _: SyncAnswer(code))
        if outcome.group is not None:
            self._heard_from_classic(name, outcome.group, request.member_id)
            self._running[name].sessions.clear(request.member_id, Limit.SYNCING)
        elif outcome.refused is ErrorCode.REBALANCE_IN_PROGRESS:
            self._await_join(name, request.member_id)
        return future

    def classic_heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> Future[ErrorCode]:
        world = self._world(name)

        def decide(draft: Draft, known: bool) -> ErrorCode:
            _must_exist(known, name)
            return classic.heartbeat(draft, world, member_id, instance_id, generation)

        future, outcome = self._decide(name, decide, lambda code, _: code)
        if outcome.group is not None:
            self._heard_from_classic(name, outcome.group, member_id)
            if outcome.answer is ErrorCode.REBALANCE_IN_PROGRESS:
                self._await_join(name, member_id)
        return future

    def leave(self, name: str, leaving: Sequence[Leaving]) -> Future[list[ErrorCode]]:
        world = self._world(name)

        def decide(draft: Draft, known: bool) -> list[ErrorCode]:
            _must_exist(known, name)
            return classic.leave(draft, world, leaving)

        return self._decide(name, decide, lambda code, _: [code] * len(leaving))[0]

    def _heard_from_classic(self, name: str, group: ConsumerGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None:
            self._running[name].sessions.begin(member, self._session_timeout(name, member))

    def _await_join(self, name: str, member_id: str) -> None:
        def rebalance_timeout(state: GroupsState) -> int | None:
            return state.consumer[name].members[member_id].rebalance_timeout

        timeout = self._seen(rebalance_timeout, None)
        if timeout is not None:
            self._running[name].sessions.set_if_unset(member_id, Limit.JOINING, timeout)

    # --- time-outs

    def _late(self, name: str, member_id: str, limit: Limit) -> None:
        logger.info("group %s: member %s is fenced: %s", name, member_id, limit.value)
        self.fence(name, member_id)

    def fence(self, name: str, member_id: str) -> None:
        """The member is none any more."""
        world = self._world(name)

        def decide(draft: Draft, known: bool) -> None:
            if known and member_id in draft.group.members:
                remove(draft, world, [member_id])

        self._decide(name, decide, lambda _code, _text: None)

    # --- regular expressions

    def _resolve_if_needed(self, name: str, group: ConsumerGroup) -> None:
        running = self._running[name]
        wanted = {member.expression for member in group.members.values() if member.expression is not None}
        if running.resolving or not wanted:
            return
        fresh_for = self._around.settings().group_consumer_regex_refresh_interval_ms
        is_old = self._around.clock.elapsed() - running.resolved_at >= fresh_for
        if wanted <= group.expressions.keys() and running.resolved_changes == self.topics.changes and not is_old:
            return
        running.resolving = True
        changes = self.topics.changes
        names = [topic.name for topic in self.topics.all()]
        future = self._apart(lambda: {expression: described_topics(expression, names) for expression in wanted})

        def hand_over(done: Future[Any]) -> None:
            self._around.call_soon(partial(self._resolved, name, running, changes, done))

        future.add_done_callback(hand_over)

    def _resolved(self, name: str, running: Running, changes: int, done: Future[Resolved]) -> None:
        running.resolving = False
        if self._running.get(name) is not running or done.cancelled():
            return
        if done.exception() is not None:
            logger.error("group %s: its regular expressions could not be resolved", name, exc_info=done.exception())
            return
        running.resolved_changes, running.resolved_at = changes, self._around.clock.elapsed()
        world = self._world(name)

        def decide(draft: Draft, known: bool) -> None:
            if known:
                _take_expressions(draft, world, changes, done.result())

        self._decide(name, decide, lambda _code, _text: None)

    def _in_thread(self, work: Callable[[], Any]) -> Future[Any]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="runnel-expressions")
        return self._thread.submit(work)

    # --- offsets

    def check_commit(self, name: str, member_id: str, epoch: int, version: int | None) -> ErrorCode:
        return self._checked(name, lambda group: commits.check_commit(group, member_id, epoch, version))

    def check_partition(self, name: str, member_id: str, epoch: int, topic: UUID, partition: int) -> ErrorCode:
        return self._checked(name, lambda group: commits.check_partition(group, member_id, epoch, topic, partition))

    def check_fetch(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        return self._checked(name, lambda group: commits.check_fetch(group, member_id, epoch))

    def _checked(self, name: str, check: Callable[[ConsumerGroup], ErrorCode]) -> ErrorCode:
        return self._seen(lambda state: check(state.consumer[name]), ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # --- what is told of them

    def is_empty(self, name: str) -> bool:
        return self._seen(lambda state: not state.consumer[name].members, unseen=False)

    def subscribed_topics(self, name: str) -> frozenset[str] | None:
        """None while it cannot be known."""
        return self._seen(lambda state: state.consumer[name].all_subscribed_topics(), None)

    def empty_since(self, name: str) -> int | None:
        """When its last member left; None while it has members, or it cannot be known."""
        return self._seen(lambda state: state.consumer[name].empty_since, None)

    def count_by_state(self) -> dict[ConsumerGroupState, int]:
        """Each state that a group can be in; none while it cannot be known."""
        found = self._seen(lambda state: Counter(group.state for group in state.consumer.values()), None)
        if found is None:
            return {}
        return {state: found[state] for state in ConsumerGroupState if state is not ConsumerGroupState.DEAD}

    def states(self) -> Future[dict[str, ConsumerGroupState]]:
        return self._durable.submit(
            lambda state: Decision({name: group.state for name, group in state.consumer.items()})
        )

    def describe(self, name: str) -> Future[ConsumerGroup | None]:
        def decide(state: GroupsState) -> Decision[ConsumerGroup | None]:
            group = state.consumer.get(name)
            return Decision(None if group is None else group.copy())

        return self._durable.submit(decide)

    def end_empty(self, name: str) -> None:
        """A group without members gives way to a classic one. Its offsets stay."""

        def decide(draft: Draft, known: bool) -> None:
            if known:
                gone(draft)

        self._decide(name, decide, lambda _code, _text: None)
        self.forget(name)

    # --- deciding

    def _decide(
        self,
        name: str,
        decide: Callable[[Draft, bool], Told],
        refused: Callable[[ErrorCode, str], Told],
        *,
        settle: bool = True,
    ) -> tuple[Future[Told], Outcome]:
        """Decide on a group, which `decide` is told whether it exists; a Refusal is an answer and changes nothing."""
        outcome = Outcome()
        now = self._around.clock.now()

        def handler(state: GroupsState) -> Decision[Told]:
            outcome.is_made = True
            group = state.consumer.get(name)
            draft = Draft(name, now, group)
            try:
                answer = decide(draft, group is not None)
            except Refusal as refusal:
                outcome.refused = refusal.code
                return Decision(refused(refusal.code, text_of(refusal)))
            outcome.answer, outcome.group, outcome.remainder = answer, draft.group, draft.remainder
            outcome.changed = bool(draft.entries)
            outcome.completed = outcome.changed and _completes_rebalance(group, draft.group)
            return Decision(answer, draft.entries)

        future = self._durable.submit(handler)
        if outcome.changed:
            self._follow(name, outcome, rebalance=settle)
        if outcome.changed or not outcome.is_made:
            self._around.when_durable(future, partial(self._check_stored, name, outcome))
        return future, outcome

    def _follow(self, name: str, outcome: Outcome, *, rebalance: bool) -> None:
        """What runs follows what was decided."""
        if outcome.remainder is not None:
            logger.info("group %s: nobody speaks the consumer protocol any more, it is a classic group", name)
            self.forget(name)
            self._around.install_classic(name, outcome.remainder, rebalance=rebalance)
            outcome.group = None
        elif outcome.group is not None:
            self._ensure(name).sessions.keep_only(outcome.group.members)

    def _check_stored(self, name: str, outcome: Outcome, error: BaseException | None) -> None:
        if error is not None:
            logger.warning("group %s: a decision could not be stored: %s", name, error)
            self._around.resync(name)
        elif outcome.completed:
            self._around.rebalances += 1

    def _seen(self, look: Callable[[GroupsState], Told], unseen: Told) -> Told:
        """What is decided now, though it may not be durable yet; `unseen` while the disk keeps us from knowing."""
        seen: list[Told] = []

        def decide(state: GroupsState) -> Decision[None]:
            seen.append(look(state))
            return Decision(None)

        self._durable.submit(decide)
        return seen[0] if seen else unseen

    def _topics_changed(self, name: str) -> bool:
        running = self._running.get(name)
        return running is None or running.seen_changes != self.topics.changes

    def _session_timeout(self, name: str, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout
        return intervals_of(self._around.settings(), self.configs_of(name)).session_timeout

    def _world(self, name: str) -> World:
        settings = self._around.settings()
        return World(
            self._around.clock.now(), settings, intervals_of(settings, self.configs_of(name)), self.topics, self._new_id
        )

    def _new_id(self) -> str:
        return str(UUID(int=self._around.chance.getrandbits(128), version=4))


def _completes_rebalance(before: ConsumerGroup | None, after: ConsumerGroup) -> bool:
    if after.state is not ConsumerGroupState.STABLE:
        return False
    return (
        before is None
        or before.assignment_epoch != after.assignment_epoch
        or before.state is not ConsumerGroupState.STABLE
    )


def _must_exist(known: bool, name: str) -> None:
    if not known:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {name} not found.")


def _begin(draft: Draft, world: World, request: HeartbeatRequest, was: Group | None) -> None:
    """Somebody who joins makes a group, out of the classic one if there is one."""
    if request.epoch != JOINING:
        what = "not found" if was is None else "not a consumer group"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.name} is {what}.")
    if was is None:
        return
    draft.forget_classic()
    if was.members:
        check_upgrade(was, world)
        upgrade(draft, world, was)


def _take_expressions(draft: Draft, world: World, changes: int, resolved: Resolved) -> None:
    used = {member.expression for member in draft.group.members.values()}
    changed = False
    for expression, topics in resolved.items():
        known = draft.group.expressions.get(expression)
        if expression in used and (known is None or known.topics != topics):
            draft.set_expression(expression, TopicsOfExpression(topics, changes, world.now))
            changed = True
    if changed:
        raise_epoch(draft, world)


def _refused_heartbeat(code: ErrorCode, message: str) -> HeartbeatAnswer:
    return HeartbeatAnswer(code, message)
