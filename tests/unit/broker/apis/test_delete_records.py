from pathlib import Path

import pytest

from runnel import Broker
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Record, build_batch
from tests.broker_wire import EARLIEST, LATEST, Wire, batch_of, create_topic, fetch, offset_at, produce, values_in

Result = tuple[ErrorCode, int]  # and the low watermark


def delete(wire: Wire, topic: str, offset: int, partition: int = 0, version: int = 2) -> Result:
    partitions = [{"partition_index": partition, "offset": offset}]
    answer = wire.ask(Api.DELETE_RECORDS, version, topics=[{"name": topic, "partitions": partitions}], timeout=30_000)
    (found,) = answer["topics"]
    (result,) = found["partitions"]
    assert (found["name"], result["partition_index"]) == (topic, partition)
    return ErrorCode(result["error_code"]), result["low_watermark"]


@pytest.fixture
def five(wire: Wire, topic: str) -> str:
    """A topic with the records 0 to 4, in two batches."""
    produce(wire, topic, batch_of(b"0", b"1", b"2"))
    produce(wire, topic, batch_of(b"3", b"4"))
    return topic


@pytest.mark.parametrize("version", range(3))
def test_the_records_before_the_offset_are_gone(wire: Wire, five: str, version: int) -> None:
    assert delete(wire, five, 3, version=version) == (ErrorCode.NONE, 3)
    assert offset_at(wire, five, EARLIEST) == 3
    assert fetch(wire, five, 2)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_in(fetch(wire, five, 3)) == [b"3", b"4"]


def test_the_start_may_be_in_the_middle_of_a_batch(wire: Wire, five: str) -> None:
    assert delete(wire, five, 1) == (ErrorCode.NONE, 1)
    assert offset_at(wire, five, EARLIEST) == 1
    assert fetch(wire, five, 1)["error_code"] == ErrorCode.NONE


def test_minus_one_deletes_all_that_is_there(wire: Wire, five: str) -> None:
    assert delete(wire, five, -1) == (ErrorCode.NONE, 5)
    assert offset_at(wire, five, EARLIEST) == offset_at(wire, five, LATEST) == 5
    assert produce(wire, five, batch_of(b"5"))["base_offset"] == 5


@pytest.mark.parametrize("offset", [6, 1_000, -2, -100])
def test_an_offset_that_is_not_there_is_out_of_range(wire: Wire, five: str, offset: int) -> None:
    assert delete(wire, five, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert offset_at(wire, five, EARLIEST) == 0


def test_what_is_deleted_already_is_no_error(wire: Wire, five: str) -> None:
    delete(wire, five, 3)
    assert delete(wire, five, 1) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("partition", [1, -1])
def test_an_unknown_partition_is_told(wire: Wire, topic: str, partition: int) -> None:
    assert delete(wire, topic, 0, partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_an_unknown_topic_is_told(wire: Wire, topic: str) -> None:
    assert delete(wire, f"{topic}-missing", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.runnel_topic(configs={"cleanup.policy": "compact"})
def test_a_topic_that_is_only_compacted_deletes_nothing(wire: Wire, topic: str) -> None:
    produce(wire, topic, build_batch([Record(b"a", b"key", 1_700_000_000_000)]))
    assert delete(wire, topic, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    assert offset_at(wire, topic, EARLIEST) == 0


@pytest.mark.runnel_topic(configs={"cleanup.policy": "compact,delete"})
def test_a_topic_that_is_compacted_and_deleted_does(wire: Wire, topic: str) -> None:
    produce(wire, topic, build_batch([Record(b"a", b"key", 1_700_000_000_000)]))
    assert delete(wire, topic, 1) == (ErrorCode.NONE, 1)


def test_the_brokers_own_topics_are_left_alone(wire: Wire) -> None:
    assert delete(wire, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC, -1)


def test_it_is_durable_when_it_is_answered(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        produce(wire, "orders", batch_of(b"a", b"b"))
        delete(wire, "orders", 1)
    with Broker(tmp_path) as broker, Wire(broker.bootstrap) as wire:
        assert offset_at(wire, "orders", EARLIEST) == 1
        assert offset_at(wire, "orders", LATEST) == 2
