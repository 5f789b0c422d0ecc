"""The administrators' clients of confluent-kafka, aiokafka and kafka-python on our broker."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import pytest
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from confluent_kafka import admin as confluent

from runnel import Broker
from tests.broker_wire import Wire, batch_of, produce
from tests.interop.python_clients import LIBRARIES, LIMIT, Membership, kafka, poll_until

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    # The records are old, and must stay.
    with Broker(settings={"node.id": 1, "log.retention.ms": -1}) as broker:
        yield broker.bootstrap


@pytest.fixture
def name() -> str:
    return f"name-{next(numbers)}"


@pytest.fixture
def filled(bootstrap: str, name: str) -> str:
    """A topic with ten records, of which the group of the same name has committed seven."""
    with contextlib.closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    with Wire(bootstrap) as wire:
        produce(wire, name, batch_of(*(b"%d" % number for number in range(10))))
    with LIBRARIES["confluent"].member(bootstrap, Membership(name, (name,))) as member:
        poll_until(lambda _: bool(member.assignment()), member)
        member.commit({(name, 0): 7})
    return name


# --- confluent-kafka


@pytest.fixture
def by_confluent(bootstrap: str) -> confluent.AdminClient:
    return confluent.AdminClient({"bootstrap.servers": bootstrap})


def result_of(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(LIMIT)


def test_confluent_creates_describes_widens_and_deletes_a_topic(by_confluent: confluent.AdminClient, name: str) -> None:
    new = confluent.NewTopic(name, 2, 1, config={"retention.ms": "5000"})
    result_of(by_confluent.create_topics([new]))
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        result_of(by_confluent.create_topics([new]))

    result_of(by_confluent.create_partitions([confluent.NewPartitions(name, 3)]))
    described = result_of(by_confluent.describe_topics(confluent_kafka.TopicCollection([name])))
    assert [(each.id, each.leader.id) for each in described.partitions] == [(0, 1), (1, 1), (2, 1)]
    assert name in by_confluent.list_topics(timeout=LIMIT).topics

    result_of(by_confluent.delete_topics([name]))
    assert name not in by_confluent.list_topics(timeout=LIMIT).topics
    with pytest.raises(confluent_kafka.KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        result_of(by_confluent.delete_topics([name]))


def test_confluent_changes_configs(by_confluent: confluent.AdminClient, filled: str) -> None:
    def resource(*entries: confluent.ConfigEntry) -> confluent.ConfigResource:
        return confluent.ConfigResource(confluent.ResourceType.TOPIC, filled, incremental_configs=list(entries) or None)

    operations = confluent.AlterConfigOpType
    set_retention = confluent.ConfigEntry("retention.ms", "7000", incremental_operation=operations.SET)
    append = confluent.ConfigEntry("cleanup.policy", "compact", incremental_operation=operations.APPEND)
    result_of(by_confluent.incremental_alter_configs([resource(set_retention, append)]))
    found = result_of(by_confluent.describe_configs([resource()]))
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("7000", "delete,compact")
    assert (found["retention.ms"].is_default, found["segment.bytes"].is_default) == (False, True)

    wrong = confluent.ConfigEntry("retention.ms", "soon", incremental_operation=operations.SET)
    with pytest.raises(confluent_kafka.KafkaException, match="INVALID_CONFIG"):
        result_of(by_confluent.incremental_alter_configs([resource(wrong)]))


def test_confluent_manages_records_groups_and_offsets(by_confluent: confluent.AdminClient, filled: str) -> None:
    partition = confluent_kafka.TopicPartition(filled, 0)
    at_start, at_end = confluent.OffsetSpec.earliest(), confluent.OffsetSpec.latest()
    result_of(by_confluent.delete_records([confluent_kafka.TopicPartition(filled, 0, 4)]))
    assert result_of(by_confluent.list_offsets({partition: at_start})).offset == 4
    assert result_of(by_confluent.list_offsets({partition: at_end})).offset == 10

    listed = by_confluent.list_consumer_groups().result(LIMIT)
    assert filled in [group.group_id for group in listed.valid]
    described = result_of(by_confluent.describe_consumer_groups([filled]))
    assert (described.state, described.members) == (confluent_kafka.ConsumerGroupState.EMPTY, [])

    asked = confluent_kafka.ConsumerGroupTopicPartitions(filled)
    (found,) = result_of(by_confluent.list_consumer_group_offsets([asked])).topic_partitions
    assert found.offset == 7
    wanted = [confluent_kafka.TopicPartition(filled, 0, 5)]
    altered = confluent_kafka.ConsumerGroupTopicPartitions(filled, wanted)
    result_of(by_confluent.alter_consumer_group_offsets([altered]))
    (found,) = result_of(by_confluent.list_consumer_group_offsets([asked])).topic_partitions
    assert found.offset == 5

    result_of(by_confluent.delete_consumer_groups([filled]))
    with pytest.raises(confluent_kafka.KafkaException, match="GROUP_ID_NOT_FOUND"):
        result_of(by_confluent.delete_consumer_groups([filled]))


def test_confluent_describes_the_cluster(by_confluent: confluent.AdminClient, bootstrap: str) -> None:
    cluster = by_confluent.describe_cluster().result(LIMIT)

    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, bootstrap)]
    assert cluster.controller.id == 1


# --- kafka-python


@pytest.fixture
def by_kafka_python(bootstrap: str) -> Iterator[Any]:
    with contextlib.closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        yield admin


def test_kafka_python_creates_describes_widens_and_deletes_a_topic(by_kafka_python: Any, name: str) -> None:
    new = {name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "5000"}}}
    by_kafka_python.create_topics(new)
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        by_kafka_python.create_topics(new)

    by_kafka_python.create_partitions({name: 3})
    (described,) = by_kafka_python.describe_topics([name])
    assert sorted(each["partition_index"] for each in described["partitions"]) == [0, 1, 2]
    assert name in by_kafka_python.list_topics()

    by_kafka_python.delete_topics([name])
    assert name not in by_kafka_python.list_topics()
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        by_kafka_python.delete_topics([name])


def test_kafka_python_changes_configs(by_kafka_python: Any, filled: str) -> None:
    resource = kafka.admin.ConfigResource
    by_kafka_python.alter_configs([resource("TOPIC", filled, configs={"retention.ms": "7000"})])

    described = by_kafka_python.describe_configs([resource("TOPIC", filled)])
    assert described["topic"][filled]["retention.ms"]["value"] == "7000"
    refused = by_kafka_python.alter_configs([resource("TOPIC", filled, configs={"retention.ms": "soon"})])
    assert "InvalidConfigurationError" in refused["topic"][filled]


def test_kafka_python_manages_records_groups_and_offsets(by_kafka_python: Any, filled: str) -> None:
    partition = kafka.TopicPartition(filled, 0)
    by_kafka_python.delete_records({partition: 4})
    assert by_kafka_python.list_partition_offsets({partition: -2})[partition].offset == 4
    assert by_kafka_python.list_partition_offsets({partition: -1})[partition].offset == 10

    assert filled in [group["group_id"] for group in by_kafka_python.list_groups()]
    described = by_kafka_python.describe_groups([filled])
    assert described[filled]["group_state"] == "Empty"

    assert by_kafka_python.list_group_offsets(filled)[filled][partition].offset == 7
    by_kafka_python.alter_group_offsets(filled, {partition: kafka.OffsetAndMetadata(5, "note", -1)})
    found = by_kafka_python.list_group_offsets(filled)[filled][partition]
    assert (found.offset, found.metadata) == (5, "note")
    by_kafka_python.delete_group_offsets(filled, [partition])
    assert partition not in by_kafka_python.list_group_offsets(filled)[filled]

    by_kafka_python.alter_group_offsets(filled, {partition: kafka.OffsetAndMetadata(5, "", -1)})
    by_kafka_python.delete_groups([filled])
    assert filled not in [group["group_id"] for group in by_kafka_python.list_groups()]


def test_kafka_python_describes_the_cluster_and_its_disk(by_kafka_python: Any, filled: str, bootstrap: str) -> None:
    cluster = by_kafka_python.describe_cluster()
    assert [(each["broker_id"], f"{each['host']}:{each['port']}") for each in cluster["brokers"]] == [(1, bootstrap)]

    (described,) = by_kafka_python.describe_log_dirs([filled])
    assert described["broker"] == 1


# --- aiokafka

Steps = Callable[[aiokafka.admin.AIOKafkaAdminClient], Coroutine[Any, Any, None]]


@pytest.fixture
def by_aiokafka(bootstrap: str) -> Callable[[Steps], None]:
    def run(steps: Steps) -> None:
        async def started() -> None:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                await steps(admin)
            finally:
                await admin.close()

        asyncio.run(started())

    return run


def test_aiokafka_creates_describes_widens_and_deletes_a_topic(by_aiokafka: Callable[[Steps], None], name: str) -> None:
    async def steps(admin: aiokafka.admin.AIOKafkaAdminClient) -> None:
        new = aiokafka.admin.NewTopic(name, 2, 1, topic_configs={"retention.ms": "5000"})
        assert [error for _, error, _ in (await admin.create_topics([new])).topic_errors] == [0]
        assert [error for _, error, _ in (await admin.create_topics([new])).topic_errors] == [36]

        await admin.create_partitions({name: aiokafka.admin.NewPartitions(3)})
        (described,) = await admin.describe_topics([name])
        assert sorted(each["partition"] for each in described["partitions"]) == [0, 1, 2]
        assert name in await admin.list_topics()

        assert (await admin.delete_topics([name])).topic_error_codes == [(name, 0)]
        assert name not in await admin.list_topics()
        assert (await admin.delete_topics([name])).topic_error_codes == [(name, 3)]

    by_aiokafka(steps)


def test_aiokafka_changes_configs(by_aiokafka: Callable[[Steps], None], filled: str) -> None:
    async def steps(admin: aiokafka.admin.AIOKafkaAdminClient) -> None:
        changed = AiokafkaResource(AiokafkaResourceType.TOPIC, filled, configs={"retention.ms": "7000"})
        (altered,) = await admin.alter_configs([changed])
        assert [resource[0] for resource in altered.resources] == [0]

        asked = AiokafkaResource(AiokafkaResourceType.TOPIC, filled, configs={"retention.ms": None})
        (described,) = await admin.describe_configs([asked])
        ((error, _, _, found, entries),) = described.resources
        assert (error, found) == (0, filled)
        assert [entry[:2] for entry in entries] == [("retention.ms", "7000")]

    by_aiokafka(steps)


def test_aiokafka_manages_records_groups_and_offsets(by_aiokafka: Callable[[Steps], None], filled: str) -> None:
    partition = aiokafka.TopicPartition(filled, 0)

    async def steps(admin: aiokafka.admin.AIOKafkaAdminClient) -> None:
        deleted = await admin.delete_records({partition: aiokafka.admin.RecordsToDelete(4)})
        assert deleted == {partition: 4}

        assert (filled, "consumer") in [group[:2] for group in await admin.list_consumer_groups()]
        (described,) = await admin.describe_consumer_groups([filled])
        assert [(group[0], group[1], group[2]) for group in described.groups] == [(0, filled, "Empty")]
        offsets = await admin.list_consumer_group_offsets(filled)
        assert {each: found.offset for each, found in offsets.items()} == {partition: 7}

    by_aiokafka(steps)
