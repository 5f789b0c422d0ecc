"""The consumer protocol of KIP-848 with clients and tools of others, and compared with Apache Kafka.

The comparison sends the same requests to Apache Kafka and to us; the answers must be the same, but for the words of
error messages, and for the epoch that a new group begins with, which is 1 here and 2 there: epochs are counted from it.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer

from runnel import Broker
from runnel.protocol.versions import Api
from tests.interop.java_tools import Verifiables, succeeds, table
from tests.interop.kafka_distribution import java_command, java_environment
from tests.interop.kafka_server import kafka_server
from tests.interop.python_clients import LIBRARIES, Member, Membership
from tests.unit.broker.groups.stage import subscription
from tests.unit.broker.groups.test_like_kafka import World

LIMIT = 60.0
GROUPS = "consumer.group.ConsumerGroupCommand"
TOPIC = "orders"
SETTINGS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}

PATIENT = SETTINGS | {"group.consumer.session.timeout.ms": "45000"}  # with members that send no heartbeats of their own

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"node.id": 1, **SETTINGS}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic with four partitions and 40 records."""
    name = f"topic-{next(numbers)}"
    broker.create_topic(name, 4)
    fill(broker.bootstrap, name, 40)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(numbers)}"


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 4)
    assert producer.flush(LIMIT) == 0


class Reader:
    """confluent-kafka with the consumer protocol."""

    def __init__(self, bootstrap: str, group: str, *topics: str, **more: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self.consumer = Consumer(settings | {name.replace("_", "."): value for name, value in more.items()})
        self.consumer.subscribe(list(topics))
        self.values: list[bytes] = []

    def poll(self) -> None:
        for message in self.consumer.consume(100, 0.05):
            assert message.error() is None, message.error()
            self.values.append(message.value())

    @property
    def has(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}


@contextmanager
def reading(*readers: Reader) -> Iterator[None]:
    with ExitStack() as stack:
        for reader in readers:
            stack.callback(reader.consumer.close)
        yield


def until(done: Callable[[], bool], *readers: Reader | Member) -> None:
    deadline = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < deadline, [getattr(reader, "has", None) for reader in readers]
        for reader in readers:
            reader.poll()


def partitions(topic: str, count: int = 4) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(count)}


# --- confluent-kafka


def test_a_group_shares_a_topic_and_reads_everything(broker: Broker, topic: str, group: str) -> None:
    ann, bob = (Reader(broker.bootstrap, group, topic) for _ in range(2))
    with reading(ann, bob):
        until(lambda: len(ann.has) == len(bob.has) == 2, ann, bob)
        assert ann.has | bob.has == partitions(topic)
        # The first to come may have read, without a commit, what then went to the other: some values come twice.
        until(lambda: {int(value) for value in ann.values + bob.values} == set(range(40)), ann, bob)


def test_a_member_that_leaves_is_replaced(broker: Broker, topic: str, group: str) -> None:
    ann, bob = (Reader(broker.bootstrap, group, topic) for _ in range(2))
    with reading(bob):
        until(lambda: len(ann.has) == len(bob.has) == 2, ann, bob)
        ann.consumer.close()
        until(lambda: bob.has == partitions(topic), bob)


def test_a_commit_goes_on_with_the_next_member(broker: Broker, topic: str, group: str) -> None:
    ann = Reader(broker.bootstrap, group, topic)
    until(lambda: len(ann.values) == 40, ann)
    ann.consumer.commit(asynchronous=False)
    ann.consumer.close()
    fill(broker.bootstrap, topic, 4)
    bob = Reader(broker.bootstrap, group, topic)
    with reading(bob):
        until(lambda: len(bob.values) == 4, bob)


def test_topics_are_described_by_a_regular_expression(broker: Broker, group: str) -> None:
    prefix = f"described-{next(numbers)}"
    broker.create_topic(f"{prefix}-a", 1)
    ann = Reader(broker.bootstrap, group, f"^{prefix}-.*")
    with reading(ann):
        until(lambda: ann.has == {(f"{prefix}-a", 0)}, ann)
        broker.create_topic(f"{prefix}-b", 2)
        until(lambda: ann.has == {(f"{prefix}-a", 0), *partitions(f"{prefix}-b", 2)}, ann)


