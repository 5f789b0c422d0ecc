"""What is answered for a partition that cannot be opened: an error of its own, and the others are served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel import Broker
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, batch_of, create_topic, fetch_body, produce, values_in

ILL, WELL = 1, 2  # partitions; the ill one is opened first


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """Of a broker that was started again, to a topic of which a partition's file cannot be opened."""
    broker = Broker(tmp_path / "data")
    with broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders", 3)
        for partition in (ILL, WELL):
            produce(wire, "orders", batch_of(b"a", b"b"), partition)
    (segment,) = (tmp_path / "data" / f"orders-{ILL}").glob("*.log")
    segment.unlink()
    segment.mkdir()
    with broker, Wire(broker.bootstrap) as wire:
        yield wire


def test_a_producer_is_told(wire: Wire) -> None:
    assert produce(wire, "orders", batch_of(b"c"), ILL)["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(wire, "orders", batch_of(b"c"), WELL)["base_offset"] == 2


def test_a_reader_of_several_partitions_gets_the_others(wire: Wire) -> None:
    answer = wire.ask(Api.FETCH, 11, **fetch_body({"orders": {ILL: 0, WELL: 0}}, max_wait=30_000))
    ill, well = answer["responses"][0]["partitions"]
    assert (ill["error_code"], well["error_code"]) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    assert values_in(well) == [b"a", b"b"]


def test_who_asks_for_the_end_of_an_epoch_is_told(wire: Wire) -> None:
    asked = [{"partition": number, "current_leader_epoch": -1, "leader_epoch": 0} for number in (ILL, WELL)]
    answer = wire.ask(Api.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=[{"topic": "orders", "partitions": asked}])
    ill, well = answer["topics"][0]["partitions"]
    assert ill["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert well["end_offset"] == 2


def test_who_asks_for_its_producers_is_told(wire: Wire) -> None:
    answer = wire.ask(Api.DESCRIBE_PRODUCERS, 0, topics=[{"name": "orders", "partition_indexes": [ILL, WELL]}])
    ill, well = answer["topics"][0]["partitions"]
    assert (ill["error_code"], well["error_code"]) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)


def test_its_size_is_left_out(wire: Wire) -> None:
    (directory,) = wire.ask(Api.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": "orders", "partitions": [ILL, WELL]}])[
        "results"
    ]
    (topic,) = directory["topics"]
    assert [partition["partition_index"] for partition in topic["partitions"]] == [WELL]
