"""Lone batches that come again by a connection are answered byte for byte as the first one, by a lane."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from runnel.broker import connection as module
from runnel.broker.connection import Connection
from runnel.broker.lanes import Lane
from runnel.broker.server import Server
from runnel.errors import PartitionFailed
from runnel.log import Partition, Told
from runnel.log.writer import Writer
from runnel.protocol.decode import read_response
from runnel.protocol.encode import request_encoder
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.hot import FLEXIBLE_SINCE
from runnel.protocol.known import KnownProduces
from runnel.protocol.versions import SERVED, Api
from runnel.records import CONTROL, TRANSACTIONAL, Codec, Producer, Record, build_batch
from runnel.settings import CleanupPolicy
from tests.broker_wire import batch_of, produce_body
from tests.unit.broker.node_stage import NodeStage
from tests.unit.broker.socketless import HEADER, Transport, ask, fetch, frame

TOPIC = "orders"
HOUR = 3_600_000
VERSIONS = range(FLEXIBLE_SINCE, SERVED[Api.PRODUCE].most + 1)
versions = pytest.mark.parametrize("version", VERSIONS)


class Stage:
    """A server without sockets, and how many requests went the usual way."""

    def __init__(self, node_stage: NodeStage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node_stage = node_stage
        self.node = node_stage.node
        self.server = Server(self.node)
        self.usual = 0
        self.node.log.commit_on(node_stage.loop, self.node.handover.together)
        handler_of = module.handler_of

        def counted(key: int) -> Any:
            self.usual += key == Api.PRODUCE
            return handler_of(key)

        monkeypatch.setattr(module, "handler_of", counted)

    def connect(self) -> tuple[Connection, Transport]:
        connection, transport = Connection(self.server, "PLAINTEXT"), Transport()
        connection.connection_made(transport)  # type: ignore[arg-type]
        return connection, transport

    def request(
        self, version: int, records: bytes, topic: str = TOPIC, correlation_id: int = 5, **fields: Any
    ) -> bytes:
        known = self.node.topics.find(topic)
        body = produce_body(topic, records, **fields)
        body["topic_data"][0]["topic_id"] = known.id if known is not None else None
        return self.framed(version, body, correlation_id)

    def framed(self, version: int, body: dict[str, Any], correlation_id: int = 5) -> bytes:
        parts = request_encoder(Api.PRODUCE, version)(body)
        return frame(HEADER.pack(Api.PRODUCE, version, correlation_id, -1) + b"\0" + b"".join(parts))

    def wait(self, until: Callable[[], object]) -> None:
        async def waited() -> None:
            while not until():
                await asyncio.sleep(0.001)

        self.node_stage.loop.run_until_complete(asyncio.wait_for(waited(), 30))

    def answer(self, connection: Connection, transport: Transport, data: bytes) -> bytes:
        transport.written = b""
        self.receive(connection, data)
        self.wait(lambda: transport.written or transport.aborted)
        return transport.written

    def receive(self, connection: Connection, *pieces: bytes) -> None:
        """On the running loop, which commits what comes."""

        async def received() -> None:
            for piece in pieces:
                connection.data_received(piece)

        self.node_stage.loop.run_until_complete(received())

    def first_and_again(self, asked: bytes, before: bytes) -> tuple[bytes, bytes]:
        """The answer by a connection that knows nothing, and by one that knows such requests."""
        known, other = self.connect(), self.connect()
        self.answer(*known, before)
        usual = self.usual
        first = self.answer(*other, asked)
        assert self.usual == usual + 1
        return first, self.answer(*known, asked)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = NodeStage(tmp_path / "data")
    made.create(TOPIC, 2)
    made.create("stamped", message_timestamp_type="LogAppendTime")
    made.create("compacted", cleanup_policy="compact")
    made.create("punctual", message_timestamp_before_max_ms=str(HOUR))
    yield Stage(made, monkeypatch)
    made.close()


def result_in(version: int, answer: bytes) -> dict[str, Any]:
    (topic,) = read_response(Api.PRODUCE, version, answer, 9)["responses"]
    (result,) = topic["partition_responses"]
    return dict(result)


# --- the same answers


@versions
@pytest.mark.parametrize("topic", [TOPIC, "stamped", "punctual"])
def test_what_comes_again_is_answered_as_the_first_time(stage: Stage, version: int, topic: str) -> None:
    now = stage.node.clock.now()
    # An idempotent producer's batch is answered again as the first time, so that both can be compared.
    asked = stage.request(version, batch_of(b"a", b"b", timestamp=now, producer=Producer(7, 0, 0)), topic)
    first, again = stage.first_and_again(asked, stage.request(version, batch_of(b"x", timestamp=now), topic))
    assert again == first
    assert (result_in(version, again)["error_code"], result_in(version, again)["base_offset"]) == (0, 1)
    assert stage.usual == 2, "the lane was not taken"


REFUSED: dict[str, tuple[str, bytes]] = {
    "a part of a header": (TOPIC, b"x" * 60),
    "other bytes": (TOPIC, b"x" * 100),
    "a changed byte": (TOPIC, batch_of(b"a")[:-1] + b"!"),
    "a batch and a half": (TOPIC, batch_of(b"a") + b"more"),
    "a control batch": (TOPIC, batch_of(b"a", attributes=CONTROL)),
    "no key in a compacted topic": ("compacted", batch_of(b"a")),
    "an old record": ("punctual", batch_of(b"a", timestamp=1)),
    "a record of the future": (TOPIC, batch_of(b"a", timestamp=2**50)),
    "a number too far": (TOPIC, batch_of(b"a", producer=Producer(7, 0, 5))),
    "an older epoch": (TOPIC, batch_of(b"a", producer=Producer(8, 1, 0))),
    "a transaction without a name": (TOPIC, batch_of(b"a", producer=Producer(7, 0, 0), attributes=TRANSACTIONAL)),
}


@versions
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_answered_as_the_first_time(stage: Stage, version: int, case: str) -> None:
    topic, batch = REFUSED[case]
    stage.answer(*stage.connect(), stage.request(version, batch_of(b"a", producer=Producer(7, 0, 0))))
    stage.answer(*stage.connect(), stage.request(version, batch_of(b"a", producer=Producer(8, 2, 0))))
    good = build_batch([Record(b"x", b"k", stage.node.clock.now())])
    first, again = stage.first_and_again(stage.request(version, batch, topic), stage.request(version, good, topic))
    assert again == first
    assert result_in(version, again)["error_code"], "it was not refused"
    known, transport = stage.connect()
    stage.answer(known, transport, stage.request(version, good, topic))
    stage.answer(known, transport, stage.request(version, batch, topic))
    assert not result_in(version, stage.answer(known, transport, stage.request(version, good, topic)))["error_code"]


@versions
def test_what_a_disk_loses_is_answered_as_the_first_time(
    stage: Stage, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = PartitionFailed(TOPIC, "a sync", OSError(5, "ill"))
    submit = Partition.submit

    def lost(partition: Partition, batch: memoryview, **kept: Any) -> Any:
        append = submit(partition, batch, **kept)
        stage.node.log.commit()  # the loop's thread has to: it is the loop's round
        assert append.done
        append.error = failure
        return append

    def lost_too(_: Partition, __: object, ___: memoryview, told: Told) -> bool:
        told.tell(-1, -1, failure)
        return True

    known, other = stage.connect(), stage.connect()
    stage.answer(*known, stage.request(version, batch_of(b"x")))
    monkeypatch.setattr(Partition, "submit", lost)
    monkeypatch.setattr(Partition, "gather", lost_too)
    asked = stage.request(version, batch_of(b"a"))
    again, first = stage.answer(*known, asked), stage.answer(*other, asked)
    assert again == first
    assert result_in(version, again)["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR


# --- what changes meanwhile


def test_a_topic_that_is_compacted_from_now_on_takes_no_record_without_a_key(stage: Stage) -> None:
    connection, transport = stage.connect()
    asked = stage.request(12, batch_of(b"a"))
    for _ in range(2):
        assert not result_in(12, stage.answer(connection, transport, asked))["error_code"]
    topic = stage.node.topics.find(TOPIC)
    assert topic is not None
    topic.change(topic.facts, replace(topic.settings, cleanup_policy=(CleanupPolicy.COMPACT,)))
    assert result_in(12, stage.answer(connection, transport, asked))["error_code"] == ErrorCode.INVALID_RECORD


@versions
def test_a_topic_that_is_made_again_is_another_one(stage: Stage, version: int) -> None:
    connection, transport = stage.connect()
    asked = stage.request(version, batch_of(b"a"))
    offsets = [result_in(version, stage.answer(connection, transport, asked))["base_offset"] for _ in range(3)]
    assert offsets == [0, 1, 2]
    stage.node_stage.loop.run_until_complete(stage.node.topics.delete(TOPIC))
    gone = result_in(version, stage.answer(connection, transport, asked))["error_code"]
    by_id = version >= 13
    assert gone == (ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    stage.node_stage.create(TOPIC)
    result = result_in(version, stage.answer(connection, transport, asked))
    assert (result["error_code"], result["base_offset"]) == ((gone, -1) if by_id else (0, 0))
    usual = stage.usual
    stage.answer(connection, transport, asked)
    assert stage.usual == usual + by_id, "the new topic has no lane"


def test_a_quota_that_is_set_meanwhile_is_heeded(stage: Stage) -> None:
    connection, transport = stage.connect()
    asked = stage.request(12, batch_of(b"a" * 1000))
    for _ in range(2):
        stage.answer(connection, transport, asked)
    stage.node.quotas.change({(("client-id", None),): {"producer_byte_rate": 1.0}})
    answer = read_response(Api.PRODUCE, 12, stage.answer(connection, transport, asked), 9)
    assert answer["throttle_time"] > 0
    assert not transport.reading
    connection.data_received(asked)  # it was on its way
    stage.node_stage.loop.run_until_complete(asyncio.sleep(0.02))
    assert stage.node.topics.find(TOPIC).partition(0).end_offset == 3  # type: ignore[union-attr]


# --- a connection's promises


def test_answers_leave_in_the_order_of_the_requests(stage: Stage) -> None:
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a"), correlation_id=0))
    transport.written = b""
    produces = [stage.request(12, batch_of(b"a"), correlation_id=number) for number in range(1, 40, 2)]
    others = [ask(number) for number in range(2, 41, 2)]
    connection.data_received(b"".join(data for pair in zip(produces, others, strict=True) for data in pair))
    stage.wait(lambda: len(transport.answers) == 40)
    assert transport.answers == list(range(1, 41))
    assert stage.usual == 1


def test_requests_in_pieces_of_their_own_are_answered_in_their_order(stage: Stage) -> None:
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a"), correlation_id=0))
    transport.written = b""
    for number in range(1, 40):
        connection.data_received(
            stage.request(12, batch_of(b"a"), correlation_id=number) if number % 3 else ask(number)
        )
    stage.wait(lambda: len(transport.answers) == 39)
    assert transport.answers == list(range(1, 40))


def test_what_is_under_way_and_what_is_answered_is_counted(stage: Stage) -> None:
    connection, transport = stage.connect()
    asked = [stage.request(12, batch_of(b"a" * size)) for size in (1, 500)]
    written = sum(len(stage.answer(connection, transport, data)) for data in asked)
    received, counters = stage.server.received, stage.server.counters
    assert (received.arriving, received.under_way) == (0, 0)
    assert counters.requests[Api.PRODUCE] == 2
    assert counters.request_bytes[Api.PRODUCE] == sum(map(len, asked)) - 2 * 4
    assert counters.answer_bytes[Api.PRODUCE] == written - 2 * 9
    stage.answer(connection, transport, asked[0])
    connection.data_received(asked[0])
    assert received.under_way == len(asked[0])
    connection.connection_lost(None)
    assert received.under_way == 0


def test_a_client_that_goes_before_its_answer_leaves_nothing_behind(stage: Stage) -> None:
    connection, transport = with_one_under_way(stage)
    connection.connection_lost(None)
    partition = stage.node.topics.find(TOPIC).partition(0)  # type: ignore[union-attr]
    stage.wait(lambda: partition.end_offset == 2)
    stage.node_stage.loop.run_until_complete(asyncio.sleep(0.01))
    assert transport.written == b""
    assert stage.server.received.under_way == 0


def test_whoever_sends_a_lone_request_was_not_silent(stage: Stage) -> None:
    connection, transport = stage.connect()
    assert connection.has_been_silent()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    assert not connection.has_been_silent()
    assert connection.has_been_silent()


def test_a_lone_request_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = NodeStage(tmp_path / "data", {"socket.request.max.bytes": "1000"})
    made.create(TOPIC)
    stage = Stage(made, monkeypatch)
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a" * 500)))
    stage.answer(connection, transport, stage.request(12, batch_of(b"a" * 1000)))
    assert transport.aborted
    made.close()


def with_one_under_way(stage: Stage) -> tuple[Connection, Transport]:
    """A connection whose lane has a batch that is not answered yet."""
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    transport.written = b""
    connection.data_received(stage.request(12, batch_of(b"b")))
    return connection, transport


def test_an_answer_while_the_client_reads_nothing_waits(stage: Stage) -> None:
    connection, transport = with_one_under_way(stage)
    connection.pause_writing()
    partition = stage.node.topics.find(TOPIC).partition(0)  # type: ignore[union-attr]
    stage.wait(lambda: partition.end_offset == 2)
    stage.node_stage.loop.run_until_complete(asyncio.sleep(0.01))
    assert transport.written == b""
    connection.resume_writing()
    assert transport.answers == [5]


def test_a_connection_that_stops_answers_first(stage: Stage) -> None:
    connection, transport = with_one_under_way(stage)
    connection.stop()
    assert not transport.closed
    stage.wait(lambda: transport.closed)
    assert transport.answers == [5]


@pytest.mark.parametrize("step", ["begin", "throttle", "whole_answer"])
def test_a_defect_ends_the_connection_and_nothing_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a defect")

    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Lane, step, fail)
        stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    assert transport.aborted
    assert "its PRODUCE v12 could not be answered: RuntimeError('a defect')" in caplog.text
    connection.connection_lost(None)
    assert stage.server.received.under_way == 0
    assert not result_in(12, stage.answer(*stage.connect(), stage.request(12, batch_of(b"a"))))["error_code"]


def test_compressed_batches_take_the_lane(stage: Stage) -> None:
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    usual = stage.usual
    for codec in Codec:
        stage.answer(connection, transport, stage.request(12, batch_of(b"a" * 100, codec=codec)))
    assert stage.usual == usual


# --- what the log refuses when it looks at it


def changed(sent: bytes) -> bytes:
    return sent[:-1] + bytes([sent[-1] ^ 0xFF])


MIXED = [
    batch_of(b"a"),
    changed(batch_of(b"b")),
    batch_of(b"c", producer=Producer(9, 1, 0)),
    batch_of(b"e", producer=Producer(9, 1, 1)),
    batch_of(b"d", producer=Producer(9, 1, 5)),
    batch_of(b"f", producer=Producer(9, 0, 2)),
    batch_of(b"c", producer=Producer(9, 1, 0)),
    batch_of(b"g") + b"more",
    batch_of(b"h", b"i"),
]
REFUSED_OF_MIXED = 4


def frames_in(data: bytes) -> dict[int, bytes]:
    """The answers by their correlation ids, in the order in which they left."""
    found: dict[int, bytes] = {}
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        found[correlation_id], data = data[: 4 + size], data[4 + size :]
    return found


def metadata(correlation_id: int) -> bytes:
    return frame(HEADER.pack(Api.METADATA, 1, correlation_id, -1) + struct.pack(">i", 0))


def answers_to(stage: Stage, pieces: list[bytes], count: int) -> dict[int, bytes]:
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"x"), correlation_id=0))
    transport.written = b""
    stage.receive(connection, *pieces)
    stage.wait(lambda: len(frames_in(transport.written)) == count)
    return frames_in(transport.written)


@pytest.mark.parametrize("in_one_piece", [True, False])
@pytest.mark.parametrize("between", [None, metadata, fetch])
def test_what_the_log_refuses_is_answered_in_its_place_and_as_by_a_connection_that_knows_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_one_piece: bool,
    between: Callable[[int], bytes] | None,
) -> None:
    answers: list[dict[int, bytes]] = []
    usual: list[int] = []
    for knows in (True, False):
        made = NodeStage(tmp_path / str(knows))
        made.create(TOPIC)
        with monkeypatch.context() as patch:
            if not knows:
                patch.setattr(KnownProduces, "find", lambda *_: None)
            stage = Stage(made, patch)
            pieces = [stage.request(12, sent, correlation_id=2 * number) for number, sent in enumerate(MIXED, start=1)]
            if between is not None:
                pieces = [data for number, sent in enumerate(pieces) for data in (sent, between(2 * number + 3))]
            count = len(pieces)
            answers.append(answers_to(stage, [b"".join(pieces)] if in_one_piece else pieces, count))
            usual.append(stage.usual)
        assert stage.server.received.under_way == 0
        made.close()

    first, second = answers
    assert list(first) == list(second) == sorted(first)
    produced = [number for number in first if number % 2 == 0]
    assert [first[number] for number in produced] == [second[number] for number in produced]
    codes = [result_in(12, first[number])["error_code"] for number in produced]
    assert [bool(code) for code in codes] == [False, True, False, False, True, True, False, True, False]
    assert usual == [1 + REFUSED_OF_MIXED, 1 + len(MIXED)]


def with_a_refused_one_under_way(stage: Stage) -> tuple[Connection, Transport]:
    """The log has noted a good batch, a bad one and a good one, and did not look at them yet."""
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a"), correlation_id=0))
    transport.written = b""
    sent = (batch_of(b"b"), changed(batch_of(b"c")), batch_of(b"d"))
    connection.data_received(
        b"".join(stage.request(12, each, correlation_id=number) for number, each in enumerate(sent, start=1))
    )
    return connection, transport


def test_a_client_that_goes_before_its_batch_is_refused_leaves_nothing_behind(stage: Stage) -> None:
    connection, transport = with_a_refused_one_under_way(stage)
    failures: list[Any] = []
    stage.node_stage.loop.set_exception_handler(lambda _, context: failures.append(context))
    connection.connection_lost(None)
    partition = stage.node.topics.find(TOPIC).partition(0)  # type: ignore[union-attr]
    stage.wait(lambda: partition.end_offset == 3)
    stage.node_stage.loop.run_until_complete(asyncio.sleep(0.01))

    assert (transport.written, failures, stage.usual) == (b"", [], 1)
    assert stage.server.received.under_way == 0


def test_a_connection_that_stops_before_its_batch_is_refused_answers_first(stage: Stage) -> None:
    connection, transport = with_a_refused_one_under_way(stage)
    connection.stop()
    stage.wait(lambda: transport.closed)

    assert transport.answers == [1, 2, 3]
    assert result_in(12, frames_in(transport.written)[2])["error_code"] == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_is_refused_alone_is_answered_and_its_connection_goes_on(stage: Stage) -> None:
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    refused = stage.answer(connection, transport, stage.request(12, changed(batch_of(b"b"))))
    assert result_in(12, refused)["error_code"] == ErrorCode.CORRUPT_MESSAGE
    assert stage.usual == 2
    assert result_in(12, stage.answer(connection, transport, stage.request(12, batch_of(b"c"))))["base_offset"] == 1
    assert stage.server.counters.requests[Api.PRODUCE] == 3


def test_the_answer_is_made_once_and_while_the_disk_syncs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole_answer = Lane.whole_answer
    partition = stage.node.topics.find(TOPIC).partition(0)  # type: ignore[union-attr]

    def noted(lane: Lane, *facts: int) -> bytes | None:
        made.append(partition.end_offset)
        return whole_answer(lane, *facts)

    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    monkeypatch.setattr(Lane, "whole_answer", noted)
    for number in range(1, 4):
        answer = stage.answer(connection, transport, stage.request(12, batch_of(b"b")))
        assert result_in(12, answer)["base_offset"] == number
    assert made == [1, 2, 3], "it was made when readers saw the batch"


def test_an_answer_that_was_made_is_not_given_if_the_disk_fails(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, transport = stage.connect()
    stage.answer(connection, transport, stage.request(12, batch_of(b"a")))
    publish = Writer.publish

    def fail(writer: Writer, *, synced: bool) -> Any:
        if writer.name == f"{TOPIC}-0":
            raise RuntimeError("a defect")
        return publish(writer, synced=synced)

    stage.node_stage.loop.set_exception_handler(lambda *_: None)
    monkeypatch.setattr(Writer, "publish", fail)
    answer = stage.answer(connection, transport, stage.request(12, batch_of(b"b")))
    assert result_in(12, answer)["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR


# --- with a socket


@pytest.mark.parametrize("has_uvloop", [False, True])
def test_a_slow_client_gets_all_answers_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_uvloop: bool
) -> None:
    if has_uvloop:
        monkeypatch.setattr(asyncio, "new_event_loop", uvloop.new_event_loop)
    made = NodeStage(tmp_path / "data")
    made.create(TOPIC)
    stage = Stage(made, monkeypatch)
    count = 400

    async def play() -> tuple[bytes, int]:
        ours, client = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        loop = asyncio.get_running_loop()
        sent = [
            stage.request(12, changed(batch_of(b"a")) if number % 7 == 3 else batch_of(b"a"), correlation_id=number)
            if number % 5
            else ask(number)
            for number in range(1, count + 1)
        ]
        transport, connection = await loop.connect_accepted_socket(lambda: Connection(stage.server, "PLAINTEXT"), ours)
        client.setblocking(False)
        most, received = 0, b""
        for number, data in enumerate(sent):
            await loop.sock_sendall(client, data)
            if number % 20 == 0:
                await asyncio.sleep(0.005)
                most = max(most, transport.get_write_buffer_size())
        while len(frames_in_part(received)) < count:
            received += await loop.sock_recv(client, 500)
        transport.abort()
        client.close()
        await asyncio.sleep(0)
        assert isinstance(connection, Connection)
        return received, most

    received, most = made.loop.run_until_complete(asyncio.wait_for(play(), 60))
    made.close()
    assert most, "the client was not slow"
    assert frames_in_part(received) == list(range(1, count + 1))


def frames_in_part(data: bytes) -> list[int]:
    found, position = [], 0
    while position + 8 <= len(data):
        size, correlation_id = struct.unpack_from(">ii", data, position)
        position += 4 + size
        if position <= len(data):
            found.append(correlation_id)
    return found


def test_what_is_not_written_as_it_was_sent_is_not_gathered(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop could not take such a round."""
    gathered: list[str] = []
    gather = Partition.gather

    def noted(partition: Partition, *facts: Any) -> bool:
        gathered.append(partition.id.topic)
        return gather(partition, *facts)

    monkeypatch.setattr(Partition, "gather", noted)
    connection, transport = stage.connect()
    for topic in (TOPIC, "stamped", TOPIC, "stamped"):
        answer = stage.answer(connection, transport, stage.request(12, batch_of(b"a"), topic))
        assert not result_in(12, answer)["error_code"]
    assert (gathered, stage.usual) == ([TOPIC], 2)
