from pathlib import Path
from typing import Any

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, batch_of, create_topic, fetch, metadata, produce, values_in

two_partitions = pytest.mark.runnel_topic(partitions=2)


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def grow(
    wire: Wire, *topics: tuple[str, int, Any], version: int = 3, validate_only: bool = False
) -> list[tuple[str, ErrorCode]]:
    asked = [
        {
            "name": name,
            "count": count,
            "assignments": None if assignment is None else [{"broker_ids": ids} for ids in assignment],
        }
        for name, count, assignment in topics
    ]
    answer = wire.ask(Api.CREATE_PARTITIONS, version, topics=asked, timeout=30_000, validate_only=validate_only)
    return [(each["name"], code(each)) for each in answer["results"]]


def count_of(wire: Wire, topic: str) -> int:
    return len(metadata(wire, topic)["topics"][0]["partitions"])


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_to_the_new_total(wire: Wire, topic: str, version: int) -> None:
    produce(wire, topic, batch_of(b"a"))
    assert grow(wire, (topic, 3, None), version=version) == [(topic, ErrorCode.NONE)]
    assert count_of(wire, topic) == 3
    assert produce(wire, topic, batch_of(b"b"), partition=2)["error_code"] == 0
    assert values_in(fetch(wire, topic, partition=0)) == [b"a"]


def test_a_topic_keeps_its_id_and_its_size_over_a_restart(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        topic_id = create_topic(wire, "orders")
        grow(wire, ("orders", 4, None))
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        (found,) = metadata(wire, "orders")["topics"]
        assert (found["topic_id"], len(found["partitions"])) == (topic_id, 4)


@two_partitions
@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_can_only_grow(wire: Wire, topic: str, count: int) -> None:
    assert grow(wire, (topic, count, None)) == [(topic, ErrorCode.INVALID_PARTITIONS)]
    assert count_of(wire, topic) == 2


def test_an_unknown_topic_is_told(wire: Wire, topic: str) -> None:
    missing = f"{topic}-missing"
    assert grow(wire, (missing, 3, None)) == [(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_each_topic_is_answered_on_its_own(wire: Wire, topic: str) -> None:
    found = grow(wire, (topic, 2, None), (f"{topic}-missing", 3, None))
    assert sorted(found) == [(topic, ErrorCode.NONE), (f"{topic}-missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_with_validate_only_nothing_grows(wire: Wire, topic: str) -> None:
    assert grow(wire, (topic, 3, None), validate_only=True) == [(topic, ErrorCode.NONE)]
    assert count_of(wire, topic) == 1


def test_a_topic_that_is_named_twice_is_refused(wire: Wire, topic: str) -> None:
    found = grow(wire, (topic, 2, None), (topic, 3, None))
    assert set(found) == {(topic, ErrorCode.INVALID_REQUEST)}
    assert count_of(wire, topic) == 1


def test_an_assignment_names_this_broker(wire: Wire, topic: str) -> None:
    node = metadata(wire)["controller_id"]
    assert grow(wire, (topic, 3, [[node], [node]])) == [(topic, ErrorCode.NONE)]
    assert count_of(wire, topic) == 3


@pytest.mark.parametrize("assignment", [[], [[1]], [[1], [1], [1]], [[77], [77]], [[1, 77], [1, 77]]])
def test_an_assignment_that_does_not_fit_is_refused(wire: Wire, topic: str, assignment: list[list[int]]) -> None:
    assert grow(wire, (topic, 3, assignment)) == [(topic, ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert count_of(wire, topic) == 1


def test_internal_topics_do_not_grow(wire: Wire) -> None:
    (found,) = grow(wire, ("__consumer_offsets", 100, None))
    assert found == ("__consumer_offsets", ErrorCode.INVALID_REQUEST)


def test_so_many_partitions_are_made_at_once_and_no_more(wire: Wire, topic: str) -> None:
    assert grow(wire, (topic, 10_002, None), validate_only=True) == [(topic, ErrorCode.INVALID_PARTITIONS)]
    create_topic(wire, "another")
    both = grow(wire, (topic, 6_001, None), ("another", 4_002, None), validate_only=True)
    assert both == [(topic, ErrorCode.NONE), ("another", ErrorCode.INVALID_PARTITIONS)]


def test_a_name_of_any_length_is_answered(wire: Wire) -> None:
    """The message quotes it, and an old version's text has a length of two bytes."""
    name = "\x01" * 32_767
    assert grow(wire, (name, 3, None), version=0) == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert metadata(wire)["brokers"], "the connection is of use afterwards"