def test_an_expression_that_is_none_is_an_error_for_the_application(broker: Broker, group: str) -> None:
    ann = Reader(broker.bootstrap, group, "^a{1001}")  # librdkafka takes it
    with reading(ann):
        deadline = time.monotonic() + LIMIT
        while (message := ann.consumer.poll(1.0)) is None:
            assert time.monotonic() < deadline
        error = message.error()
        assert error is not None
        assert error.code() == confluent_kafka.KafkaError._FATAL
        assert "regular expression is not valid" in error.str()


def test_a_static_member_comes_back_to_what_it_had(broker: Broker, topic: str, group: str) -> None:
    ann, bob = (Reader(broker.bootstrap, group, topic, group_instance_id=name) for name in ("ann", "bob"))
    with reading(bob):
        until(lambda: len(ann.has) == len(bob.has) == 2, ann, bob)
        had = ann.has
        ann.consumer.close()
        again = Reader(broker.bootstrap, group, topic, group_instance_id="ann")
        with reading(again):
            until(lambda: again.has == had, again, bob)
            assert len(bob.has) == 2


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_choose_an_assignor(broker: Broker, topic: str, group: str, assignor: str) -> None:
    readers = [Reader(broker.bootstrap, group, topic, group_remote_assignor=assignor) for _ in range(2)]
    with reading(*readers):
        until(lambda: sorted(len(reader.has) for reader in readers) == [2, 2], *readers)
        if assignor == "range":
            assert {frozenset(number for _, number in reader.has) for reader in readers} == {
                frozenset({0, 1}),
                frozenset({2, 3}),
            }


# --- from one protocol to the other


@pytest.mark.parametrize("library", ["confluent", "aiokafka", "kafka-python"])
def test_a_group_changes_to_the_consumer_protocol_and_back(
    broker: Broker, topic: str, group: str, library: str
) -> None:
    membership = Membership(group, (topic,), session=6_000)
    with ExitStack() as stack:
        old = stack.enter_context(LIBRARIES[library].member(broker.bootstrap, membership))
        until(lambda: old.assignment() == partitions(topic), old)
        new = Reader(broker.bootstrap, group, topic)
        with reading(new):
            until(lambda: len(new.has) == 2 and len(old.assignment()) == 2, old, new)
            assert new.has | old.assignment() == partitions(topic)
        until(lambda: old.assignment() == partitions(topic), old)  # the last of the other protocol has left


def test_all_members_change_one_after_the_other(broker: Broker, topic: str, group: str) -> None:
    membership = Membership(group, (topic,), session=6_000)
    old = [LIBRARIES["confluent"].member(broker.bootstrap, membership) for _ in range(2)]
    with ExitStack() as stack:
        members: list[Any] = [stack.enter_context(each) for each in old]
        first, second = members
        until(lambda: len(first.assignment()) == len(second.assignment()) == 2, *members)
        ann = Reader(broker.bootstrap, group, topic)
        with reading(ann):
            until(lambda: bool(ann.has), ann, *members)
            first.close()
            until(lambda: len(ann.has) == 2 and len(second.assignment()) == 2, ann, second)
            second.close()
            until(lambda: ann.has == partitions(topic), ann)
            assert {int(value) for value in ann.values} <= set(range(40))


# --- Java


@pytest.mark.servers
def test_verifiable_consumers_share_and_take_over(broker: Broker, topic: str, group: str) -> None:
    member = ("VerifiableConsumer", "--topic", topic, "--group-id", group, "--group-protocol", "consumer")
    with Verifiables(broker.bootstrap) as tools:
        ann = tools.start(*member)
        tools.wait_for(lambda: len(ann.assigned) == 4)
        bob = tools.start(*member)
        tools.wait_for(lambda: len(ann.assigned) == len(bob.assigned) == 2)
        rows = table(succeeds(broker.bootstrap, GROUPS, "--describe", "--group", group, "--state"))
        assert (rows[0]["STATE"], rows[0]["#MEMBERS"]) == ("Stable", "2")
        told = succeeds(broker.bootstrap, GROUPS, "--describe", "--group", group, "--members", "--verbose")
        assert len([line for line in told.splitlines() if line.startswith(group)]) == 2
        listed = succeeds(broker.bootstrap, GROUPS, "--list", "--type", "consumer", "--state", "stable")
        assert group in listed
        ann.kill()
        tools.wait_for(lambda: len(bob.assigned) == 4)
        tools.wait_for(lambda: ann.consumed + bob.consumed >= 40)


@pytest.mark.servers
def test_kafka_features_shows_group_version(broker: Broker) -> None:
    told = succeeds(broker.bootstrap, "FeatureCommand", "describe")
    line = next(line for line in told.splitlines() if "group.version" in line and "share" not in line)
    assert "FinalizedVersionLevel: 1" in line


