"""Topics, configs, offsets and sizes."""

from __future__ import annotations

import pytest

from runnel.client import (
    EARLIEST,
    LATEST,
    Admin,
    Groups,
    InvalidArgument,
    InvalidConfig,
    InvalidTopicName,
    Refused,
    Start,
    TopicExists,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    WrongPartitionCount,
)
from runnel.client.cluster import Cluster
from runnel.errors import Closed
from runnel.protocol.versions import Api
from tests.pipeline.waiting import wait_until

OF_TOPIC = 2  # a type of resources


def values(admin: Admin, topic: str) -> dict[str, str | None]:
    return {config.name: config.value for config in admin.configs([topic])[topic] if config.is_of_topic}


def become(admin: Admin, topic: str, expected: dict[str, str]) -> None:
    """Apache Kafka answers when its controller knows; the brokers hear of it a moment later."""
    wait_until(lambda: values(admin, topic) == expected, lambda: f"{values(admin, topic)} have become {expected}")


def test_the_cluster_knows_its_brokers(admin, bootstrap):
    cluster = admin.cluster()
    (broker,) = cluster.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap
    assert cluster.controller == broker.id
    assert cluster.id


def test_a_topic_is_created_listed_and_deleted(admin, name):
    admin.create(name, partitions=2)
    topic = admin.topic(name)
    assert [partition.number for partition in topic.partitions] == [0, 1]
    assert topic.internal is False
    assert topic in admin.topics()
    admin.delete(name)
    assert name not in [each.name for each in admin.topics()]


def test_a_topic_that_is_made_again_has_another_id(admin, name):
    admin.create(name)
    first = admin.topic(name).id
    admin.delete(name)
    admin.create(name)
    assert admin.topic(name).id != first
    admin.delete(name)


def test_what_is_not_given_is_up_to_the_broker(admin, name):
    admin.create(name)
    assert len(admin.topic(name).partitions) == 1
    admin.delete(name)


def test_a_topic_that_is_there_cannot_be_created(admin, topic):
    with pytest.raises(TopicExists, match=f'topic "{topic}" is there already'):
        admin.create(topic)


@pytest.mark.parametrize("wrong", ["", "a b", "grün", "..", "x" * 250])
def test_a_name_that_cannot_be_one_is_refused(admin, wrong):
    with pytest.raises(InvalidTopicName, match="cannot be the name of a topic"):
        admin.create(wrong)


@pytest.mark.parametrize("wrong", ["\udcff", "a\0b", ""], ids=["no text", "a NUL", "nothing"])
def test_a_name_that_librdkafka_cannot_take_is_refused(admin, wrong):
    for ask in (
        admin.topic,
        admin.create,
        admin.delete,
        admin.alter,
        lambda name: admin.configs([name]),
        lambda name: admin.offsets([(name, 0)], EARLIEST),
        lambda name: admin.stable_offsets([(name, 0)]),
        lambda name: admin.sizes([(name, 0)]),
        lambda name: admin.delete_records(name, {0: 0}),
        lambda name: Groups(admin).reset(name, {(name, 0): 0}),
    ):
        with pytest.raises((InvalidTopicName, UnknownGroup)):
            ask(wrong)


@pytest.mark.parametrize("wrong", ["\udcff", "5\0000"], ids=["no text", "a NUL"])
def test_a_config_that_librdkafka_cannot_take_is_refused(admin, topic, name, wrong):
    ask = [
        lambda configs: admin.create(f"{name}-other", configs=configs),
        lambda configs: admin.alter(topic, configs=configs),
        lambda configs: admin.alter(topic, unset=configs),
    ]
    for change in ask:
        with pytest.raises(InvalidArgument, match="cannot be the name of a config"):
            change({wrong: "5"})
    for change in ask[:2]:
        with pytest.raises(InvalidArgument, match=r"cannot be the value of retention\.ms"):
            change({"retention.ms": wrong})
    assert values(admin, topic) == {}


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_a_count_of_partitions_that_cannot_be_is_refused(admin, name, count):
    with pytest.raises(WrongPartitionCount, match=r"expected 1 to 100,000"):
        admin.create(name, partitions=count)


def test_more_replicas_than_brokers_are_refused(admin, name):
    with pytest.raises(Refused, match="ask for at most as many replicas as there are brokers"):
        admin.create(name, replication_factor=3)


def test_nothing_is_created_by_asking_for_it(admin, name):
    configs, alter = lambda topic: admin.configs([topic]), lambda topic: admin.alter(topic, unset=["retention.ms"])
    for ask in (admin.topic, admin.delete, configs, alter):
        with pytest.raises(UnknownTopic, match=f'there is no topic "{name}"'):
            ask(name)
    assert name not in [topic.name for topic in admin.topics()]


def test_partitions_can_be_added_and_not_removed(admin, topic):
    admin.add_partitions(topic, 3)
    assert len(admin.topic(topic).partitions) == 3
    for count in (2, 3):
        with pytest.raises(WrongPartitionCount, match=f'topic "{topic}" has 3 partitions, asked for {count}'):
            admin.add_partitions(topic, count)


# --- configs


def test_a_topic_can_be_named_twice(admin, topic):
    assert list(admin.configs([topic, topic])) == [topic]


