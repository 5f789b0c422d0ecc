"""A small client that speaks Kafka's protocol as it is told to, for tests of what a broker answers.

    with Wire(broker.bootstrap) as wire:
        answer = wire.ask(Api.METADATA, 12, topics=None)

A request is the mapping of its fields, for any API and version; fields that the version does not know are left out.
The answer is a mapping too. `send` and `receive` are the halves of `ask`, for requests that overtake each other, and
`send_bytes` sends what is no request at all.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple
from uuid import UUID

from runnel.protocol.decode import Message, read_response
from runnel.protocol.encode import request_encoder
from runnel.protocol.schemas import schema
from runnel.protocol.versions import Api
from runnel.records import Record, batches_of, build_batch, records_of

SECONDS = 60.0  # long enough for a busy machine; a test waits for conditions, never for time
CLIENT_ID = "wire"
EARLIEST, LATEST = -2, -1


class Closed(Exception):
    """The broker has ended the connection."""


class Sent(NamedTuple):
    """A request under way, by which its answer is read."""

    api_key: int
    version: int
    correlation_id: int


class Wire:
    def __init__(self, bootstrap: str, client_id: str | None = CLIENT_ID) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client_id = client_id
        self._socket = socket.create_connection((host.strip("[]"), int(port)), SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._buffered = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # --- requests and answers

    def ask(self, api_key: int, version: int, **body: Any) -> Message:
        return self.receive(self.send(api_key, version, **body))

    def send(self, api_key: int, version: int, **body: Any) -> Sent:
        self._correlation_id += 1
        sent = Sent(api_key, version, self._correlation_id)
        self.send_bytes(framed(request_bytes(sent, self.client_id, body)))
        return sent

    def receive(self, sent: Sent) -> Message:
        """The next answer, which must be the one to this request."""
        return read_response(sent.api_key, sent.version, self.receive_body(sent))

    def receive_body(self, sent: Sent) -> bytes:
        """The bytes of the next answer after its header."""
        answer = self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", answer)
        if correlation_id != sent.correlation_id:
            raise AssertionError(f"answer {correlation_id} came instead of {sent.correlation_id}")
        if not schema(sent.api_key, sent.version).flexible_answer_header:
            return answer[4:]
        if answer[4] != 0:
            raise AssertionError("the answer's header has tagged fields, which no broker sends")
        return answer[5:]

    # --- bytes

    def send_bytes(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def has_answer_within(self, seconds: float) -> bool:
        """Whether an answer has begun to arrive. Ask only if False cannot be a matter of speed."""
        if self._buffered:
            return True
        self._socket.settimeout(seconds)
        try:
            self._buffered = self._socket.recv(1)
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(SECONDS)
        return True

    def is_closed(self) -> bool:
        """Wait for the end of the connection; False if something arrives instead."""
        try:
            return not self._receive(1)
        except Closed:
            return True

    def _receive(self, size: int) -> bytes:
        while len(self._buffered) < size:
            try:
                data = self._socket.recv(max(size - len(self._buffered), 65_536))
            except ConnectionResetError as error:
                raise Closed from error
            if not data:
                raise Closed
            self._buffered += data
        taken, self._buffered = self._buffered[:size], self._buffered[size:]
        return taken


def request_bytes(sent: Sent, client_id: str | None, body: dict[str, Any]) -> bytes:
    """Header and body of a request, without the length before them."""
    encoder = request_encoder(sent.api_key, sent.version)
    header = struct.pack(">hhi", sent.api_key, sent.version, sent.correlation_id) + _string(client_id)
    return b"".join((header, b"\x00" if encoder.flexible_header else b"", *map(bytes, encoder(body))))


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text.encode())) + text.encode()


# --- questions that nearly every test asks


def metadata(wire: Wire, *topics: str, version: int = 12, allow_auto_topic_creation: bool = False) -> Message:
    """Of the topics; of all, if none is named."""
    return wire.ask(
        Api.METADATA,
        version,
        topics=[{"topic_id": None, "name": name} for name in topics] or (() if version == 0 else None),
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def create_topic(wire: Wire, name: str, partitions: int = 1, **configs: str) -> UUID:
    """A topic; a configuration's dots are written as underscores here."""
    named = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": named}
    (answer,) = wire.ask(Api.CREATE_TOPICS, 7, topics=[topic], timeout=30_000, validate_only=False)["topics"]
    if answer["error_code"]:
        raise AssertionError(f"topic {name} was not made: {answer['error_message']}")
    topic_id: UUID = answer["topic_id"]
    return topic_id


def batch_of(*values: bytes, timestamp: int = 1_700_000_000_000, **rest: Any) -> bytes:
    """A batch of records without keys; the timestamps are a millisecond apart."""
    return build_batch([Record(value, None, timestamp + number) for number, value in enumerate(values)], **rest)


def produce_body(topic: str, records: bytes | None, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 30_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def produce(wire: Wire, topic: str, records: bytes | None, partition: int = 0, acks: int = -1) -> Message:
    """The answer for the one partition."""
    answer = wire.ask(Api.PRODUCE, 9, **produce_body(topic, records, partition, acks))
    result: Message = answer["responses"][0]["partition_responses"][0]
    return result


def fetch_body(topics: dict[str, dict[int, int]], **limits: int) -> dict[str, Any]:
    """From topic, partition and offset; the limits are those of the request, and `partition_max_bytes`."""
    partition_max_bytes = limits.pop("partition_max_bytes", 2**20)
    asked = [
        {
            "topic": name,
            "topic_id": None,
            "partitions": [
                {
                    "partition": number,
                    "current_leader_epoch": -1,
                    "fetch_offset": offset,
                    "last_fetched_epoch": -1,
                    "log_start_offset": -1,
                    "partition_max_bytes": partition_max_bytes,
                }
                for number, offset in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]
    defaults = {"max_wait": 0, "min_bytes": 1, "max_bytes": 2**24, "isolation_level": 0}
    defaults |= {"session_id": 0, "session_epoch": -1, "replica_id": -1}
    rest: dict[str, Any] = {"forgotten_topics_data": (), "rack_id": "", "topics": asked}
    return defaults | limits | rest


def fetch(wire: Wire, topic: str, offset: int = 0, partition: int = 0, **limits: int) -> Message:
    """The answer for the one partition."""
    answer = wire.ask(Api.FETCH, 11, **fetch_body({topic: {partition: offset}}, **limits))
    result: Message = answer["responses"][0]["partitions"][0]
    return result


def values_in(fetched: Message) -> list[bytes | None]:
    return [record.value for record in records_in(fetched["records"])]


def records_in(data: Any) -> Sequence[Record]:
    data = bytes(data)
    return [record for position, _ in batches_of(data) for record in records_of(data, position)]


def offset_at(wire: Wire, topic: str, timestamp: int, partition: int = 0) -> int:
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    answer = wire.ask(
        Api.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[{"name": topic, "partitions": [asked]}]
    )
    result: Message = answer["topics"][0]["partitions"][0]
    if result["error_code"]:
        raise AssertionError(f"no offset: error {result['error_code']}")
    return int(result["offset"])