@pytest.mark.servers
def test_kafka_configs_sets_a_groups_configuration(broker: Broker, group: str) -> None:
    tool = ("kafka.admin.ConfigCommand", "--entity-type", "groups", "--entity-name", group)
    succeeds(broker.bootstrap, *tool, "--alter", "--add-config", "consumer.heartbeat.interval.ms=300")
    assert "consumer.heartbeat.interval.ms=300" in succeeds(broker.bootstrap, *tool, "--describe")


@pytest.mark.servers
def test_kafka_reads_our_records(tmp_path: Path) -> None:
    """DumpLogSegments decodes each kind of record of a consumer group, of both protocols."""
    data = tmp_path / "data"
    with Broker(data, settings=SETTINGS) as broker:
        broker.create_topic(TOPIC, 2)
        world = World(broker.bootstrap)
        heartbeat(world, "ann", 0, subscribed_topic_regex="or.*", instance_id="one", rack_id="r1")
        until_stable(world)
        join_classic(world, "bob")
        heartbeat(world, "ann", -1, instance_id="one")
        world.close()
    (log,) = (data / "__consumer_offsets-0").glob("*.log")
    decoding = ("--offsets-decoder", "--files", str(log))
    command = java_command("org.apache.kafka.tools.DumpLogSegments", *decoding)
    dump = subprocess.run(command, env=java_environment(), capture_output=True, text=True, check=True)
    told = dump.stdout
    for kind, part in (
        ("3", '"epoch"'),
        ("5", '"subscribedTopicRegex":"or.*"'),
        ("5", '"classicMemberMetadata":{"sessionTimeoutMs":30000'),
        ("6", '"assignmentEpoch"'),
        ("7", '"topicPartitions"'),
        ("8", '"assignmentEpochs"'),
        ("16", '"topics":["orders"]'),
        ("2", '"protocolType":"consumer"'),
    ):
        lines = [line for line in told.splitlines() if f'"type":"{kind}"' in line]
        assert any(part in line for line in lines), (kind, part, lines)


# --- the same requests to Apache Kafka and to us


ANN = "!ann"  # before all ids that brokers make, so that ranges are given in the same order
EPOCHS = ("member_epoch", "group_epoch", "assignment_epoch", "generation_id")
FIRST_EPOCHS: dict[World, int] = {}  # of the group of each world


def wish(world: World, member: str, epoch: int, **more: Any) -> dict[str, Any]:
    joins = epoch == 0
    fields = {
        "group_id": more.pop("group", world.group),
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 30_000 if joins else -1,
        "subscribed_topic_names": [TOPIC] if joins else None,
        "subscribed_topic_regex": None,
        "server_assignor": "range" if joins else None,
        "topic_partitions": [] if joins else None,
    }
    return fields | more


def epoch_in(world: World, epoch: int) -> int:
    """The epoch that is so many after the first, less one."""
    return epoch + FIRST_EPOCHS.get(world, 1) - 1 if epoch > 0 else epoch


def heartbeat(world: World, member: str, epoch: int, **more: Any) -> dict[str, Any]:
    version = more.pop("version", 1)
    answer = world.quietly(Api.CONSUMER_GROUP_HEARTBEAT, version, **wish(world, member, epoch_in(world, epoch), **more))
    note(world, f"{member} {epoch} {sorted(more)}", answer)
    return answer


def note(world: World, label: str, answer: dict[str, Any]) -> None:
    """Without the words of errors, which are ours, and with epochs that are counted from the first."""
    world.note(label, comparable(answer, FIRST_EPOCHS.get(world, 1), world._names))


