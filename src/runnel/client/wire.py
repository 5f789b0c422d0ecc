"""One connection to one broker, for what librdkafka does not offer: a question, and its answer.

    with Wire(("127.0.0.1", 9092), timeout=10) as wire:
        answer = wire.ask(Api.LIST_TRANSACTIONS, {"state_filters": ["Ongoing"], ...}, "listing the transactions")

It asks in the newest version that the broker and Runnel both know, and blocks for `timeout` seconds at most. `security`
says how it speaks: plain, TLS, and with a login or without. `send` and `receive` are the halves of `ask`, for whoever
has something to do in between. A broker that asks for a pause (`throttle_time`) gets it before the next request.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from runnel.client.errors import InsecureConnection, NotServed, Refused, TimedOut, Unreachable
from runnel.client.frames import AsksForTls, reason_of, receive
from runnel.client.security import PLAIN, Security
from runnel.errors import MalformedRequest
from runnel.protocol.decode import Message, read_response
from runnel.protocol.encode import request_encoder
from runnel.protocol.frames import FIXED, LENGTH, NO_TAGS, skip_tags
from runnel.protocol.own import api_of
from runnel.protocol.schemas import schema, versions
from runnel.protocol.versions import Api, Versions

CLIENT_ID = b"runnel"
SOFTWARE = {"client_software_name": "runnel", "client_software_version": "0"}  # to ask what a broker serves
MEETING_VERSION = 0  # of ApiVersions: every broker answers it, whatever else it serves

Address = tuple[str, int]


class Sent(NamedTuple):
    """A request under way, by which its answer is read."""

    api_key: int
    version: int
    correlation_id: int


class Wire:
    def __init__(self, address: Address, timeout: float, security: Security = PLAIN) -> None:
        self.address = _shown(address)
        self._timeout = timeout
        self._correlation_id = 0
        self._quiet_until = 0.0
        try:
            connection = socket.create_connection(address, timeout)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a machine may vanish without a word
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError:
            raise Unreachable(self.address, "no answer in time") from None
        except OSError as error:
            raise Unreachable(self.address, reason_of(error)) from None
        self._socket, seconds = security.secure(connection, address[0], self.address, timeout)
        self._login_ends = None if seconds is None else time.monotonic() + seconds
        self._served: dict[int, Versions] | None = None

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def is_worn(self) -> bool:
        """Whether it is not worth asking on any more: its login is about to end, or the broker has closed it."""
        if self._login_ends is not None and time.monotonic() >= self._login_ends:
            return True
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        return bool(ready.poll(0))  # no answer is due, so what can be read is the end

    def serves(self, api_key: int) -> bool:
        """Whether the broker knows the API in some version that Runnel knows."""
        return self.version(api_key) is not None

    def version(self, api_key: int, most: int | None = None) -> int | None:
        """The newest that both know, and at most `most`; None if there is none."""
        if self._served is None:
            self._served = self._meet()
        served = self._served.get(api_key)
        known = (version for version in versions(api_key) if served and version in served)
        return max((version for version in known if most is None or version <= most), default=None)

    def ask(
        self,
        api_key: int,
        body: Mapping[str, Any],
        doing: str,
        *,
        patient: bool = False,
        least: int = 0,
        most: int | None = None,
    ) -> Message:
        """The answer; `patient` waits for it as long as the connection lasts. `doing` is for errors.

        `least` and `most` are versions, where not every one will do.
        """
        return self.receive(self.send(api_key, body, doing, least=least, most=most), doing, patient=patient)

    def send(
        self, api_key: int, body: Mapping[str, Any], doing: str, *, least: int = 0, most: int | None = None
    ) -> Sent:
        """Answers come in the order of the requests, and each has to be received."""
        version = self.version(api_key, most)
        if version is None or version < least:
            raise NotServed(doing, api_name(api_key), self.address)
        return self._send(api_key, version, body, doing)

    def receive(self, sent: Sent, doing: str, *, patient: bool = False) -> Message:
        deadline = None if patient else time.monotonic() + self._timeout
        try:
            if patient:
                self._socket.settimeout(None)
            answer = receive(self._socket, deadline)
            told = read_answer(*sent, answer)
        except TimeoutError:
            raise TimedOut(self.address, doing) from None
        except AsksForTls:
            hint = "set security.protocol to SSL or SASL_SSL, or name another listener of the broker"
            raise InsecureConnection(self.address, "it asks for TLS", hint=hint) from None
        except OSError as error:
            raise Unreachable(self.address, reason_of(error)) from None
        except MalformedRequest as error:
            raise Refused(doing, f"the answer of {self.address} cannot be read: {error.what}") from None
        if pause := told.get("throttle_time"):
            self._quiet_until = time.monotonic() + pause / 1_000
        return told

    # --- inside

    def _meet(self) -> dict[int, Versions]:
        doing = "asking what the broker serves"
        answer = self.receive(self._send(Api.API_VERSIONS, MEETING_VERSION, {}, doing), doing)
        return {row["api_key"]: Versions(row["min_version"], row["max_version"]) for row in answer["api_keys"]}

    def _send(self, api_key: int, version: int, body: Mapping[str, Any], doing: str) -> Sent:
        if (pause := self._quiet_until - time.monotonic()) > 0:
            time.sleep(pause)
        self._correlation_id += 1
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(request(api_key, version, self._correlation_id, body))
        except TimeoutError:
            raise TimedOut(self.address, doing) from None
        except OSError as error:
            raise Unreachable(self.address, reason_of(error)) from None
        return Sent(api_key, version, self._correlation_id)


def request(api_key: int, version: int, correlation_id: int, body: Mapping[str, Any]) -> bytes:
    """The bytes of a request, with the length before them."""
    encoder = request_encoder(api_key, version)
    header = FIXED.pack(api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    whole = b"".join((header, NO_TAGS if encoder.flexible_header else b"", *map(bytes, encoder(body))))
    return LENGTH.pack(len(whole)) + whole


def read_answer(api_key: int, version: int, correlation_id: int, answer: bytes | bytearray) -> Message:
    (found,) = LENGTH.unpack_from(answer)
    if found != correlation_id:
        raise MalformedRequest(f"it answers request {found} instead of {correlation_id}")
    has_tags = schema(api_key, version).flexible_answer_header
    start = skip_tags(answer, LENGTH.size) if has_tags else LENGTH.size
    return read_response(api_key, version, answer, start)


def api_name(api_key: int) -> str:
    """As Kafka writes it: ListTransactions."""
    return "".join(word.capitalize() for word in api_of(api_key).name.split("_"))


def _shown(address: Address) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
