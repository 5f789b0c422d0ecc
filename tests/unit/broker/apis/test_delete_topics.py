from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, batch_of, create_topic, fetch, metadata, produce, values_in
from tests.unit.broker.transactions.stage import Stage


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def delete(wire: Wire, *names: str, version: int = 6) -> list[Message]:
    topics = [{"name": name, "topic_id": None} for name in names]
    return delete_each(wire, *topics) if version == 6 else delete_named(wire, names, version)


def delete_named(wire: Wire, names: Any, version: int) -> list[Message]:
    responses: list[Message] = wire.ask(Api.DELETE_TOPICS, version, topic_names=names, timeout=30_000)["responses"]
    return responses


def delete_each(wire: Wire, *topics: dict[str, Any]) -> list[Message]:
    responses: list[Message] = wire.ask(Api.DELETE_TOPICS, 6, topics=topics, timeout=30_000)["responses"]
    return responses


def exists(wire: Wire, name: str) -> bool:
    return not metadata(wire, name)["topics"][0]["error_code"]


@pytest.fixture
def name(wire: Wire, topic: str) -> str:
    """A topic that is there to be deleted."""
    create_topic(wire, f"{topic}-gone", partitions=2)
    return f"{topic}-gone"


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_gone_when_it_is_answered(wire: Wire, name: str, version: int) -> None:
    (result,) = delete(wire, name, version=version)
    assert (code(result), result["name"]) == (ErrorCode.NONE, name)
    assert not exists(wire, name)
    assert produce(wire, name, batch_of(b"a"))["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_name_is_free_when_it_is_answered(wire: Wire, name: str) -> None:
    produce(wire, name, batch_of(b"old"))
    delete(wire, name)
    create_topic(wire, name)
    assert values_in(fetch(wire, name)) == []
    assert produce(wire, name, batch_of(b"new"))["base_offset"] == 0


def test_the_files_are_gone_too(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders", partitions=3)
        produce(wire, "orders", batch_of(b"a"))
        assert sorted(path.name for path in tmp_path.glob("orders*")) == ["orders-0", "orders-1", "orders-2"]
        delete(wire, "orders")
        assert list(tmp_path.glob("orders*")) == []
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        assert not exists(wire, "orders")


def test_a_topic_can_be_deleted_by_its_id(wire: Wire, topic: str) -> None:
    topic_id = create_topic(wire, f"{topic}-gone")
    (result,) = delete_each(wire, {"name": None, "topic_id": topic_id})
    assert (code(result), result["name"], result["topic_id"]) == (ErrorCode.NONE, f"{topic}-gone", topic_id)
    assert not exists(wire, f"{topic}-gone")


def test_an_unknown_name_is_told(wire: Wire, topic: str) -> None:
    (result,) = delete(wire, f"{topic}-missing")
    assert (code(result), result["name"]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-missing")


def test_an_unknown_id_is_told(wire: Wire) -> None:
    unknown = UUID(int=2**99 + 7)
    (result,) = delete_each(wire, {"name": None, "topic_id": unknown})
    assert (code(result), result["topic_id"]) == (ErrorCode.UNKNOWN_TOPIC_ID, unknown)


def test_name_and_id_together_are_refused(wire: Wire, topic: str) -> None:
    topic_id = create_topic(wire, f"{topic}-stays")
    (result,) = delete_each(wire, {"name": f"{topic}-stays", "topic_id": topic_id})
    assert code(result) == ErrorCode.INVALID_REQUEST
    assert exists(wire, f"{topic}-stays")


def test_neither_name_nor_id_is_refused(wire: Wire) -> None:
    (result,) = delete_each(wire, {"name": None, "topic_id": None})
    assert code(result) == ErrorCode.INVALID_REQUEST


def test_a_topic_that_is_named_twice_is_refused_and_stays(wire: Wire, name: str) -> None:
    results = delete(wire, name, name)
    assert {code(each) for each in results} == {ErrorCode.INVALID_REQUEST}
    assert exists(wire, name)


def test_a_topic_that_is_named_by_name_and_by_id_is_refused_and_stays(wire: Wire, name: str) -> None:
    topic_id = metadata(wire, name)["topics"][0]["topic_id"]
    results = delete_each(wire, {"name": name, "topic_id": None}, {"name": None, "topic_id": topic_id})
    assert {code(each) for each in results} == {ErrorCode.INVALID_REQUEST}
    assert exists(wire, name)


def test_each_topic_is_answered_on_its_own(wire: Wire, name: str) -> None:
    results = delete(wire, f"{name}-missing", name)
    assert {each["name"]: code(each) for each in results} == {
        f"{name}-missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name: ErrorCode.NONE,
    }


def test_the_brokers_own_topics_stay(wire: Wire) -> None:
    (result,) = delete(wire, "__consumer_offsets")
    assert code(result) == ErrorCode.INVALID_REQUEST
    assert exists(wire, "__consumer_offsets")
    (result,) = delete(wire, "__runnel_metadata")
    assert code(result) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(1, 7))
def test_a_broker_can_forbid_it(version: int) -> None:
    with Broker(settings={"delete.topic.enable": False}) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        (result,) = delete(wire, "orders", version=version)
        assert code(result) == (ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED)
        assert exists(wire, "orders")


def test_a_disk_that_fails_is_told_and_the_deletion_is_ended_by_who_asks_again() -> None:
    stage = Stage()
    stage.create("orders", 2)

    def deleted() -> ErrorCode:
        answer = stage.ask(Api.DELETE_TOPICS, {"topics": [{"name": "orders", "topic_id": None}], "timeout": 1})
        return code(answer["responses"][0])

    def created() -> ErrorCode:
        asked = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        answer = stage.ask(Api.CREATE_TOPICS, {"topics": [asked], "timeout": 1, "validate_only": False})
        return code(answer["topics"][0])

    stage.files.fail("rename", "orders-1", times=2)
    assert [deleted(), created()] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert [deleted(), deleted(), created()] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    stage.close()
