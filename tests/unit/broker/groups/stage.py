"""Where the tests of groups play: groups over a real log on a disk in memory, and time that is moved by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from random import Random
from typing import Any

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.groups import Groups, open_groups
from runnel.broker.groups.answers import JoinAnswer, SyncAnswer
from runnel.broker.groups.group import Group, GroupState
from runnel.broker.groups.joining import JoinRequest
from runnel.broker.groups.leaving import Leaving
from runnel.broker.groups.members import GroupProtocol
from runnel.broker.groups.offsets import Committed, Committer, TopicPartition
from runnel.broker.groups.records import CommittedOffset
from runnel.broker.groups.syncing import SyncRequest
from runnel.log import LogSettings, open_log
from runnel.protocol.error_codes import ErrorCode
from runnel.testing import FaultyFiles, StoppedClock

SESSION = 10_000
REBALANCE = 60_000
DELAY = 3_000  # of the first rebalance
DAY = 24 * 60 * 60 * 1000


class HandTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandTimers:
    """Timers that ring when the clock is advanced, in order."""

    def __init__(self, clock: StoppedClock) -> None:
        self._clock = clock
        self._order = itertools.count()
        self._timers: list[tuple[int, int, HandTimer, Callable[..., object], tuple[Any, ...]]] = []
        self._soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: Any) -> HandTimer:
        timer = HandTimer()
        due = self._clock.elapsed() + round(delay * 1000)
        heapq.heappush(self._timers, (due, next(self._order), timer, callback, arguments))
        return timer

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._soon.append((callback, arguments))

    def run_soon(self) -> bool:
        """Whether there was anything to run."""
        calls, self._soon = self._soon, []
        for callback, arguments in calls:
            callback(*arguments)
        return bool(calls)

    def due_until(self, time: int) -> bool:
        """Ring the next timer that is due until then; False if there is none."""
        while self._timers and self._timers[0][0] <= time:
            due, _, timer, callback, arguments = heapq.heappop(self._timers)
            self._clock.advance(max(0, due - self._clock.elapsed()))
            if not timer.cancelled:
                callback(*arguments)
                return True
        return False

    @property
    def armed(self) -> int:
        return sum(not timer.cancelled for _, _, timer, _, _ in self._timers)


class Stage:
    def __init__(self, *, files: FaultyFiles | None = None, **settings: Any) -> None:
        self.clock = StoppedClock()
        self.chance = Random(1)  # goes on over restarts: an id is never given twice
        self.files = files or FaultyFiles(clock=self.clock)
        self.settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
        self.set(**settings)
        self.open()

    def set(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)

    def open(self) -> None:
        settings = LogSettings(low_disk_bytes=0, sync_workers=1)
        self.log = open_log(
            "/data", settings=settings, files=self.files, clock=self.clock, chance=Random(0), background=False
        )
        self.timers = HandTimers(self.clock)
        self.groups: Groups = open_groups(
            self.log,
            settings=lambda: self.settings,
            clock=self.clock,
            timers=self.timers,
            chance=self.chance,
            files=self.files,
        )
        self.groups.start()

    # --- time

    def settle(self) -> None:
        """Make durable what was decided, and let happen what follows from it now."""
        self.log.commit()
        while self.timers.run_soon() or self.timers.due_until(self.clock.elapsed()):
            self.log.commit()

    def advance(self, milliseconds: int) -> None:
        self.settle()
        until = self.clock.elapsed() + milliseconds
        while self.timers.due_until(until):
            self.settle()
        self.clock.advance(until - self.clock.elapsed())
        self.settle()

    # --- the end of a process

    def stop_and_start(self) -> None:
        self.groups.stop()
        self.log.close()
        self.open()

    def kill(self) -> None:
        self.files = self.files.kill()
        self.open()

    def lose_power(self, seed: int = 0) -> None:
        self.files = self.files.crash(Random(seed))
        self.open()

    def break_disk(self) -> None:
        self.files.fail("sync", ".log")

    def heal_disk(self) -> None:
        self.files.heal()
        self.clock.advance(2_000)
        self.log.maintain()

    # --- looking

    def group(self, name: str = "g") -> Group:
        return self.groups._groups[name]

    def state(self, name: str = "g") -> GroupState:
        described = self.groups.describe(name)
        return GroupState.DEAD if described is None else described.state

    # --- offsets

    def commit(self, offset: int, topic: str = "orders", partition: int = 0, **more: Any) -> ErrorCode:
        """Commit for somebody who is no member, or `by` a member; durable when this returns."""
        by: Consumer | None = more.pop("by", None)
        group = more.pop("group", "g")
        committer = Committer("", None, -1) if by is None else by.committer()
        error = self.groups.check_commit(group, committer)
        if not error:
            committed = CommittedOffset(offset, -1, "", self.clock.now(), **more)
            answer = self.groups.commit(group, committer, {TopicPartition(topic, partition): committed})
            self.settle()
            answer.result(0)
        return error

    def committed(self, group: str = "g") -> Committed:
        answer = self.groups.fetch(group, None)
        self.settle()
        return answer.result(0)

    def offset(self, topic: str = "orders", partition: int = 0, group: str = "g") -> int | None:
        found = self.committed(group).get(TopicPartition(topic, partition))
        return None if found is None else found.offset

    # --- members

    def stable(self, *consumers: Consumer) -> None:
        """Bring a group of these to its next generation; the first that joins an empty group leads."""
        for consumer in consumers:
            consumer.join()
        self.settle()
        for consumer in consumers:
            if consumer.joined is not None and not consumer.joined.done():
                raise AssertionError(f"{consumer.member_id} still waits to join")
            consumer.take_join_answer()
        for consumer in consumers:
            consumer.sync({each.member_id: each.name.encode() for each in consumers} if consumer.leads else {})
        self.settle()
        assert self.state(consumers[0].group) is GroupState.STABLE


class Consumer:
    """A client of a group, as far as a test wants it to be a good one."""

    def __init__(
        self,
        stage: Stage,
        name: str = "ann",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"topics"),),
        protocol_type: str = "consumer",
        **timing: int,
    ) -> None:
        """`timing` is session, rebalance and, as it decides who waits, the version of JoinGroup."""
        self.stage = stage
        self.name = name
        self.group = group
        self.instance = instance
        self.protocols = tuple(GroupProtocol(*each) for each in protocols)
        self.version = timing.pop("version", 9)
        self.session = timing.pop("session", SESSION)
        self.rebalance = timing.pop("rebalance", REBALANCE)
        assert not timing, timing
        self.protocol_type = protocol_type
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.joined: Future[JoinAnswer] | None = None
        self.synced: Future[SyncAnswer] | None = None

    def ask_to_join(self) -> Future[JoinAnswer]:
        """One JoinGroup."""
        self.joined = self.stage.groups.join(
            self.group,
            JoinRequest(
                self.member_id,
                self.instance,
                self.name,
                "/10.0.0.1",
                self.rebalance,
                self.session,
                self.protocol_type,
                self.protocols,
                self.version >= 4,
                self.version >= 9,
            ),
        )
        return self.joined

    def join(self) -> Future[JoinAnswer]:
        """JoinGroup, and again with the id if it is sent back for one."""
        answer = self.ask_to_join()
        if answer.done() and answer.result().error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.result().member_id
            answer = self.ask_to_join()
        return answer

    def take_join_answer(self) -> JoinAnswer:
        assert self.joined is not None
        answer = self.joined.result(0)
        if not answer.error:
            self.member_id, self.generation = answer.member_id, answer.generation
            self.leads = answer.leader == answer.member_id
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None, **more: Any) -> Future[SyncAnswer]:
        request = SyncRequest(self.member_id, self.instance, self.generation, None, None, assignments or {})
        self.synced = self.stage.groups.sync(self.group, request._replace(**more))
        return self.synced

    def heartbeat(self) -> ErrorCode:
        return self.stage.groups.heartbeat(self.group, self.member_id, self.instance, self.generation)

    def leave(self) -> ErrorCode:
        _, (error,) = self.stage.groups.leave(self.group, [Leaving(self.member_id, self.instance)])
        return error

    def committer(self) -> Committer:
        return Committer(self.member_id, self.instance, self.generation)


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer, version 3."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    user_data, owned, generation, rack = b"\xff" * 4, b"\x00" * 4, b"\xff" * 4, b"\xff" * 2
    return b"\x00\x03" + len(topics).to_bytes(4, "big") + names + user_data + owned + generation + rack


def consumer_of(stage: Stage, *topics: str, name: str = "ann", **more: Any) -> Consumer:
    return Consumer(stage, name, protocols=[("range", subscription(*topics))], **more)
