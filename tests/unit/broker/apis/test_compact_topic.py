import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runnel import Broker
from runnel.broker.apis import compact_topic
from runnel.log import Partition
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import OwnApi
from runnel.protocol.versions import Api
from runnel.records import Record, build_batch
from tests.broker_wire import Wire, create_topic, fetch, produce, records_in

NOON = 1_700_000_000_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


@pytest.fixture
def table(wire: Wire) -> str:
    """A compacted topic in which two keys have had three values each."""
    create_topic(wire, "table", 2, cleanup_policy="compact")
    for number in range(3):
        each = [Record(b"%d" % number, key, NOON + number) for key in (b"a", b"b")]
        assert produce(wire, "table", build_batch(each))["error_code"] == ErrorCode.NONE
    return "table"


def compact(wire: Wire, topic: str, partition: int = 0, *, dry_run: bool = False) -> dict[str, Any]:
    return wire.ask(OwnApi.COMPACT_TOPIC, 0, name=topic, partition_index=partition, dry_run=dry_run)


def test_it_is_among_the_api_versions(wire: Wire) -> None:
    rows = wire.ask(Api.API_VERSIONS, 0)["api_keys"]
    assert {"api_key": 10_001, "min_version": 0, "max_version": 0} in rows


def test_a_dry_run_tells_how_clean_it_is_and_changes_nothing(wire: Wire, table: str) -> None:
    answer = compact(wire, table, dry_run=True)
    assert answer == {
        "throttle_time": 0, "error_code": 0, "error_message": None, "clean_offset": 0, "clean_time": NOON,
        "end_offset": 6, "records_before": 0, "records_after": 0, "bytes_before": 0, "bytes_after": 0,
    }  # fmt: skip
    assert len(records_in(fetch(wire, table)["records"])) == 6


def test_the_answer_comes_when_only_the_newest_of_each_key_is_left(wire: Wire, table: str) -> None:
    answer = compact(wire, table)
    assert (answer["error_code"], answer["records_before"], answer["records_after"]) == (0, 6, 2)
    assert answer["bytes_before"] > answer["bytes_after"] > 0
    assert (answer["clean_offset"], answer["clean_time"], answer["end_offset"]) == (6, -1, 6)
    assert [(record.key, record.value, record.offset) for record in records_in(fetch(wire, table)["records"])] == [
        (b"a", b"2", 4), (b"b", b"2", 5),
    ]  # fmt: skip


def test_an_empty_partition_is_clean(wire: Wire, table: str) -> None:
    answer = compact(wire, table, 1)
    assert (answer["error_code"], answer["clean_offset"], answer["clean_time"], answer["end_offset"]) == (0, 0, -1, 0)


@pytest.mark.parametrize(("topic", "partition"), [("none", 0), ("table", 2), ("table", -1)])
def test_a_partition_that_is_not_there_is_told(wire: Wire, table: str, topic: str, partition: int) -> None:
    answer = compact(wire, topic, partition)
    assert answer["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer["error_message"] == f"there is no partition {topic}-{partition}"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_topic_that_is_not_compacted_keeps_its_records(wire: Wire, dry_run: bool) -> None:
    create_topic(wire, "events")
    for _ in range(2):
        produce(wire, "events", build_batch([Record(b"value", b"key", NOON)]))
    answer = compact(wire, "events", dry_run=dry_run)
    assert answer["error_code"] == ErrorCode.POLICY_VIOLATION
    assert answer["error_message"] == "the cleanup policy of topic events does not compact"
    assert len(records_in(fetch(wire, "events")["records"])) == 2


class Work:
    """Stands for a compaction that takes long: it has begun, and ends when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def __call__(self, *_: object) -> Any:
        self.begun.release()
        assert self.may_end.wait(60)
        return compact_topic.Compaction(0, 0)


@pytest.fixture
def long_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    work = Work()
    monkeypatch.setattr(Partition, "compact", work)
    yield work
    work.may_end.set()
    for thread in threading.enumerate():
        if thread.name == "runnel-compact-topic":
            thread.join()


def test_others_are_served_while_it_is_at_work(broker: Broker, table: str, long_work: Work) -> None:
    with Wire(broker.bootstrap) as asking, Wire(broker.bootstrap) as other:
        sent = asking.send(OwnApi.COMPACT_TOPIC, 0, name=table, partition_index=0)
        assert long_work.begun.acquire(timeout=60)
        assert compact(other, table, dry_run=True)["clean_offset"] == 0
        long_work.may_end.set()
        assert asking.receive(sent)["error_code"] == ErrorCode.NONE


def test_the_fifth_at_a_time_is_refused(broker: Broker, table: str, long_work: Work) -> None:
    wires = [Wire(broker.bootstrap) for _ in range(4)]
    sent = [each.send(OwnApi.COMPACT_TOPIC, 0, name=table, partition_index=0) for each in wires]
    for _ in wires:
        assert long_work.begun.acquire(timeout=60)
    with Wire(broker.bootstrap) as fifth:
        answer = compact(fifth, table)
        assert answer["error_code"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert answer["error_message"] == "4 compactions are asked for already; try again later"
        long_work.may_end.set()
        for each, asked in zip(wires, sent, strict=True):
            assert each.receive(asked)["error_code"] == ErrorCode.NONE
            each.close()
        for thread in threading.enumerate():
            if thread.name == "runnel-compact-topic":
                thread.join()
        assert compact(fifth, table)["error_code"] == ErrorCode.NONE


def test_a_stop_of_the_broker_does_not_wait_for_it(broker: Broker, table: str, long_work: Work) -> None:
    with Wire(broker.bootstrap) as asking:
        sent = asking.send(OwnApi.COMPACT_TOPIC, 0, name=table, partition_index=0)
        assert long_work.begun.acquire(timeout=60)
        broker.stop()
        answer = asking.receive(sent)
    assert answer["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer["error_message"] == "the broker is stopping; ask again when it is back"
