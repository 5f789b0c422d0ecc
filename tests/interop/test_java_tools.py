"""The tools that people use with Apache Kafka every day, from its own distribution, on our broker.

The tools for administrators are in test_admin_tools.py.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel import Broker
from runnel.protocol.versions import SERVED, Api
from runnel.records import Codec, batches_of
from tests.broker_wire import Wire, batch_of, fetch, produce, records_in
from tests.interop.java_tools import Verifiables, fails, succeeds, table

pytestmark = pytest.mark.servers

TOPICS = "TopicCommand"
GROUPS = "consumer.group.ConsumerGroupCommand"
CONSUMER = "consumer.ConsoleConsumer"
STRATEGY = "org.apache.kafka.clients.consumer"

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"node.id": 1, "group.min.session.timeout.ms": 1_000, "log.retention.ms": -1}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"topic-{next(numbers)}"
    broker.create_topic(name)
    return name


@pytest.fixture
def wide(broker: Broker) -> str:
    """A topic with four partitions."""
    name = f"topic-{next(numbers)}"
    broker.create_topic(name, 4)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(numbers)}"


def write(bootstrap: str, topic: str, lines: list[str], *arguments: str) -> None:
    succeeds(bootstrap, "ConsoleProducer", "--topic", topic, *arguments, stdin="".join(f"{each}\n" for each in lines))


def read(bootstrap: str, topic: str, count: int, *arguments: str) -> list[str]:
    told = succeeds(
        bootstrap,
        CONSUMER,
        *("--topic", topic, "--max-messages", str(count), "--timeout-ms", "60000", *arguments),
        stderr=f"Processed a total of {count} messages",
    )
    return told.splitlines()


# --- console producer and consumer


def test_the_console_consumer_reads_what_the_console_producer_wrote(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, ["one", "two", "three"])

    assert read(bootstrap, topic, 3, "--from-beginning") == ["one", "two", "three"]
    assert read(bootstrap, topic, 1, "--partition", "0", "--offset", "2") == ["three"]


def test_keys_headers_and_nulls_go_through_the_console(bootstrap: str, topic: str) -> None:
    parse = [f"--reader-property={each}" for each in ("parse.key=true", "parse.headers=true", "null.marker=NULL")]
    write(bootstrap, topic, ["trace:abc,flag:\tkey\tvalue", "NULL\tgone\tNULL"], *parse)

    shown = ("print.key", "print.headers", "print.offset", "print.partition")
    show = [f"--formatter-property={each}=true" for each in shown]
    assert read(bootstrap, topic, 2, "--from-beginning", *show) == [
        "Partition:0\tOffset:0\ttrace:abc,flag:\tkey\tvalue",
        "Partition:0\tOffset:1\tNO_HEADERS\tgone\tnull",
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_console_producer_compresses(bootstrap: str, topic: str, codec: str) -> None:
    write(bootstrap, topic, [f"line {number}" for number in range(200)], "--compression-codec", codec)

    with Wire(bootstrap) as wire:
        records = bytes(fetch(wire, topic)["records"])
    assert {header.codec for _, header in batches_of(records)} == {Codec[codec.upper()]}
    assert [record.value for record in records_in(records)] == [b"line %d" % number for number in range(200)]


def test_a_group_goes_on_where_it_was_and_kafka_consumer_groups_shows_it(bootstrap: str, wide: str, group: str) -> None:
    write(bootstrap, wide, [str(number) for number in range(50)])
    first = read(bootstrap, wide, 20, "--from-beginning", "--group", group)
    second = read(bootstrap, wide, 30, "--group", group)

    assert sorted(first + second, key=int) == [str(number) for number in range(50)]
    rows = table(succeeds(bootstrap, GROUPS, "--describe", "--group", group, stderr=no_members(group)))
    assert sum(int(row["CURRENT-OFFSET"]) for row in rows) == 50
    assert {row["LAG"] for row in rows} == {"0"}
    assert {row["TOPIC"] for row in rows} == {wide}


def no_members(group: str) -> str:
    return f"Consumer group '{group}' has no active members."


# --- kafka-topics


def test_kafka_topics_creates_lists_describes_alters_and_deletes(bootstrap: str) -> None:
    name = f"topics-{next(numbers)}"
    created = succeeds(
        bootstrap, TOPICS, "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert created.strip() == f"Created topic {name}."
    assert name in succeeds(bootstrap, TOPICS, "--list").splitlines()

    described, *partitions = succeeds(bootstrap, TOPICS, "--describe", "--topic", name).splitlines()
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=60000" in described
    assert [line.split("\t")[2:6] for line in partitions] == [
        [f"Partition: {number}", "Leader: 1", "Replicas: 1", "Isr: 1"] for number in range(3)
    ]

    succeeds(bootstrap, TOPICS, "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in succeeds(bootstrap, TOPICS, "--describe", "--topic", name)

    succeeds(bootstrap, TOPICS, "--delete", "--topic", name)
    assert name not in succeeds(bootstrap, TOPICS, "--list").splitlines()


def test_kafka_topics_says_what_is_wrong(bootstrap: str, topic: str) -> None:
    create = ("--create", "--topic")
    assert "TopicExistsException" in fails(bootstrap, TOPICS, *create, topic)
    assert "InvalidReplicationFactorException" in fails(bootstrap, TOPICS, *create, "new", "--replication-factor", "3")
    assert "InvalidPartitionsException" in fails(bootstrap, TOPICS, "--alter", "--topic", topic, "--partitions", "1")
    assert "Topic 'unknown' does not exist as expected" in fails(bootstrap, TOPICS, "--delete", "--topic", "unknown")


def test_kafka_topics_leaves_alone_what_is_as_it_should_be(bootstrap: str, topic: str) -> None:
    succeeds(bootstrap, TOPICS, "--create", "--if-not-exists", "--topic", topic)
    succeeds(bootstrap, TOPICS, "--delete", "--if-exists", "--topic", "unknown")
    assert succeeds(bootstrap, TOPICS, "--describe", "--under-replicated-partitions") == ""


# --- kafka-consumer-groups


@pytest.fixture
def ended(bootstrap: str, topic: str, group: str) -> str:
    """A group that has read ten records and has no member."""
    write(bootstrap, topic, [str(number) for number in range(10)])
    read(bootstrap, topic, 10, "--from-beginning", "--group", group)
    return group


def test_kafka_consumer_groups_resets_offsets(bootstrap: str, topic: str, ended: str) -> None:
    reset = ("--reset-offsets", "--group", ended, "--topic", topic)
    for where, expected in (
        (("--to-earliest",), "0"),
        (("--to-offset", "7"), "7"),
        (("--shift-by", "-2"), "5"),
        (("--by-duration", "PT1H"), "0"),
        (("--to-latest",), "10"),
    ):
        (row,) = table(succeeds(bootstrap, GROUPS, *reset, *where, "--execute"))
        assert row["NEW-OFFSET"] == expected
    succeeds(bootstrap, GROUPS, *reset, "--to-offset", "3", "--dry-run")
    (row,) = table(succeeds(bootstrap, GROUPS, "--describe", "--group", ended, stderr=no_members(ended)))
    assert (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == ("10", "10", "0")


def test_kafka_consumer_groups_deletes_offsets_and_groups(bootstrap: str, topic: str, ended: str) -> None:
    deleted = table(
        succeeds(bootstrap, GROUPS, "--delete-offsets", "--group", ended, "--topic", topic).split("\n", 1)[1]
    )
    assert [(row["TOPIC"], row["PARTITION"], row["STATUS"]) for row in deleted] == [(topic, "0", "Successful")]

    write(bootstrap, topic, ["again"])
    read(bootstrap, topic, 11, "--from-beginning", "--group", ended)
    assert ended in succeeds(bootstrap, GROUPS, "--list").splitlines()
    succeeds(bootstrap, GROUPS, "--delete", "--group", ended)
    assert ended not in succeeds(bootstrap, GROUPS, "--list").splitlines()


def test_kafka_consumer_groups_describes_members_and_states(bootstrap: str, wide: str, group: str) -> None:
    with Verifiables(bootstrap) as tools:
        member = tools.start("VerifiableConsumer", "--topic", wide, "--group-id", group)
        tools.wait_for(lambda: len(member.assigned) == 4)
        describe = ("--describe", "--group", group)

        (state,) = table(succeeds(bootstrap, GROUPS, *describe, "--state"))
        assert (state["GROUP"], state["ASSIGNMENT-STRATEGY"]) == (group, "range")
        assert " Stable " in succeeds(bootstrap, GROUPS, *describe, "--state")
        (told,) = table(succeeds(bootstrap, GROUPS, *describe, "--members", "--verbose"))
        assert told["GROUP"] == group
        assert told["HOST"] == "/127.0.0.1"
        assert told["#PARTITIONS"] == "4"
        offsets = table(succeeds(bootstrap, GROUPS, *describe, "--offsets"))
        assert [row["PARTITION"] for row in offsets] == ["0", "1", "2", "3"]
        assert {row["CONSUMER-ID"] for row in offsets} == {told["CONSUMER-ID"]}

        listed = table(succeeds(bootstrap, GROUPS, "--list", "--state", "stable"))
        assert [row["STATE"] for row in listed if row["GROUP"] == group] == ["Stable"]
        assert "GroupNotEmptyException" in succeeds(bootstrap, GROUPS, "--delete", "--group", group)


# --- kafka-get-offsets, kafka-delete-records, kafka-configs, kafka-broker-api-versions


def test_kafka_delete_records_moves_the_start_that_kafka_get_offsets_tells(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    with Wire(bootstrap) as wire:
        produce(wire, topic, batch_of(*(b"%d" % number for number in range(10))))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))

    deleted = succeeds(bootstrap, "DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 4" in deleted
    for time, offset in (("earliest", 4), ("latest", 10), ("max-timestamp", 9), ("0", 4)):
        told = succeeds(bootstrap, "GetOffsetShell", "--topic", topic, "--time", time)
        assert told.strip() == f"{topic}:0:{offset}"
    assert read(bootstrap, topic, 6, "--from-beginning") == [str(number) for number in range(4, 10)]


def test_kafka_configs_holds_a_topic_to_what_it_was_told(bootstrap: str, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    succeeds(bootstrap, "kafka.admin.ConfigCommand", *entity, "--alter", "--add-config", "max.message.bytes=1000")

    write(bootstrap, topic, ["large " * 500])  # the console producer ends well whatever becomes of a record
    write(bootstrap, topic, ["small"])
    assert read(bootstrap, topic, 1, "--from-beginning") == ["small"]


def test_kafka_broker_api_versions_finds_all_that_is_served(bootstrap: str) -> None:
    told = succeeds(bootstrap, "BrokerApiVersionsCommand")

    assert told.startswith(f"{bootstrap} (id: 1 rack: null isFenced: false) -> (")
    served = {line.split("(")[1].split(")")[0]: line for line in told.splitlines()[1:] if "): " in line}
    for api, (_, most) in SERVED.items():
        assert f"to {most} [usable:" in served[str(int(api))] or f": {most} [usable:" in served[str(int(api))]
    assert "UNSUPPORTED" not in served[str(int(Api.PRODUCE))]


# --- verifiable producer and consumer


@pytest.mark.parametrize(
    "strategy", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]
)
def test_verifiable_consumers_share_take_over_and_read_everything(
    bootstrap: str, wide: str, group: str, strategy: str, tmp_path: Path
) -> None:
    everything = {(wide, number) for number in range(4)}
    (tmp_path / "client.properties").write_text("heartbeat.interval.ms=200\n")
    member = ("VerifiableConsumer", "--topic", wide, "--group-id", group)
    member += ("--command-config", str(tmp_path / "client.properties"))
    member += ("--reset-policy", "earliest", "--assignment-strategy", f"{STRATEGY}.{strategy}")
    session = "--session-timeout"  # long enough for a machine that starts three Javas
    produce = ("VerifiableProducer", "--topic", wide, "--max-messages")
    with Verifiables(bootstrap) as tools:
        stays = tools.start(*member, session, "30000")
        tools.wait_for(lambda: stays.assigned == everything)
        dies = tools.start(*member, session, "6000")
        tools.wait_for(lambda: len(stays.assigned) == len(dies.assigned) == 2)
        assert stays.assigned | dies.assigned == everything

        producer = tools.start(*produce, "500")
        tools.wait_for(lambda: stays.consumed + dies.consumed >= 500)
        tools.wait_for(lambda: bool(producer.named("tool_data")))
        (summary,) = producer.named("tool_data")
        assert (summary["sent"], summary["acked"]) == (500, 500)
        assert producer.named("producer_send_error") == []
        assert stays.consumed + dies.consumed == 500

        dies.kill()
        tools.wait_for(lambda: stays.assigned == everything)
        before = stays.consumed
        tools.start(*produce, "100")
        tools.wait_for(lambda: stays.consumed >= before + 100)
        tools.wait_for(lambda: len(stays.named("offsets_committed")) >= len(stays.named("records_consumed")))
        assert all(event["success"] for event in stays.named("offsets_committed"))


# --- performance tools and the compatibility test


def test_the_performance_tools_read_what_they_wrote(bootstrap: str, wide: str) -> None:
    wrote = succeeds(
        bootstrap,
        "ProducerPerformance",
        *("--topic", wide, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "acks=all", "compression.type=lz4"),
    )
    assert "20000 records sent" in wrote
    told = succeeds(bootstrap, "ConsumerPerformance", "--topic", wide, "--num-records", "20000", "--timeout", "60000")
    assert told.splitlines()[-1].split(", ")[4] == "20000"


def test_the_compatibility_test_of_the_clients_succeeds(bootstrap: str, topic: str) -> None:
    supported = ("offsets-for-times", "cluster-id", "create-topics", "describe-configs", "idempotent-producer")
    told = succeeds(
        bootstrap,
        "ClientCompatibilityTest",
        *("--topic", topic, "--num-cluster-nodes", "1", "--expect-record-too-large-exception", "false"),
        *(word for each in supported for word in (f"--{each}-supported", "true")),
        *("--describe-acls-supported", "false"),
    )
    assert told.splitlines()[-1] == "SUCCESS."
