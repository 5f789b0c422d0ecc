"""The topics of any Kafka: list, describe, create, delete, change; and where their partitions begin and end.

Every call waits for its answer, and raises one of our errors. Nothing is created by asking for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it lists no names as its own
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from runnel.client import arguments
from runnel.client.connection import Connection, Faults, Settings
from runnel.client.errors import (
    MOST_PARTITIONS,
    Busy,
    InvalidConfig,
    Refused,
    UnknownPartition,
    UnknownTopic,
    WrongPartitionCount,
    told,
)
from runnel.client.sizes import sizes
from runnel.errors import Closed, OffsetOutOfRange
from runnel.start import EARLIEST, LATEST, Place, Start

Answer = TypeVar("Answer")
TopicAndPartition = tuple[str, int]

POLL_SECONDS = 0.02
NO_OFFSET = -1
UP_TO_BROKER = -1
MOST_REPLICAS = 32_767
LISTED: dict[Place, Any] = {
    Place.EARLIEST: OffsetSpec.earliest(),  # type: ignore[no-untyped-call]
    Place.LATEST: OffsetSpec.latest(),  # type: ignore[no-untyped-call]
}
OF_TOPIC = "DYNAMIC_TOPIC_CONFIG"
SOURCES = {1: OF_TOPIC, 2: "DYNAMIC_BROKER_CONFIG", 3: "DYNAMIC_DEFAULT_BROKER_CONFIG", 4: "STATIC_BROKER_CONFIG"}


class Node(NamedTuple):
    id: int
    host: str
    port: int


class Cluster(NamedTuple):
    id: str
    controller: int | None
    brokers: tuple[Node, ...]


class Partition(NamedTuple):
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(NamedTuple):
    name: str
    id: str
    internal: bool
    partitions: tuple[Partition, ...]


class Config(NamedTuple):
    """`source` says who set it, in Kafka's words; a sensitive one has no value."""

    name: str
    value: str | None
    source: str
    read_only: bool

    @property
    def is_of_topic(self) -> bool:
        return self.source == OF_TOPIC