def comparable(value: Any, first: int, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        kept = {key: comparable(each, first, names) for key, each in value.items() if key != "error_message"}
        return {key: each - first + 1 if key in EPOCHS and each > 0 else each for key, each in kept.items()}
    return [comparable(each, first, names) for each in value] if isinstance(value, list | tuple) else value


def begin(world: World, member: str, **more: Any) -> None:
    """The first member of a new group joins: its epoch is the first."""
    answer = world.quietly(Api.CONSUMER_GROUP_HEARTBEAT, 1, **wish(world, member, 0, **more))
    FIRST_EPOCHS[world] = answer["member_epoch"]
    note(world, f"{member} begins", answer)


def owned(world: World, *partitions: int) -> dict[str, Any]:
    return {"topic_partitions": [{"topic_id": world.topic_id, "partitions": list(partitions)}] if partitions else []}


def look(world: World, group: str | None = None) -> None:
    group = world.group if group is None else group
    for version in (0, 1):
        asked = {"group_ids": [group], "include_authorized_operations": version == 1}
        note(world, f"described {version}", world.quietly(Api.CONSUMER_GROUP_DESCRIBE, version, **asked))
    for version in (5, 6):
        asked = {"groups": [group], "include_authorized_operations": False}
        note(world, f"as classic {version}", world.quietly(Api.DESCRIBE_GROUPS, version, **asked))
    listed = world.quietly(Api.LIST_GROUPS, 5, states_filter=[], types_filter=["consumer"])
    own = [each for each in listed["groups"] if each["group_id"] == world.group]  # the others' are of other scenarios
    note(world, "listed", listed | {"groups": own})


def commit(world: World, member: str, epoch: int, partition: int = 0, version: int = 9) -> None:
    asked = {
        "partition_index": partition,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    fields = {
        "group_id": world.group,
        "generation_id_or_member_epoch": epoch_in(world, epoch),
        "member_id": member,
        "group_instance_id": None,
        "retention_time": -1,
        "topics": [{"name": TOPIC, "topic_id": world.topic_id, "partitions": [asked]}],
    }
    note(world, f"somebody commits {epoch} {partition} {version}", world.quietly(Api.OFFSET_COMMIT, version, **fields))


def commit_in_transaction(world: World, version: int, *commits: tuple[str, int, tuple[int, ...]]) -> None:
    """Commits by member, epoch and partitions, all in one transaction, which is aborted in the end."""
    name = f"t{version}"
    made = initialised(world, name, 4 if version < 5 else 5)
    who = {"transactional_id": name, "producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
    if version < 5:
        added = world.quietly(Api.ADD_OFFSETS_TO_TXN, 3, group_id=world.group, **who)
        assert not added["error_code"], added
    for member, epoch, numbers in commits:
        place = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
        fields = {
            "group_id": world.group,
            "generation_id": epoch_in(world, epoch),
            "member_id": member,
            "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [place | {"partition_index": number} for number in numbers]}],
        }
        answer = world.quietly(Api.TXN_OFFSET_COMMIT, version, **who, **fields)
        note(world, f"{member} commits {epoch} {numbers} {version}", answer)
    ended = world.quietly(Api.END_TXN, 3 if version < 5 else 5, committed=False, **who)
    assert not ended["error_code"], ended


def initialised(world: World, name: str, version: int) -> dict[str, Any]:
    """A producer's id and epoch, as soon as there is a coordinator: Kafka makes its topic first."""
    deadline = time.monotonic() + LIMIT
    asked = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    asked |= {"enable2_pc": False, "keep_prepared_txn": False}
    while True:
        world.quietly(Api.FIND_COORDINATOR, 6, key_type=1, coordinator_keys=[name])
        answer = world.quietly(Api.INIT_PRODUCER_ID, version, **asked)
        if not answer["error_code"]:
            return answer
        assert time.monotonic() < deadline, answer


def fetch(world: World, member: str | None, epoch: int) -> None:
    asked = {"group_id": world.group, "member_id": member, "member_epoch": epoch_in(world, epoch), "topics": None}
    answer = world.quietly(Api.OFFSET_FETCH, 9, groups=[asked], require_stable=False)
    note(world, f"{member} fetches {epoch}", answer)


def join_classic(world: World, name: str, **more: Any) -> dict[str, Any]:
    fields = {
        "group_id": world.group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": more.pop("member_id", ""),
        "group_instance_id": more.pop("instance", None),
        "protocol_type": more.pop("protocol_type", "consumer"),
        "protocols": [{"name": "range", "metadata": more.pop("metadata", subscription(TOPIC))}],
        "reason": None,
    }
    answer = world.quietly(Api.JOIN_GROUP, 9, **fields)
    if answer["member_id"]:
        world.call(answer["member_id"], name)
    note(world, f"{name} joins", answer)
    if answer["error_code"] == 79:
        return join_classic(world, name, member_id=answer["member_id"])
    return answer


def sync_classic(world: World, name: str, joined: dict[str, Any], assignment: bytes | None = None) -> None:
    given = [] if assignment is None else [{"member_id": joined["member_id"], "assignment": assignment}]
    fields = {
        "group_id": world.group,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": given,
    }
    note(world, f"{name} syncs", world.quietly(Api.SYNC_GROUP, 5, **fields))


def beat_classic(world: World, name: str, joined: dict[str, Any], **more: Any) -> None:
    fields = {
        "group_id": world.group,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "group_instance_id": None,
    }
    note(world, f"{name} beats {sorted(more)}", world.quietly(Api.HEARTBEAT, 4, **fields | more))


def until_stable(world: World) -> None:
    """Send ann's heartbeats until she has partitions; how many it takes is not noted."""
    deadline = time.monotonic() + LIMIT
    while True:
        asked = {"group_ids": [world.group], "include_authorized_operations": False}
        (group,) = world.quietly(Api.CONSUMER_GROUP_DESCRIBE, 1, **asked)["groups"]
        (ann,) = (each for each in group["members"] if each["member_id"] == "ann")
        if ann["assignment"]["topic_partitions"] and group["group_state"] == "Stable":
            return
        assert time.monotonic() < deadline, group
        fields = {
            "group_id": world.group,
            "member_id": "ann",
            "member_epoch": ann["member_epoch"],
            "instance_id": ann["instance_id"],
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        }
        world.quietly(Api.CONSUMER_GROUP_HEARTBEAT, 1, **fields)


def rebalance(world: World) -> None:
    begin(world, "ann")
    look(world)
    heartbeat(world, "ann", 1, **owned(world, 0, 1))
    heartbeat(world, "bob", 0)
    look(world)
    heartbeat(world, "bob", 2, **owned(world))
    heartbeat(world, "ann", 1, **owned(world, 0, 1))
    look(world)
    heartbeat(world, "ann", 1)
    heartbeat(world, "bob", 2)
    commit(world, "ann", 1, 0)
    commit(world, "ann", 1, 1)
    heartbeat(world, "ann", 1, **owned(world, 0))
    heartbeat(world, "ann", 1, **owned(world, 0))  # the answer was lost
    heartbeat(world, "bob", 2, **owned(world))
    look(world)
    for member, epoch in (("ann", 1), ("ann", 2), ("ann", 3), ("bob", 1), ("eve", 2), ("", -1)):
        for partition in (0, 1):
            commit(world, member, epoch, partition)
        fetch(world, member, epoch)
    commit(world, "ann", 2, version=8)
    fetch(world, None, -1)
    heartbeat(world, "ann", 9, **owned(world, 0))
    heartbeat(world, "ann", 1, **owned(world, 0, 1))
    heartbeat(world, "eve", 1)
    heartbeat(world, "ann", 2, subscribed_topic_names=["other"])
    look(world)
    heartbeat(world, "ann", -1)
    heartbeat(world, "ann", -1)
    heartbeat(world, "bob", 3, **owned(world, 1))
    look(world)
    heartbeat(world, "bob", -1)
    look(world)
    commit(world, "", -1)
    note(world, "deleted", world.quietly(Api.DELETE_GROUPS, 2, groups_names=[world.group]))
    look(world)


def transactional_commits(world: World) -> None:
    begin(world, "ann")
    heartbeat(world, "bob", 0)
    heartbeat(world, "ann", 1, **owned(world, 0, 1))
    heartbeat(world, "ann", 1, **owned(world, 0))
    heartbeat(world, "bob", 2, **owned(world))
    whoever = [("ann", 2), ("ann", 1), ("ann", 3), ("ann", -1), ("bob", 2), ("bob", 1), ("eve", 2), ("", 2), ("", -1)]
    commits = [(member, epoch, (number,)) for member, epoch in whoever for number in (0, 1)]
    for version in (3, 4, 5):
        commit_in_transaction(world, version, *commits, ("ann", 1, (0, 1)))
    heartbeat(world, "bob", -1)
    commit_in_transaction(world, 5, ("bob", 2, (1,)))


def refusals(world: World) -> None:
    heartbeat(world, "ann", 5)
    heartbeat(world, "ann", -1)
    for more in (
        {"group": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"server_assignor": "mine"},
        {"subscribed_topic_regex": "("},
        {"member_id": ""},
    ):
        heartbeat(world, "ann", 0, **more)
    heartbeat(world, "ann", -2)
    heartbeat(world, "ann", -3)
    look(world)
    look(world, "")
    made = world.quietly(Api.CONSUMER_GROUP_HEARTBEAT, 0, **wish(world, "", 0, group="made"))
    assert made["member_id"]


def static_members(world: World) -> None:
    begin(world, "ann", instance_id="one")
    heartbeat(world, "bob", 0, instance_id="one")
    heartbeat(world, "bob", 1, instance_id="one")
    heartbeat(world, "ann", 1, instance_id="two")
    heartbeat(world, "ann", -2, instance_id="one")
    look(world)
    heartbeat(world, "ann", 1, instance_id="one", **owned(world, 0, 1))
    heartbeat(world, "bob", 0, instance_id="one")
    look(world)
    heartbeat(world, "ann", 1, instance_id="one")
    heartbeat(world, "ann", -1, instance_id="one")
    heartbeat(world, "bob", -1, instance_id="one")
    look(world)


def classic_members(world: World) -> None:
    begin(world, ANN)
    bob = join_classic(world, "bob")
    sync_classic(world, "bob", bob)
    look(world)
    beat_classic(world, "bob", bob)
    beat_classic(world, "bob", bob, generation_id=9)
    beat_classic(world, "bob", bob, member_id="eve")
    beat_classic(world, "bob", bob, member_id=ANN)
    join_classic(world, "cid", protocol_type="connect")
    heartbeat(world, ANN, 1, **owned(world, 0, 1))
    heartbeat(world, ANN, 1, **owned(world, 0))
    beat_classic(world, "bob", bob)
    bob = join_classic(world, "bob", member_id=bob["member_id"])
    sync_classic(world, "bob", bob)
    beat_classic(world, "bob", bob)
    look(world)
    commit(world, bob["member_id"], 2, 1, version=8)
    commit(world, bob["member_id"], 9, 1)
    heartbeat(world, ANN, -1)
    look(world)
    beat_classic(world, "bob", bob)
    again = join_classic(world, "bob", member_id=bob["member_id"])
    sync_classic(world, "bob", again, b"")
    beat_classic(world, "bob", again)
    look(world)


def upgraded(world: World) -> None:
    bob = join_classic(world, "bob")
    assignment = (
        b"\x00\x03\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff"
    )
    sync_classic(world, "bob", bob, assignment)
    look(world)
    heartbeat(world, ANN, 0)
    look(world)
    beat_classic(world, "bob", bob)
    heartbeat(world, ANN, 2, **owned(world))
    who = {"member_id": bob["member_id"], "group_instance_id": None, "reason": None}
    note(world, "bob leaves", world.quietly(Api.LEAVE_GROUP, 5, group_id=world.group, members=[who]))
    heartbeat(world, ANN, 2, **owned(world))
    look(world)


def expressions(world: World) -> None:
    begin(world, "ann", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    until_stable(world)
    look(world)
    heartbeat(world, "ann", 2, subscribed_topic_regex="[", **owned(world, 0, 1))
    heartbeat(world, "ann", -1)


SCENARIOS = (rebalance, transactional_commits, refusals, static_members, classic_members, upgraded, expressions)


def played(bootstrap: str) -> dict[str, list[tuple[str, Any]]]:
    """What each scenario was told. They share a topic, and each has a group of its name."""
    topic_id = made_topic(bootstrap)
    transcripts = {}
    for scenario in SCENARIOS:
        world = World(bootstrap)
        world.topic_id, world.group = topic_id, scenario.__name__
        coordinator(world)
        try:
            scenario(world)
        finally:
            world.close()
        transcripts[world.group] = world.transcript
    return transcripts


def made_topic(bootstrap: str) -> UUID:
    topic = {
        "name": TOPIC,
        "num_partitions": 2,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    answer = World(bootstrap).quietly(Api.CREATE_TOPICS, 7, topics=[topic], timeout=30_000, validate_only=False)
    made = answer["topics"][0]["topic_id"]
    assert isinstance(made, UUID)
    return made


def coordinator(world: World) -> None:
    """Wait until there is one: Kafka makes its topic first."""
    deadline = time.monotonic() + LIMIT
    while True:
        found = world.quietly(Api.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[world.group])
        tried = world.quietly(
            Api.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[world.group], include_authorized_operations=False
        )
        if found["coordinators"][0]["error_code"] == 0 and tried["groups"][0]["error_code"] == 69:
            return
        assert time.monotonic() < deadline, (found, tried)


@pytest.mark.servers
def test_apache_kafka_answers_the_same(tmp_path: Path) -> None:
    with kafka_server(tmp_path / "kafka", PATIENT) as kafka:
        theirs = played(kafka.bootstrap)
    with Broker(settings={"node.id": 1, **PATIENT}) as broker:
        ours = played(broker.bootstrap)
    for scenario, answers in theirs.items():
        for mine, other in zip(ours[scenario], answers, strict=True):
            assert mine == other, scenario
