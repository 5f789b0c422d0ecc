import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, batch_of, create_topic, metadata, produce

Result = tuple[ErrorCode, int, int]  # and the epoch and the offset where it ends


def ask(wire: Wire, topic: str, epoch: int, version: int = 4, **rest: Any) -> Result:
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch} | rest
    answer = wire.ask(
        Api.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=[{"topic": topic, "partitions": [asked]}]
    )
    (found,) = answer["topics"]
    assert found["topic"] == topic
    result: Message = found["partitions"][0]
    return ErrorCode(result["error_code"]), result["leader_epoch"], result["end_offset"]


@pytest.mark.parametrize("version", range(2, 5))
def test_the_present_epoch_ends_where_the_log_does(wire: Wire, topic: str, version: int) -> None:
    produce(wire, topic, batch_of(b"a", b"b"))
    assert ask(wire, topic, 0, version) == (ErrorCode.NONE, 0, 2)


def test_an_epoch_without_a_record_ends_where_it_begins(wire: Wire, topic: str) -> None:
    assert ask(wire, topic, 0) == (ErrorCode.NONE, 0, 0)


def test_an_epoch_after_the_present_one_is_not_known(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    assert ask(wire, topic, 9) == (ErrorCode.NONE, -1, -1)


def test_of_no_epoch_nothing_is_known(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch_of(b"a"))
    assert ask(wire, topic, -1) == (ErrorCode.NONE, -1, -1)


def test_a_client_that_knows_a_later_epoch_than_the_broker_is_told(wire: Wire, topic: str) -> None:
    assert ask(wire, topic, 0, current_leader_epoch=9)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("partition", [1, -1])
def test_an_unknown_partition_is_told(wire: Wire, topic: str, partition: int) -> None:
    assert ask(wire, topic, 0, partition=partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_an_unknown_topic_is_told(wire: Wire, topic: str) -> None:
    assert ask(wire, f"{topic}-missing", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


# --- after crashes


@pytest.fixture
def crashed(tmp_path: Path) -> Iterator[tuple[Wire, list[int]]]:
    """A broker after two crashes, two records and then one and one; and the epochs, in which they were written."""
    epochs = []
    folder = tmp_path / "0"
    for crash, values in enumerate([(b"a", b"b"), (b"c",)], 1):
        with Broker(folder) as broker, Wire(broker.bootstrap) as wire:
            if crash == 1:
                create_topic(wire, "orders")
            produce(wire, "orders", batch_of(*values))
            epochs.append(metadata(wire, "orders")["topics"][0]["partitions"][0]["leader_epoch"])
            folder = Path(shutil.copytree(folder, tmp_path / str(crash)))
    with Broker(folder) as broker, Wire(broker.bootstrap) as wire:
        produce(wire, "orders", batch_of(b"d"))
        epochs.append(metadata(wire, "orders")["topics"][0]["partitions"][0]["leader_epoch"])
        yield wire, epochs


def test_an_epoch_ends_where_the_next_one_begins(crashed: tuple[Wire, list[int]]) -> None:
    wire, epochs = crashed
    assert epochs == sorted(set(epochs))
    assert [ask(wire, "orders", epoch) for epoch in epochs] == [
        (ErrorCode.NONE, epochs[0], 2),
        (ErrorCode.NONE, epochs[1], 3),
        (ErrorCode.NONE, epochs[2], 4),
    ]


def test_a_client_of_an_earlier_epoch_is_fenced(crashed: tuple[Wire, list[int]]) -> None:
    wire, epochs = crashed
    assert ask(wire, "orders", epochs[0], current_leader_epoch=epochs[0])[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(wire, "orders", epochs[0], current_leader_epoch=epochs[2])[0] == ErrorCode.NONE


def test_an_epoch_whose_records_are_deleted_ends_where_the_next_one_begins(crashed: tuple[Wire, list[int]]) -> None:
    wire, epochs = crashed
    deleted = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 2}]}
    wire.ask(Api.DELETE_RECORDS, 2, topics=[deleted], timeout=30_000)
    assert ask(wire, "orders", epochs[0]) == (ErrorCode.NONE, epochs[0], 2)
    assert ask(wire, "orders", epochs[1]) == (ErrorCode.NONE, epochs[1], 3)


@pytest.mark.parametrize("values", [(), (b"a", b"b")])
def test_an_epoch_without_records_ends_where_the_next_one_begins(tmp_path: Path, values: tuple[bytes, ...]) -> None:
    """A consumer that waits in an empty topic has this epoch: it must not begin anew after a crash."""
    with Broker(tmp_path / "before") as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders")
        shutil.copytree(tmp_path / "before", tmp_path / "after")
    with Broker(tmp_path / "after") as broker, Wire(broker.bootstrap) as wire:
        if values:
            produce(wire, "orders", batch_of(*values))
        assert ask(wire, "orders", 0) == (ErrorCode.NONE, 0, 0)
        assert ask(wire, "orders", 1) == (ErrorCode.NONE, 1, len(values))