def test_a_resource_that_is_named_twice_is_answered_twice(bootstrap, topic):
    """By the wire: librdkafka does not understand it."""
    resource = {"resource_type": OF_TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}
    with Cluster(bootstrap) as cluster:
        node = cluster.leader((topic, 0)).node
        answer = cluster.ask(node, Api.DESCRIBE_CONFIGS, {"resources": [resource, resource]}, "asking twice")
    assert [each["resource_name"] for each in answer["results"]] == [topic, topic]
    assert answer["results"][0]["configs"] == answer["results"][1]["configs"]
    assert [each["error_message"] for each in answer["results"]] == ["", ""]  # and not nothing at all


def test_configs_are_set_when_a_topic_is_created(admin, name):
    admin.create(name, configs={"retention.ms": "1000", "cleanup.policy": "compact"})
    assert values(admin, name) == {"retention.ms": "1000", "cleanup.policy": "compact"}
    admin.delete(name)


def test_altering_a_config_leaves_the_others(admin, topic):
    admin.alter(topic, configs={"retention.ms": "1000", "retention.bytes": "2000"})
    admin.alter(topic, configs={"retention.bytes": "3000"})
    become(admin, topic, {"retention.ms": "1000", "retention.bytes": "3000"})
    admin.alter(topic, configs={"segment.bytes": "1048576"}, unset=["retention.ms"])
    become(admin, topic, {"retention.bytes": "3000", "segment.bytes": "1048576"})


def test_every_config_has_a_value_and_a_source(admin, topic):
    configs = {config.name: config for config in admin.configs([topic])[topic]}
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("604800000", "DEFAULT_CONFIG")


@pytest.mark.parametrize(("config", "value"), [("retention.msx", "1"), ("retention.ms", "x"), ("retention.ms", "-2")])
def test_a_config_that_cannot_be_is_refused_and_changes_nothing(admin, topic, name, config, value):
    with pytest.raises(InvalidConfig, match=f'the broker refuses a config of topic "{topic}": .*{config}'):
        admin.alter(topic, configs={"retention.bytes": "5", config: value})
    assert values(admin, topic) == {}
    with pytest.raises(InvalidConfig):
        admin.create(f"{name}-new", configs={config: value})


# --- offsets and sizes


def test_offsets_by_place_and_by_time(admin, producer, kept):
    for number in range(5):
        producer.produce(kept, b"", timestamp=1_700_000_000_000 + number)
    admin.delete_records(kept, {0: 2})
    place = (kept, 0)
    starts = [EARLIEST, LATEST, Start.offset(3), Start.time(0), Start.time(1_700_000_000_004), Start.time(2**45)]
    assert [admin.offsets([place], start)[place] for start in starts] == [2, 5, 3, 2, 4, 5]


@pytest.mark.parametrize("start", [EARLIEST, LATEST, Start.time(0), Start.offset(0)])
def test_the_offsets_of_what_is_not_there_say_so(admin, topic, start):
    with pytest.raises(UnknownTopic, match='there is no topic "nowhere"'):
        admin.offsets([("nowhere", 0)], start)
    with pytest.raises(UnknownPartition, match=f'topic "{topic}" has no partition 9'):
        admin.offsets([(topic, 9)], start)
    with pytest.raises(UnknownPartition, match=f'topic "{topic}" has no partition 9'):
        admin.offsets([(topic, 0), (topic, 9)], start)


def test_a_record_that_comes_while_the_end_is_asked_for_belongs_to_the_time(admin, producer, kept, monkeypatch):
    """Whoever begins there would never see it."""
    ask = admin.offsets

    def record_comes(*asked):
        producer.produce(kept, b"x", timestamp=3_000)
        producer.flush()
        return ask(*asked)

    producer.produce(kept, b"x", timestamp=1_000)
    producer.flush()
    monkeypatch.setattr(admin, "offsets", record_comes)
    assert ask([(kept, 0)], Start.parse("1970-01-01T00:00:02Z", now=0)) == {(kept, 0): 1}


def test_the_records_of_what_is_not_there_cannot_be_deleted(admin, topic):
    with pytest.raises(UnknownTopic, match='there is no topic "nowhere"'):
        admin.delete_records("nowhere", {0: 1})
    with pytest.raises(UnknownPartition, match=f'topic "{topic}" has no partition 9'):
        admin.delete_records(topic, {9: 1})
    with pytest.raises(Refused, match="Offset out of range"):
        admin.delete_records(topic, {0: 1_000_000})


def test_a_closed_one_says_that_it_is(bootstrap):
    admin = Admin(bootstrap)
    admin.close()
    admin.close()
    for ask in (admin.cluster, admin.topics, lambda: admin.topic("t"), lambda: admin.offsets([("t", 0)], EARLIEST)):
        with pytest.raises(Closed, match="the admin client is closed"):
            ask()


def test_the_offsets_of_nothing_are_none(admin):
    assert admin.offsets([], LATEST) == {}


def test_sizes_grow_with_the_records(admin, producer, wide):
    for _ in range(10):
        producer.produce(wide, bytes(1_000), partition=1)
    places = [(wide, number) for number in range(3)]
    wait_until(lambda: len(admin.sizes(places)) == 3)  # Apache Kafka makes the files of a partition a moment later
    sizes = admin.sizes(places)
    assert sizes[wide, 0] == sizes[wide, 2] == 0
    assert 10_000 < sizes[wide, 1] < 20_000


def test_sizes_are_unknown_where_a_bare_socket_will_not_do(bootstrap, topic):
    with Admin(bootstrap) as admin:
        object.__setattr__(admin.connection, "settings", {"security.protocol": "SASL_SSL"})
        assert admin.sizes([(topic, 0)]) == {}
