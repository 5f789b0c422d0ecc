from typing import Any

import pytest

from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Codec, Record, build_batch
from tests.broker_wire import EARLIEST, LATEST, Wire, batch_of, produce

NEWEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -3, -4, -5, -6
T = 1_700_000_000_000


def code(result: Message) -> ErrorCode:
    return ErrorCode(result["error_code"])


def listed(wire: Wire, topic: str, timestamp: int, version: int = 11, **rest: Any) -> Message:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp} | rest
    body = {"replica_id": -1, "isolation_level": 0, "timeout": 30_000}
    (answer,) = wire.ask(Api.LIST_OFFSETS, version, **body, topics=[{"name": topic, "partitions": [asked]}])["topics"]
    assert answer["name"] == topic
    result: Message = answer["partitions"][0]
    return result


def place(wire: Wire, topic: str, timestamp: int, version: int = 11) -> tuple[int, int]:
    """Offset and timestamp, without an error."""
    result = listed(wire, topic, timestamp, version)
    assert code(result) == ErrorCode.NONE
    return result["offset"], result["timestamp"]


@pytest.fixture
def times(wire: Wire, topic: str) -> str:
    """A topic whose records have the times T+0, T+10, T+5 in one batch, and T+10, T+2 in the next."""
    produce(wire, topic, build_batch([Record(b"a", None, T), Record(b"b", None, T + 10), Record(b"c", None, T + 5)]))
    produce(wire, topic, build_batch([Record(b"d", None, T + 10), Record(b"e", None, T + 2)]))
    return topic


# --- start and end


def test_an_empty_partition_begins_and_ends_at_0(wire: Wire, topic: str) -> None:
    assert place(wire, topic, EARLIEST) == (0, -1)
    assert place(wire, topic, LATEST) == (0, -1)


def test_the_end_is_the_offset_after_the_last_record(wire: Wire, times: str) -> None:
    assert place(wire, times, LATEST) == (5, -1)


def test_the_start_is_the_first_record_that_is_left(wire: Wire, times: str) -> None:
    assert place(wire, times, EARLIEST) == (0, -1)
    partitions = [{"partition_index": 0, "offset": 2}]
    wire.ask(Api.DELETE_RECORDS, 2, topics=[{"name": times, "partitions": partitions}], timeout=30_000)
    assert place(wire, times, EARLIEST) == (2, -1)
    assert place(wire, times, EARLIEST_LOCAL) == (2, -1)


def test_all_that_is_there_is_local(wire: Wire, times: str) -> None:
    assert place(wire, times, EARLIEST_LOCAL) == (0, -1)


@pytest.mark.parametrize("timestamp", [LATEST_TIERED, EARLIEST_PENDING])
def test_nothing_is_kept_elsewhere(wire: Wire, times: str, timestamp: int) -> None:
    assert place(wire, times, timestamp) == (-1, -1)


def test_both_isolation_levels_have_the_same_end(wire: Wire, times: str) -> None:
    asked = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}]
    for level in (0, 1):
        answer = wire.ask(
            Api.LIST_OFFSETS, 7, replica_id=-1, isolation_level=level, topics=[{"name": times, "partitions": asked}]
        )
        assert answer["topics"][0]["partitions"][0]["offset"] == 5


# --- times


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [(0, 0, T), (T, 0, T), (T + 1, 1, T + 10), (T + 5, 1, T + 10), (T + 10, 1, T + 10)],
)
def test_a_time_gets_the_first_record_that_is_not_older(
    wire: Wire, times: str, timestamp: int, offset: int, found: int
) -> None:
    """Inside of its batch: the batch begins earlier."""
    assert place(wire, times, timestamp) == (offset, found)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_a_time_is_looked_for_in_compressed_batches_too(wire: Wire, topic: str, codec: Codec) -> None:
    produce(wire, topic, batch_of(*[b"%d" % number for number in range(100)], timestamp=T, codec=codec))
    assert place(wire, topic, T + 42) == (42, T + 42)


def test_a_time_after_the_last_record_has_no_offset_and_no_error(wire: Wire, times: str) -> None:
    assert place(wire, times, T + 11) == (-1, -1)


def test_an_empty_partition_has_no_time(wire: Wire, topic: str) -> None:
    assert place(wire, topic, 0) == (-1, -1)
    assert place(wire, topic, NEWEST) == (-1, -1)


def test_records_before_the_start_are_not_found(wire: Wire, times: str) -> None:
    partitions = [{"partition_index": 0, "offset": 2}]
    wire.ask(Api.DELETE_RECORDS, 2, topics=[{"name": times, "partitions": partitions}], timeout=30_000)
    assert place(wire, times, T) == (2, T + 5)


def test_the_newest_record_is_the_first_with_the_largest_time(wire: Wire, times: str) -> None:
    assert place(wire, times, NEWEST) == (1, T + 10)


# --- versions


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(("timestamp", "offset"), [(EARLIEST, 0), (LATEST, 5), (T + 1, 1)])
def test_every_version_knows_start_end_and_times(
    wire: Wire, times: str, version: int, timestamp: int, offset: int
) -> None:
    assert place(wire, times, timestamp, version)[0] == offset


@pytest.mark.parametrize(
    ("timestamp", "since"), [(NEWEST, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)]
)
def test_a_special_time_is_known_from_a_version_on(wire: Wire, times: str, timestamp: int, since: int) -> None:
    assert code(listed(wire, times, timestamp, since)) == ErrorCode.NONE
    assert code(listed(wire, times, timestamp, since - 1)) == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [-7, -100])
def test_other_special_times_are_not_known(wire: Wire, times: str, timestamp: int) -> None:
    assert code(listed(wire, times, timestamp)) == ErrorCode.UNSUPPORTED_VERSION


# --- epochs and mistakes


@pytest.mark.parametrize("timestamp", [EARLIEST, LATEST, T, NEWEST])
def test_the_epoch_of_the_record_is_told(wire: Wire, times: str, timestamp: int) -> None:
    assert listed(wire, times, timestamp)["leader_epoch"] == 0


def test_an_epoch_of_the_future_is_unknown(wire: Wire, times: str) -> None:
    assert code(listed(wire, times, LATEST, current_leader_epoch=9)) == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("partition", [1, -1])
def test_an_unknown_partition_is_told(wire: Wire, topic: str, partition: int) -> None:
    result = listed(wire, topic, LATEST, partition_index=partition)
    assert code(result) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result["offset"] == -1


def test_an_unknown_topic_is_told_and_not_made(wire: Wire, topic: str) -> None:
    for _ in range(2):
        assert code(listed(wire, f"{topic}-missing", LATEST)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_asked_for_twice_is_refused(wire: Wire, topic: str) -> None:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    topics = [{"name": topic, "partitions": [asked, asked]}]
    answer = wire.ask(Api.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
    assert {code(each) for each in answer["topics"][0]["partitions"]} == {ErrorCode.INVALID_REQUEST}
