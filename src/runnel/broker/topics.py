"""The topics of a broker: what the cluster state says of them, and their partitions in the log.

A topic's facts are durable before its files exist, and gone only after its files are: a crash in between leaves a topic
without files, which are made when they are asked for, or one that is still being deleted, which the next start ends.
Partitions are opened when they are first used, so a start costs the same with one topic and with thousands.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from runnel.broker.cluster import METADATA_TOPIC, Cluster, ClusterState, TopicFacts, topic_entry, topic_gone_entry
from runnel.broker.mistakes import Refusal
from runnel.clock import Clock
from runnel.counted import counted
from runnel.errors import RunnelError, TopicExists, Transient, UnknownTopic
from runnel.log import Log, Partition
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision
from runnel.settings import TopicSettings

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})  # clients may read them only
HIDDEN = frozenset({METADATA_TOPIC})
MOST_PARTITIONS = 10_000  # that are made at once
KAFKAS_OWN = "__cluster_metadata"  # there, nobody else can have a topic of this name

InThread = Callable[..., Awaitable[Any]]
SettingsOf = Callable[[Mapping[str, str]], TopicSettings]

logger = logging.getLogger(__name__)


class Topic:
    __slots__ = ("_gone", "_log", "_opening", "_partitions", "facts", "is_internal", "settings")

    def __init__(self, log: Log, facts: TopicFacts, settings: TopicSettings) -> None:
        self._log = log
        self.facts = facts
        self.settings = settings
        self.is_internal = facts.name in INTERNAL
        self._partitions: list[Partition | None] = [None] * facts.partitions
        self._opening = threading.Lock()
        self._gone = False

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def id(self) -> UUID:
        return self.facts.id

    @property
    def count(self) -> int:
        """How many partitions it has."""
        return self.facts.partitions

    @property
    def configs(self) -> Mapping[str, str]:
        """What was set for it, under Kafka's names."""
        return self.facts.configs

    def partition(self, number: int) -> Partition:
        """The partition, opened if nobody used it before; IndexError if the topic has no such one.

        Transient if it cannot be opened now: whoever asks for it is told, and the others of its topic are well.
        """
        if number < 0:
            raise IndexError(number)
        known = self._partitions[number]
        if known is None:
            with self._opening:
                if self._gone:
                    raise UnknownTopic(self.name)
                known = self._partitions[number] = self._opened(number)
        return known

    def _opened(self, number: int) -> Partition:
        # The broker's own partitions have been opened with their own settings.
        settings = None if self.is_internal else self.settings
        return self._log.partition(self.name, number, settings)

    def leave(self) -> None:
        """The topic is being deleted: nobody may make its files anew."""
        with self._opening:
            self._gone = True

    def leader_epoch(self, number: int) -> int:
        """While the partition is not open, the one that it will have: that somebody asks is no reason to open it, and
        one that is unknown now and known later makes librdkafka ask where its old position is in a new topic, and skip
        what was written there before.
        """
        partition = self._partitions[number]
        return self._log.epoch if partition is None else partition.leader_epoch

    def opened(self) -> Iterable[Partition]:
        """The partitions that are open."""
        return [partition for partition in self._partitions if partition is not None]

    def open_all(self) -> None:
        """Transient if one cannot be opened now, after the others are."""
        failed: Transient | None = None
        for number in range(self.count):
            if not self._gone:
                try:
                    self.partition(number)
                except Transient as error:
                    failed = failed or error
        if failed is not None:
            raise failed

    def change(self, facts: TopicFacts, settings: TopicSettings) -> None:
        """Take on new settings at once, and more partitions."""
        self.facts, self.settings = facts, settings
        self._partitions += [None] * (facts.partitions - len(self._partitions))
        for partition in self._partitions:
            if partition is not None and not self.is_internal:
                partition.settings = settings


