"""A client with no manners: requests as bytes, sent as a test likes, and answers read only when asked for."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from runnel.protocol.decode import Message, read_response
from runnel.protocol.encode import request_encoder
from runnel.protocol.schemas import schema
from runnel.protocol.versions import Api
from runnel.records import Record, build_batch

PATIENCE = 60.0  # seconds for an answer that must come; a broker that needs it all is not well
LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hhih")


def request(
    api_key: int, version: int, body: Mapping[str, Any], correlation_id: int = 0, client: str = "abuse"
) -> bytes:
    """A whole frame."""
    encoder = request_encoder(api_key, version)
    name = client.encode()
    header = HEADER.pack(api_key, version, correlation_id, len(name)) + name
    if encoder.flexible_header:
        header += b"\x00"
    return framed(header + b"".join(bytes(part) for part in encoder(body)))


def framed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def who_are_you(correlation_id: int = 0) -> bytes:
    """The smallest request there is, ApiVersions v0: to see whether anybody answers."""
    return request(Api.API_VERSIONS, 0, {}, correlation_id)


def produce(topic: str, batch: bytes, *, partition: int = 0, acks: int = -1, correlation_id: int = 0) -> bytes:
    partitions = [{"index": partition, "records": batch}]
    body = {"transactional_id": None, "acks": acks, "timeout": 30_000}
    return request(
        Api.PRODUCE, 9, body | {"topic_data": [{"name": topic, "partition_data": partitions}]}, correlation_id
    )


def fetch(topic: str, offset: int = 0, *, correlation_id: int = 0, **limits: int) -> bytes:
    """`limits` are the request's own: max_wait, min_bytes, max_bytes."""
    body = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 2**31 - 1} | limits
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": body["max_bytes"]}
    return request(
        Api.FETCH,
        11,
        body | {"topics": [{"topic": topic, "partitions": [partition]}], "forgotten_topics_data": []},
        correlation_id,
    )


def create_topics(*names: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> bytes:
    settings = [{"name": name, "value": value} for name, value in (configs or {}).items()]
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": settings}
        for name in names
    ]
    return request(Api.CREATE_TOPICS, 5, {"topics": topics, "timeout": 60_000, "validate_only": False})


def batch_of(*values: bytes) -> bytes:
    return build_batch([Record(value, timestamp=1_700_000_000_000) for value in values])


class Client:
    """One connection."""

    def __init__(self, address: tuple[str, int], *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        if receive_buffer is not None:  # before it is connected, or the window is larger already
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(address)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close without a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> bytes:
        """The next answer from its correlation id on; EOFError if the broker closed the connection."""
        (size,) = LENGTH.unpack(self._receive(LENGTH.size))
        return self._receive(size)

    def ask(self, api_key: int, version: int, body: Mapping[str, Any], correlation_id: int = 0) -> Message:
        self.send(request(api_key, version, body, correlation_id))
        return self.read(api_key, version, correlation_id)

    def read(self, api_key: int, version: int, correlation_id: int = 0) -> Message:
        """The next answer, which must be that of this request."""
        data = self.answer()
        found = LENGTH.unpack_from(data)[0]
        assert found == correlation_id, f"the answer is that of request {found}, not of {correlation_id}"
        start = 5 if schema(api_key, version).flexible_answer_header else 4
        return read_response(api_key, version, data, start)

    def is_answered(self) -> bool:
        """Whether the broker still talks to us."""
        try:
            self.send(who_are_you(12345))
            return self.answer()[:4] == LENGTH.pack(12345)
        except (OSError, EOFError):
            return False

    def is_closed(self) -> bool:
        """Whether the broker closes the connection; waits for it, and leaves what it says before unread."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def make_topics(address: tuple[str, int], *names: str, partitions: int = 1) -> None:
    with Client(address) as client:
        client.send(create_topics(*names, partitions=partitions))
        codes = {topic["name"]: topic["error_code"] for topic in client.read(Api.CREATE_TOPICS, 5)["topics"]}
        assert codes == dict.fromkeys(names, 0)


def produced(answer: Message) -> tuple[int, int]:
    """The error code and the offset of the only batch."""
    result = answer["responses"][0]["partition_responses"][0]
    return result["error_code"], result["base_offset"]


def fetched(answer: Message) -> tuple[int, bytes]:
    """The error code and the batches of the only partition."""
    result = answer["responses"][0]["partitions"][0]
    return result["error_code"], bytes(result["records"] or b"")


def fill(address: tuple[str, int], topic: str, size: int, count: int) -> None:
    """Append so many batches of about so many bytes."""
    batch = batch_of(bytes(size))
    with Client(address) as client:
        for number in range(count):
            client.send(produce(topic, batch, correlation_id=number))
            assert produced(client.read(Api.PRODUCE, 9, number))[0] == 0


def parsed_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)