class Admin:
    def __init__(self, bootstrap: str, *, settings: Settings | None = None, timeout: float = 10.0) -> None:
        self.connection = Connection(bootstrap, settings or {}, timeout)
        self.connection.reach()
        self._open: AdminClient | None = AdminClient(self.connection.configuration({}, Faults()))

    def close(self) -> None:
        """Let go of the connections. A second close does nothing; every other call raises Closed."""
        self._open = None  # librdkafka's admin client ends with its last reference

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def cluster(self) -> Cluster:
        told = self.answer(self.call("describe_cluster"), "describing the cluster")
        brokers = tuple(Node(node.id, node.host, node.port) for node in told.nodes)
        return Cluster(told.cluster_id, told.controller.id if told.controller else None, brokers)

    # --- topics

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics, by name; those that Kafka keeps for itself only if asked for."""
        try:
            names = sorted(self._admin.list_topics(timeout=self.connection.timeout).topics)
        except KafkaException as error:
            raise told(error, self.connection.bootstrap, "listing the topics") from None
        return [topic for topic in self.described(names, missing_is_fine=True) if internal or not topic.internal]

    def topic(self, name: str) -> Topic:
        return self.described([name])[0]

    def described(self, names: list[str], *, missing_is_fine: bool = False) -> list[Topic]:
        """These topics; one that is not there is left out, or raises."""
        asked = (
            self.call("describe_topics", TopicCollection([arguments.topic_name(name) for name in names]))
            if names
            else {}
        )
        topics = []
        for name, future in asked.items():
            try:
                topics.append(_topic(self.answer(future, f'describing topic "{name}"', topic=name)))
            except UnknownTopic:
                if not missing_is_fine:
                    raise
        return topics

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; what is not given is up to the broker."""
        if partitions is not None:
            _require_count(name, partitions)
        if replication_factor is not None:
            arguments.whole("replication_factor", replication_factor, 1, MOST_REPLICAS)
        new = NewTopic(
            arguments.topic_name(name),
            partitions or UP_TO_BROKER,
            replication_factor or UP_TO_BROKER,
            config=arguments.configs(configs),
        )
        self.answer(self.call("create_topics", [new])[name], f'creating topic "{name}"', topic=name)
        self._wait_until(name, lambda topic: topic is not None)

    def delete(self, name: str) -> None:
        self.answer(
            self.call("delete_topics", [arguments.topic_name(name)])[name], f'deleting topic "{name}"', topic=name
        )
        self._wait_until(name, lambda topic: topic is None)

    def add_partitions(self, name: str, count: int) -> None:
        """Until it has `count` of them."""
        has = len(self.topic(name).partitions)
        if arguments.integer("count of partitions", count) <= has:
            raise WrongPartitionCount(name, count, has)
        _require_count(name, count)
        asked = self.call("create_partitions", [NewPartitions(name, count)])
        self.answer(asked[name], f'adding partitions to topic "{name}"', topic=name)
        self._wait_until(name, lambda topic: topic is not None and len(topic.partitions) >= count)

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete the records before an offset, by partition."""
        wanted = [arguments.position(name, partition, offset) for partition, offset in before.items()]
        for place, future in self.call("delete_records", wanted).items():
            self._answer_about(place, future, f'deleting records of topic "{name}"')

    # --- configs

    def configs(self, names: Iterable[str]) -> dict[str, list[Config]]:
        """All configs of each topic, by name."""
        # Kafka answers to each that is named, also to one that is named twice, which librdkafka does not understand.
        wanted = [ConfigResource(ResourceType.TOPIC, arguments.topic_name(name)) for name in dict.fromkeys(names)]
        asked = self.call("describe_configs", wanted) if wanted else {}
        return {
            resource.name: sorted(
                Config(entry.name, entry.value, _source(entry), entry.is_read_only)
                for entry in self.answer(
                    future, f'describing the configs of topic "{resource.name}"', topic=resource.name
                ).values()
            )
            for resource, future in asked.items()
        }

    def alter(self, name: str, *, configs: Mapping[str, str] | None = None, unset: Iterable[str] = ()) -> None:
        """Set some configs of a topic and let others be the broker's again; the rest stays."""
        unset = list(dict.fromkeys(unset))  # a broker refuses one that is named twice
        wanted = arguments.configs(configs, unset)
        self._require_configs(name, unset)
        changes = [
            ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET) for config, value in wanted.items()
        ]
        changes += [ConfigEntry(config, None, incremental_operation=AlterConfigOpType.DELETE) for config in unset]
        resource = ConfigResource(ResourceType.TOPIC, arguments.topic_name(name), incremental_configs=changes)
        asked = self.call("incremental_alter_configs", [resource])
        self.answer(asked[resource], f'changing the configs of topic "{name}"', topic=name)

    def _require_configs(self, topic: str, names: list[str]) -> None:
        """InvalidConfig if the topic has no config of a name: Kafka itself unsets whatever it is asked to."""
        known = {config.name for config in self.configs([topic])[topic]} if names else set()
        for name in names:
            if name not in known:
                raise InvalidConfig(topic, f"there is no config {name}")

    # --- offsets and sizes

    def offsets(self, partitions: Iterable[TopicAndPartition], start: Start) -> dict[TopicAndPartition, int]:
        """The offset of each partition that a start means; an offset that is not there raises OffsetOutOfRange."""
        wanted = list(partitions)
        if start.place is Place.OFFSET:
            return self._checked(wanted, start.number)
        if start.place is not Place.TIME:
            return self._listed(wanted, LISTED[start.place])
        ends = self.offsets(wanted, LATEST)  # before the times: a record that comes in between belongs to one
        found = self._listed(wanted, OffsetSpec.for_timestamp(start.number))
        return ends | {place: offset for place, offset in found.items() if offset != NO_OFFSET}

    def stable_offsets(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Where readers of committed records stop in each partition: its end, or its first open transaction."""
        return self._listed(list(partitions), LISTED[Place.LATEST], isolation_level=IsolationLevel.READ_COMMITTED)

    def sizes(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """The bytes on disk of each partition, where the cluster tells."""
        if not self.connection.is_plain:
            return {}
        wanted: dict[str, list[int]] = {}
        for topic, partition in partitions:
            wanted.setdefault(arguments.topic_name(topic), []).append(arguments.partition(topic, partition))
        brokers = [(broker.host, broker.port) for broker in self.cluster().brokers]
        return sizes(brokers, wanted, self.connection.timeout)

    # --- for the neighbours of this package

    def answer(self, future: Future[Answer], doing: str, *, topic: str = "", group: str = "") -> Answer:
        """What a future of librdkafka gives, or one of our errors."""
        self._admin.poll(0)  # hands librdkafka's log lines on
        try:
            return future.result()
        except KafkaException as error:
            raise told(error, self.connection.bootstrap, doing, topic=topic, group=group) from None

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """A call of librdkafka's admin client, with our time-out."""
        return getattr(self._admin, name)(*arguments, request_timeout=self.connection.timeout, **options)

    # --- inside

    @property
    def _admin(self) -> AdminClient:
        if self._open is None:
            raise Closed("the admin client")
        return self._open

    def _answer_about(self, place: TopicPartition, future: Future[Answer], doing: str) -> Answer:
        """Where nobody leads a partition, librdkafka does not tell why, nor does a broker tell what is not there."""
        try:
            return self.answer(future, doing, topic=place.topic)
        except (Refused, UnknownTopic):
            partitions = {each.number: each for each in self.topic(place.topic).partitions}
            if place.partition not in partitions:
                raise UnknownPartition(place.topic, place.partition, len(partitions)) from None
            if partitions[place.partition].leader is None:
                raise Busy(doing, "the partition has no leader") from None
            raise

    def _wait_until(self, name: str, condition: Callable[[Topic | None], bool]) -> None:
        """A cluster answers a change before all its brokers know of it. One that stays behind is no failure."""
        deadline = time.monotonic() + self.connection.timeout
        while time.monotonic() < deadline:
            if condition(next(iter(self.described([name], missing_is_fine=True)), None)):
                return
            time.sleep(POLL_SECONDS)

    def _listed(
        self, wanted: list[TopicAndPartition], at: OffsetSpec, **options: IsolationLevel
    ) -> dict[TopicAndPartition, int]:
        places = {arguments.place(topic, number): at for topic, number in wanted}
        asked = self.call("list_offsets", places, **options) if wanted else {}
        return {
            (place.topic, place.partition): self._answer_about(
                place, future, f"finding an offset of {place.topic}-{place.partition}"
            ).offset
            for place, future in asked.items()
        }

    def _checked(self, wanted: list[TopicAndPartition], offset: int) -> dict[TopicAndPartition, int]:
        starts, ends = self.offsets(wanted, EARLIEST), self.offsets(wanted, LATEST)
        for place in wanted:
            if not starts[place] <= offset <= ends[place]:
                raise OffsetOutOfRange(f"{place[0]}-{place[1]}", offset, starts[place], ends[place])
        return dict.fromkeys(wanted, offset)


def _require_count(name: str, partitions: int) -> None:
    if not 1 <= arguments.integer("count of partitions", partitions) <= MOST_PARTITIONS:
        raise WrongPartitionCount(name, partitions)


def _topic(described: Any) -> Topic:
    partitions = tuple(
        Partition(
            partition.id,
            partition.leader.id if partition.leader else None,
            tuple(node.id for node in partition.replicas),
            tuple(node.id for node in partition.isr),
        )
        for partition in described.partitions
    )
    return Topic(described.name, str(described.topic_id), described.is_internal, partitions)


def _source(entry: Any) -> str:
    # librdkafka gives a number, which may be of a newer broker than the names of confluent-kafka.
    return SOURCES.get(int(getattr(entry.source, "value", entry.source)), "DEFAULT_CONFIG")