class Topics:
    def __init__(
        self,
        cluster: Cluster,
        log: Log,
        clock: Clock,
        chance: random.Random,
        *,
        settings_of: SettingsOf,
        in_thread: InThread,
    ) -> None:
        self._cluster = cluster
        self._log = log
        self._clock = clock
        self._chance = chance
        self._settings_of = settings_of
        self._in_thread = in_thread
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._unfinished: dict[str, TopicFacts] = {}  # deleted, but for files that could not be removed
        self.when_deleted: list[Callable[[str], object]] = []
        self.changes = 0  # rises whenever a topic comes, goes or grows

    # --- reading

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def find_id(self, topic_id: UUID | None) -> Topic | None:
        return self._by_id.get(topic_id) if topic_id is not None else None

    def all(self) -> Iterable[Topic]:
        return self._by_name.values()

    def is_unfinished(self, name: str) -> bool:
        """Whether a topic of this name was deleted, and its files are still there: whoever asks again ends it."""
        return name in self._unfinished

    def collides_with(self, name: str) -> str | None:
        """Another topic whose name differs in dots and underscores only: in metrics they would be the same."""
        plain = name.replace(".", "_")
        if plain == name and "_" not in name:
            return None
        return next((other for other in self._by_name if other != name and other.replace(".", "_") == plain), None)

    # --- starting

    def load(self) -> None:
        """Take over what the cluster state says, end deletions that were interrupted, and adopt strangers.

        A stranger is a partition that the log has and the cluster state has not: it is the broker's own and new, or
        somebody wrote it with the log alone.
        """
        facts = self._cluster.read(lambda state: list(state.topics.values()))
        for topic in facts:
            if topic.deleting:
                logger.warning("topic %s is being deleted: the last stop came in between", topic.name)
                self._end_interrupted(topic)
            else:
                self._install(topic)
        self._adopt()

    def _end_interrupted(self, topic: TopicFacts) -> None:
        """The others are served also if its files cannot be removed now."""
        try:
            self._remove_files(topic)
            self._cluster.run(self._gone(topic.name))
        except OSError as error:
            logger.warning("the files of the deleted topic %s could not be removed: %s", topic.name, error)
            self._unfinished[topic.name] = topic

    def _adopt(self) -> None:
        counts: dict[str, int] = {}
        for name, number in self._log.partitions():
            if name in self._by_name or name in HIDDEN or name in self._unfinished:
                continue
            if number - counts.get(name, 0) > MOST_PARTITIONS:
                logger.warning("folder %s-%d is left alone: it is no topic's that was ever made", name, number)
            else:
                counts[name] = number + 1
        for name, count in counts.items():
            if name not in INTERNAL:
                logger.warning(
                    "topic %s was found in the data directory: it is served, with %s",
                    name,
                    counted(count, "partition"),
                )
            self._install(self._cluster.run(self._made(self._facts(name, count, {}))))

    # --- changing; each is durable when it returns

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """TopicExists if it does; Transient if its files cannot be made now: then they are when they are asked for."""
        await self._end_unfinished(name)
        facts = self._facts(name, partitions, configs)
        topic = self._install(await self._decided(self._made(facts)))
        await self._make_files(topic)
        return topic

    async def delete(self, name: str) -> None:
        """UnknownTopic if there is none. Its name is free when this returns.

        Transient if its files cannot be removed now. It is gone all the same, and its name is free after another try,
        which may be that of somebody who makes a topic of the same name.
        """
        if await self._end_unfinished(name):
            return
        facts = await self._decided(self._leaving_marked(name))
        topic = self._by_name.pop(name, None)
        self.changes += 1
        if topic is not None:
            self._by_id.pop(topic.id, None)
        for tell in self.when_deleted:
            tell(name)
        if topic is not None:
            await self._in_thread(topic.leave)
        await self._end_deletion(facts, self._remove_files)

    async def grow(self, name: str, partitions: int) -> Topic:
        """To so many partitions; UnknownTopic if there is none, a Refusal if it has as many, also by somebody who asked
        at the same time.
        """
        facts = await self._decided(self._grown(name, partitions))
        topic = self.configure(facts)
        if topic is None:
            raise UnknownTopic(name)
        await self._make_files(topic)
        return topic

    def configure(self, facts: TopicFacts) -> Topic | None:
        """Let the topic follow what is durable already."""
        topic = self._by_name.get(facts.name)
        if topic is not None and topic.id == facts.id:
            self.changes += facts.partitions != topic.count
            topic.change(facts, self._settings_of(facts.configs))
        return topic

    def reconfigure(self) -> None:
        """The broker's own settings have changed: the topics' defaults with them."""
        for topic in self._by_name.values():
            topic.change(topic.facts, self._settings_of(topic.configs))

    # --- parts

    def _install(self, facts: TopicFacts) -> Topic:
        topic = Topic(self._log, facts, self._settings_of(facts.configs))
        self._by_name[facts.name] = topic
        self._by_id[facts.id] = topic
        self.changes += 1
        return topic

    def _facts(self, name: str, partitions: int, configs: Mapping[str, str]) -> TopicFacts:
        return TopicFacts(name, UUID(bytes=self._chance.randbytes(16), version=4), partitions, dict(configs))

    async def _make_files(self, topic: Topic) -> None:
        try:
            # In a thread: a folder has to be synced for each partition.
            await self._in_thread(topic.open_all)
        except Transient as error:
            raise Transient(
                f"the files of topic {topic.name!r} could not be made: {error.what}",
                hint="the topic is there, and its files are made when they are needed and the disk is well",
            ) from error

    async def _end_unfinished(self, name: str) -> bool:
        """Try again to remove the files of a deleted topic; False if there are none."""
        facts = self._unfinished.pop(name, None)  # whoever else asks meanwhile does not try, too
        if facts is None:
            return False
        await self._end_deletion(facts, self._remove_files_again)
        return True

    async def _end_deletion(self, facts: TopicFacts, remove: Callable[[TopicFacts], None]) -> None:
        try:
            await self._in_thread(remove, facts)
            await self._decided(self._gone(facts.name))
        except (OSError, RunnelError) as error:
            self._unfinished[facts.name] = facts
            raise Transient(
                f"topic {facts.name!r} is deleted, but its files could not be removed: {error}",
                hint="its name is free when it is deleted again, or the broker is started again, and the disk is well",
            ) from error

    def _remove_files(self, topic: TopicFacts) -> None:
        for name, number in self._log.partitions():
            if name == topic.name:
                self._log.delete(name, number)

    def _remove_files_again(self, topic: TopicFacts) -> None:
        """Of every partition: of one without a folder the checkpoints may still tell something."""
        found = {number for name, number in self._log.partitions() if name == topic.name}
        for number in sorted(found.union(range(topic.partitions))):
            self._log.delete(topic.name, number)

    def _decided(self, decide: Callable[[ClusterState], Decision[TopicFacts]]) -> Awaitable[TopicFacts]:
        return asyncio.wrap_future(self._cluster.submit(decide))

    def _made(self, facts: TopicFacts) -> Callable[[ClusterState], Decision[TopicFacts]]:
        def decide(state: ClusterState) -> Decision[TopicFacts]:
            if facts.name in state.topics:
                raise TopicExists(facts.name)
            return Decision(facts, [topic_entry(self._clock, facts)])

        return decide

    def _leaving_marked(self, name: str) -> Callable[[ClusterState], Decision[TopicFacts]]:
        def decide(state: ClusterState) -> Decision[TopicFacts]:
            facts = replace(_known(state, name), deleting=True)
            return Decision(facts, [topic_entry(self._clock, facts)])

        return decide

    def _gone(self, name: str) -> Callable[[ClusterState], Decision[TopicFacts]]:
        def decide(state: ClusterState) -> Decision[TopicFacts]:
            return Decision(state.topics[name], [topic_gone_entry(self._clock, name)])

        return decide

    def _grown(self, name: str, partitions: int) -> Callable[[ClusterState], Decision[TopicFacts]]:
        def decide(state: ClusterState) -> Decision[TopicFacts]:
            facts = _known(state, name)
            refuse_smaller(name, facts.partitions, partitions)
            facts = replace(facts, partitions=partitions)
            return Decision(facts, [topic_entry(self._clock, facts)])

        return decide


def refuse_smaller(name: str, count: int, asked: int) -> None:
    if asked <= count:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {name!r} has {counted(count, 'partition')}, asked for {asked}: it can only grow",
        )


def _known(state: ClusterState, name: str) -> TopicFacts:
    facts = state.topics.get(name)
    if facts is None or facts.deleting:
        raise UnknownTopic(name)
    return facts
