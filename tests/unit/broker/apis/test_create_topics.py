from pathlib import Path
from typing import Any

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, batch_of, create_topic, metadata, produce


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def topic_named(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()} | rest


def create(wire: Wire, *topics: dict[str, Any], version: int = 7, validate_only: bool = False) -> list[Message]:
    answer = wire.ask(Api.CREATE_TOPICS, version, topics=topics, timeout=30_000, validate_only=validate_only)
    found: list[Message] = answer["topics"]
    return found


def create_one(wire: Wire, name: str, **rest: Any) -> Message:
    (result,) = create(wire, topic_named(name, **rest))
    assert result["name"] == name
    return result


def partitions_of(wire: Wire, name: str) -> int | None:
    (found,) = metadata(wire, name)["topics"]
    return len(found["partitions"]) if not found["error_code"] else None


def configs(**values: str | None) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in values.items()]


# --- making


def test_a_topic_can_be_used_when_it_is_answered(wire: Wire, topic: str) -> None:
    result = create_one(wire, f"{topic}-new", num_partitions=3)
    assert code(result) == ErrorCode.NONE
    assert result["error_message"] is None
    assert (result["num_partitions"], result["replication_factor"]) == (3, 1)
    assert metadata(wire, f"{topic}-new")["topics"][0]["topic_id"] == result["topic_id"]
    assert produce(wire, f"{topic}-new", batch_of(b"a"), partition=2)["error_code"] == 0


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_makes_topics(wire: Wire, topic: str, version: int) -> None:
    (result,) = create(wire, topic_named(f"{topic}-v{version}", num_partitions=2), version=version)
    assert code(result) == ErrorCode.NONE
    assert partitions_of(wire, f"{topic}-v{version}") == 2


