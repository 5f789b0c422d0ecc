"""One connection to one broker, for what librdkafka does not offer: a question, and its answer.

    with Wire(("127.0.0.1", 9092), timeout=10) as wire:
        answer = wire.ask(Api.LIST_TRANSACTIONS, {"state_filters": ["Ongoing"], ...}, "listing the transactions")

It asks in the newest version that the broker and Runnel both know, and blocks for `timeout` seconds at most. It speaks
neither TLS nor SASL.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from runnel.client.errors import NotServed, Refused, TimedOut, Unreachable
from runnel.errors import MalformedRequest
from runnel.protocol.decode import Message, read_response
from runnel.protocol.encode import request_encoder
from runnel.protocol.frames import FIXED, LENGTH, NO_TAGS, skip_tags
from runnel.protocol.own import api_of
from runnel.protocol.schemas import schema, versions
from runnel.protocol.versions import Api, Versions

CLIENT_ID = b"runnel"
LARGEST_ANSWER = 64 * 1024 * 1024
MEETING_VERSION = 0  # of ApiVersions: every broker answers it, whatever else it serves

Address = tuple[str, int]


class Wire:
    def __init__(self, address: Address, timeout: float) -> None:
        self.address = _shown(address)
        self._timeout = timeout
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, timeout)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a machine may vanish without a word
        except TimeoutError:
            raise Unreachable(self.address, "no answer in time") from None
        except OSError as error:
            raise Unreachable(self.address, (error.strerror or str(error)).lower()) from None
        self._served: dict[int, Versions] | None = None

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def serves(self, api_key: int) -> bool:
        """Whether the broker knows the API in some version that Runnel knows."""
        return self._version(api_key) is not None

    def ask(self, api_key: int, body: Mapping[str, Any], doing: str, *, patient: bool = False) -> Message:
        """The answer; `patient` waits for it as long as the connection lasts. `doing` is for errors."""
        version = self._version(api_key)
        if version is None:
            raise NotServed(doing, api_name(api_key), self.address)
        return self._exchange(api_key, version, body, doing, None if patient else self._timeout)

    # --- inside

    def _version(self, api_key: int) -> int | None:
        if self._served is None:
            self._served = self._meet()
        served = self._served.get(api_key)
        return max((version for version in versions(api_key) if served and version in served), default=None)

    def _meet(self) -> dict[int, Versions]:
        doing = "asking what the broker serves"
        answer = self._exchange(Api.API_VERSIONS, MEETING_VERSION, {}, doing, self._timeout)
        return {row["api_key"]: Versions(row["min_version"], row["max_version"]) for row in answer["api_keys"]}

    def _exchange(
        self, api_key: int, version: int, body: Mapping[str, Any], doing: str, seconds: float | None
    ) -> Message:
        deadline = None if seconds is None else time.monotonic() + seconds
        self._correlation_id += 1
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(request(api_key, version, self._correlation_id, body))
            answer = receive(self._socket, deadline)
            return read_answer(api_key, version, self._correlation_id, answer)
        except TimeoutError:
            raise TimedOut(self.address, doing) from None
        except OSError as error:
            raise Unreachable(self.address, (error.strerror or str(error)).lower()) from None
        except MalformedRequest as error:
            raise Refused(doing, f"the answer of {self.address} cannot be read: {error.what}") from None


def request(api_key: int, version: int, correlation_id: int, body: Mapping[str, Any]) -> bytes:
    """The bytes of a request, with the length before them."""
    encoder = request_encoder(api_key, version)
    header = FIXED.pack(api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    whole = b"".join((header, NO_TAGS if encoder.flexible_header else b"", *map(bytes, encoder(body))))
    return LENGTH.pack(len(whole)) + whole


def receive(connection: socket.socket, deadline: float | None) -> bytes:
    """The next answer, without its length; OSError if there is none, TimeoutError if it comes too late."""
    (size,) = LENGTH.unpack(_exactly(connection, LENGTH.size, deadline))
    if not LENGTH.size <= size <= LARGEST_ANSWER:
        raise OSError(f"an answer of {size} bytes")
    return _exactly(connection, size, deadline)


def read_answer(api_key: int, version: int, correlation_id: int, answer: bytes) -> Message:
    (found,) = LENGTH.unpack_from(answer)
    if found != correlation_id:
        raise MalformedRequest(f"it answers request {found} instead of {correlation_id}")
    has_tags = schema(api_key, version).flexible_answer_header
    start = skip_tags(answer, LENGTH.size) if has_tags else LENGTH.size
    return read_response(api_key, version, answer, start)


def api_name(api_key: int) -> str:
    """As Kafka writes it: ListTransactions."""
    return "".join(word.capitalize() for word in api_of(api_key).name.split("_"))


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("the broker closed the connection")
        data += part
    return bytes(data)


def _shown(address: Address) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
