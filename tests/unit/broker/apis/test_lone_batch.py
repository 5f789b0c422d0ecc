"""A batch that comes alone takes a short way, and is answered byte for byte as on the long one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.broker.apis.produce import LoneBatch, Production, handle
from runnel.broker.request import Answer, Encoded, Later, Request
from runnel.errors import PartitionFailed
from runnel.protocol.decode import read_response
from runnel.protocol.hot import FLEXIBLE_SINCE
from runnel.protocol.versions import SERVED, Api
from runnel.records import TRANSACTIONAL, Producer
from tests.broker_wire import batch_of, produce_body
from tests.unit.broker.node_stage import NodeStage, bytes_of, request_of

TOPIC = "orders"
HOUR = 3_600_000
versions = pytest.mark.parametrize("version", range(SERVED[Api.PRODUCE].least, SERVED[Api.PRODUCE].most + 1))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NodeStage]:
    stage = NodeStage(tmp_path / "data")
    stage.create(TOPIC, 2)
    stage.create("stamped", message_timestamp_type="LogAppendTime")
    stage.create("compacted", cleanup_policy="compact")
    stage.create("punctual", message_timestamp_before_max_ms=str(HOUR))
    yield stage
    stage.close()


def request(stage: NodeStage, version: int, records: bytes | None, topic: str = TOPIC, **fields: Any) -> Request:
    body = produce_body(topic, records, **fields)
    known = stage.node.topics.find(topic)
    body["topic_data"][0]["topic_id"] = known.id if known is not None else None
    return request_of(Api.PRODUCE, version, body)


def answer(stage: NodeStage, given: Answer) -> Any:
    async def awaited() -> Any:
        future: asyncio.Future[Any] = stage.loop.create_future()
        assert isinstance(given, Later)
        given.then(future.set_result)
        return await asyncio.wait_for(future, 30)

    return stage.loop.run_until_complete(awaited()) if isinstance(given, Later) else given


def short_and_long(stage: NodeStage, asked: Request) -> tuple[bytes, bytes]:
    """The body of the answer by either way, the short one first."""
    short = answer(stage, handle(stage.node, asked))
    long = answer(stage, Production(stage.node, asked).start())
    return bytes_of(Api.PRODUCE, asked.version, short), bytes_of(Api.PRODUCE, asked.version, long)


@versions
@pytest.mark.parametrize("topic", [TOPIC, "stamped", "punctual"])
def test_what_is_appended_is_answered_as_on_the_long_way(stage: NodeStage, version: int, topic: str) -> None:
    now = stage.clock.now()
    answer(stage, handle(stage.node, request(stage, version, batch_of(b"before", timestamp=now), topic)))
    # The same batch of an idempotent producer is answered again as the first time, so that both can be compared.
    batch = batch_of(b"a", b"b", timestamp=now, producer=Producer(7, 0, 0))
    asked = request(stage, version, batch, topic)
    short, long = short_and_long(stage, asked)
    assert short == long
    (result,) = read_response(Api.PRODUCE, version, short)["responses"][0]["partition_responses"]
    assert (result["error_code"], result["base_offset"]) == (0, 1)


@versions
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_batch_that_comes_alone_takes_the_short_way(stage: NodeStage, version: int, acks: int) -> None:
    way = handle(stage.node, request(stage, version, batch_of(b"a"), acks=acks))
    assert isinstance(way, LoneBatch)
    assert isinstance(answer(stage, way), Encoded) == (version >= FLEXIBLE_SINCE)


REFUSED: dict[str, tuple[str, bytes | None, dict[str, Any]]] = {
    "no batch": (TOPIC, None, {}),
    "a part of a header": (TOPIC, b"x" * 60, {}),
    "other bytes": (TOPIC, b"x" * 100, {}),
    "a batch and a half": (TOPIC, batch_of(b"a") + b"more", {}),
    "no such partition": (TOPIC, batch_of(b"a"), {"partition": 2}),
    "a partition below 0": (TOPIC, batch_of(b"a"), {"partition": -1}),
    "no such topic": ("unknown", batch_of(b"a"), {}),
    "the broker's own topic": ("__consumer_offsets", batch_of(b"a"), {}),
    "no key in a compacted topic": ("compacted", batch_of(b"a"), {}),
    "an old record": ("punctual", batch_of(b"a", timestamp=1), {}),
    "a number too far": (TOPIC, batch_of(b"a", producer=Producer(7, 0, 5)), {}),
    "other acknowledgements": (TOPIC, batch_of(b"a"), {"acks": 2}),
    "a transaction without a name": (TOPIC, batch_of(b"a", producer=Producer(7, 0, 0), attributes=TRANSACTIONAL), {}),
}


@versions
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_answered_as_on_the_long_way(stage: NodeStage, version: int, case: str) -> None:
    topic, batch, fields = REFUSED[case]
    answer(stage, handle(stage.node, request(stage, version, batch_of(b"x", producer=Producer(7, 0, 0)))))
    short, long = short_and_long(stage, request(stage, version, batch, topic, **fields))
    assert short == long
    assert code_in(version, short), "it was not refused"


def code_in(version: int, body: bytes) -> int:
    code: int = read_response(Api.PRODUCE, version, body)["responses"][0]["partition_responses"][0]["error_code"]
    return code


@versions
def test_what_a_disk_loses_is_answered_as_on_the_long_way(
    stage: NodeStage, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.node.topics.find(TOPIC)
    assert topic is not None
    submit = topic.partition(0).submit

    def lost(batch: memoryview, told: Any) -> Any:
        append = submit(batch)
        append.result(30)
        append.error = PartitionFailed(TOPIC, "a sync", OSError(5, "ill"))
        if told is not None:
            told(append)
        return append

    monkeypatch.setattr(type(topic.partition(0)), "submit", lambda _, batch, told=None, **_kept: lost(batch, told))
    short, long = short_and_long(stage, request(stage, version, batch_of(b"a")))
    assert short == long
    assert code_in(version, short)


def test_a_request_without_acknowledgement_is_not_answered(stage: NodeStage) -> None:
    given = handle(stage.node, request(stage, 12, batch_of(b"a"), acks=0))
    assert not isinstance(given, LoneBatch)