def test_topics_outlive_the_broker(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        made = create_one(wire, "orders", num_partitions=3, configs=configs(retention_ms="12345"))
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        assert partitions_of(wire, "orders") == 3
        assert metadata(wire, "orders")["topics"][0]["topic_id"] == made["topic_id"]
        assert code(create_one(wire, "orders")) == ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_numbers_can_be_left_to_the_broker() -> None:
    with Broker(settings={"num.partitions": 5}) as broker, Wire(broker.bootstrap) as wire:
        result = create_one(wire, "orders", num_partitions=-1, replication_factor=-1)
        assert (result["num_partitions"], result["replication_factor"]) == (5, 1)
        assert partitions_of(wire, "orders") == 5


def test_the_answer_has_the_configurations(wire: Wire, topic: str) -> None:
    result = create_one(wire, f"{topic}-new", configs=configs(retention_ms="12345"))
    found = {each["name"]: each for each in result["configs"]}
    assert found["retention.ms"]["value"] == "12345"
    assert found["retention.ms"]["config_source"] == 1  # the topic's own
    assert found["cleanup.policy"]["config_source"] != 1
    assert len(found) > 20


def test_with_validate_only_nothing_is_made(wire: Wire, topic: str) -> None:
    (result,) = create(wire, topic_named(f"{topic}-new", num_partitions=2), validate_only=True)
    assert (code(result), result["num_partitions"]) == (ErrorCode.NONE, 2)
    assert partitions_of(wire, f"{topic}-new") is None


def test_with_validate_only_mistakes_are_told(wire: Wire, topic: str) -> None:
    bad = topic_named("a b"), topic_named(topic), topic_named(f"{topic}-new", num_partitions=0)
    codes = {each["name"]: code(each) for each in create(wire, *bad, validate_only=True)}
    assert codes == {
        "a b": ErrorCode.INVALID_TOPIC,
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        f"{topic}-new": ErrorCode.INVALID_PARTITIONS,
    }


def test_each_topic_is_answered_on_its_own(wire: Wire, topic: str) -> None:
    results = create(wire, topic_named(f"{topic}-1"), topic_named(topic), topic_named(f"{topic}-2"))
    assert {each["name"]: code(each) for each in results} == {
        f"{topic}-1": ErrorCode.NONE,
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        f"{topic}-2": ErrorCode.NONE,
    }
    assert [partitions_of(wire, f"{topic}-{number}") for number in (1, 2)] == [1, 1]


def test_two_clients_that_make_the_same_topic_do_not_both_succeed(wire: Wire, other: Wire, topic: str) -> None:
    body = {"topics": [topic_named(f"{topic}-new")], "timeout": 30_000, "validate_only": False}
    sent = [(each, each.send(Api.CREATE_TOPICS, 7, **body)) for each in (wire, other)]
    codes = sorted(each.receive(request)["topics"][0]["error_code"] for each, request in sent)
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


# --- names


@pytest.mark.parametrize("name", ["a b", "a/b", "ü", "", ".", "..", "a" * 250, "a\n", "a:b"])
def test_a_name_that_no_topic_can_have_is_invalid(wire: Wire, name: str) -> None:
    result = create_one(wire, name)
    assert code(result) == ErrorCode.INVALID_TOPIC
    assert result["error_message"]


def test_the_name_that_kafka_keeps_for_itself_is_refused_and_not_made_by_asking_for_it(wire: Wire) -> None:
    result = create_one(wire, "__cluster_metadata")
    assert code(result) == ErrorCode.INVALID_REQUEST
    assert result["error_message"] == "the name '__cluster_metadata' is Apache Kafka's own"
    asked = {"topics": [{"topic_id": None, "name": "__cluster_metadata"}], "allow_auto_topic_creation": True}
    (told,) = wire.ask(Api.METADATA, 13, **asked, include_topic_authorized_operations=False)["topics"]
    assert (told["error_code"], told["partitions"]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_the_longest_name_is_taken(wire: Wire, topic: str) -> None:
    name = (topic + "-" * 249)[:249]
    assert code(create_one(wire, name)) == ErrorCode.NONE
    assert produce(wire, name, batch_of(b"a"))["error_code"] == 0


def test_names_that_differ_in_dots_and_underscores_only_collide(wire: Wire, topic: str) -> None:
    create_topic(wire, f"{topic}.with_dots")
    result = create_one(wire, f"{topic}_with.dots")
    assert code(result) == ErrorCode.INVALID_TOPIC
    assert f"{topic}.with_dots" in result["error_message"]


def test_a_topic_that_exists_is_not_made_again(wire: Wire, topic: str) -> None:
    result = create_one(wire, topic, num_partitions=7)
    assert code(result) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert topic in result["error_message"]
    assert partitions_of(wire, topic) == 1


def test_a_topic_that_is_named_twice_is_refused(wire: Wire, topic: str) -> None:
    results = create(wire, topic_named(f"{topic}-new"), topic_named(f"{topic}-other"), topic_named(f"{topic}-new"))
    codes = {(each["name"], code(each)) for each in results}
    assert codes == {(f"{topic}-new", ErrorCode.INVALID_REQUEST), (f"{topic}-other", ErrorCode.NONE)}
    assert partitions_of(wire, f"{topic}-new") is None


# --- numbers


@pytest.mark.parametrize("count", [0, -2, -100])
def test_a_topic_has_at_least_one_partition(wire: Wire, topic: str, count: int) -> None:
    assert code(create_one(wire, f"{topic}-new", num_partitions=count)) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_a_replica_needs_a_broker(wire: Wire, topic: str, factor: int) -> None:
    result = create_one(wire, f"{topic}-new", replication_factor=factor)
    assert code(result) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert partitions_of(wire, f"{topic}-new") is None


def test_a_lenient_broker_takes_any_replication_factor() -> None:
    with Broker(settings={"runnel.replication.factor.lenient": True}) as broker, Wire(broker.bootstrap) as wire:
        assert code(create_one(wire, "orders", replication_factor=3)) == ErrorCode.NONE
        assert metadata(wire, "orders")["topics"][0]["partitions"][0]["replica_nodes"] == [
            metadata(wire)["controller_id"]
        ]
        assert code(create_one(wire, "payments", replication_factor=0)) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_so_many_partitions_are_made_by_one_request_and_no_more(wire: Wire, topic: str) -> None:
    many = [topic_named(f"{topic}-1", num_partitions=9_999), topic_named(f"{topic}-2", num_partitions=2)]
    results = create(wire, *many, validate_only=True)
    assert ErrorCode.POLICY_VIOLATION in [code(each) for each in results]


# --- assignments


def assigned(*brokers: list[int], first: int = 0) -> dict[str, Any]:
    given = [{"partition_index": first + number, "broker_ids": ids} for number, ids in enumerate(brokers)]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": given}


def test_an_assignment_gives_the_number_of_partitions(wire: Wire, topic: str) -> None:
    node = metadata(wire)["controller_id"]
    result = create_one(wire, f"{topic}-new", **assigned([node], [node], [node]))
    assert (code(result), result["num_partitions"]) == (ErrorCode.NONE, 3)
    assert partitions_of(wire, f"{topic}-new") == 3


@pytest.mark.parametrize("brokers", [[77], [], [1, 77]])
def test_an_assignment_names_brokers_that_exist(wire: Wire, topic: str, brokers: list[int]) -> None:
    assert code(create_one(wire, f"{topic}-new", **assigned(brokers))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_numbers_the_partitions_from_0_on(wire: Wire, topic: str) -> None:
    node = metadata(wire)["controller_id"]
    result = create_one(wire, f"{topic}-new", **assigned([node], [node], first=1))
    assert code(result) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("numbers", [{"num_partitions": 1}, {"replication_factor": 1}])
def test_an_assignment_stands_instead_of_the_numbers(wire: Wire, topic: str, numbers: dict[str, int]) -> None:
    node = metadata(wire)["controller_id"]
    assert code(create_one(wire, f"{topic}-new", **assigned([node]) | numbers)) == ErrorCode.INVALID_REQUEST


# --- configurations


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.config", "1"),
        ("retention.ms", "soon"),
        ("cleanup.policy", "burn"),
        ("max.message.bytes", "-1"),
        ("retention.ms", None),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(wire: Wire, topic: str, name: str, value: str | None) -> None:
    result = create_one(wire, f"{topic}-new", configs=[{"name": name, "value": value}])
    assert code(result) == ErrorCode.INVALID_CONFIG
    assert name in result["error_message"]
    assert partitions_of(wire, f"{topic}-new") is None


def test_a_name_of_any_length_is_answered(wire: Wire, topic: str) -> None:
    """The message quotes it, and an old version's text has a length of two bytes."""
    huge = "c" * 32_767
    bad = topic_named(f"{topic}-new", configs=[{"name": huge, "value": "1"}])
    (result,) = create(wire, bad, version=4)
    assert code(result) == ErrorCode.INVALID_CONFIG
    assert result["error_message"]
