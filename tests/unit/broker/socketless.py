"""Connections without sockets: a transport that notes what it is told, a loop whose time stands still, own handlers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.connection import Connection
from runnel.broker.limits import Unsent
from runnel.broker.request import Answer, Request
from runnel.broker.server import Server
from runnel.protocol.versions import Api
from runnel.testing import StoppedClock

LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hhih")


class Loop(asyncio.SelectorEventLoop):
    """Its timers go off when a test moves the time, and its turns are counted."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0

    def time(self) -> float:
        return self._seconds

    def turn(self, times: int = 1) -> None:
        """Run what is ready now."""
        for _ in range(times):
            self.call_soon(self.stop)
            self.run_forever()

    def advance(self, seconds: float) -> None:
        self._seconds += seconds
        self.turn(2)


class Transport:
    """As much of asyncio.Transport as a connection uses."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.written = b""
        self.reading = True
        self.aborted = self.closed = False
        self.unsent = 0
        self._host = host

    def get_extra_info(self, name: str) -> Any:
        return (self._host, 50_000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(bytes(part) for part in parts))

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True

    @property
    def answers(self) -> list[int]:
        """The correlation ids of the answers, in the order in which they left."""
        found, position = [], 0
        while position < len(self.written):
            size, correlation_id = struct.unpack_from(">ii", self.written, position)
            found.append(correlation_id)
            position += 4 + size
        return found


class Handlers:
    """Notes the requests that are begun. Answers at once, or when the test says so."""

    def __init__(self, loop: Loop) -> None:
        self.begun: list[Request] = []
        self.later: dict[int, asyncio.Future[Any]] = {}  # by correlation id
        self.at_once = True
        self.answer: Callable[[Request], Answer] | None = None
        self._loop = loop

    def __call__(self, _: object, request: Request) -> Answer:
        self.begun.append(request)
        if self.answer is not None:
            return self.answer(request)
        if self.at_once:
            return self.body()
        future = self.later[request.correlation_id] = self._loop.create_future()
        return future

    @property
    def ids(self) -> list[int]:
        return [request.correlation_id for request in self.begun]

    def body(self, **fields: Any) -> dict[str, Any]:
        """Fits ApiVersions v0 and Heartbeat."""
        return {"error_code": 0, "api_keys": [], "throttle_time": 0} | fields


class Room:
    """A server without sockets, in which connections talk to the handlers of the test."""

    def __init__(self, loop: Loop, settings: BrokerSettings) -> None:
        self.loop = loop
        self.clock = StoppedClock()
        self.handlers = Handlers(loop)
        node = SimpleNamespace(loop=loop, settings=settings, clock=self.clock, unsent=Unsent())
        self.server = Server(node)  # type: ignore[arg-type]

    def connect(self, host: str = "10.0.0.1") -> tuple[Connection, Transport]:
        connection, transport = Connection(self.server, "PLAINTEXT"), Transport(host)
        connection.connection_made(transport)  # type: ignore[arg-type]
        return connection, transport


@contextmanager
def room(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Room]:
    loop = Loop()
    try:
        made = Room(loop, BrokerSettings(**settings))
        monkeypatch.setattr("runnel.broker.connection.handler_of", lambda _: made.handlers)
        yield made
    finally:
        loop.close()


def ask(correlation_id: int, size: int = 0) -> bytes:
    """An ApiVersions request, as large as wanted: what comes after its fields is nobody's business."""
    return frame(HEADER.pack(Api.API_VERSIONS, 0, correlation_id, -1) + bytes(size))


def heartbeat(correlation_id: int) -> bytes:
    """A request whose answer has a throttle time."""
    body = struct.pack(">h1si h1s", 1, b"g", 1, 1, b"m")
    return frame(HEADER.pack(Api.HEARTBEAT, 1, correlation_id, -1) + body)


def fetch(correlation_id: int) -> bytes:
    body = struct.pack(">iiiibi", -1, 0, 0, 0, 0, 0)
    return frame(HEADER.pack(Api.FETCH, 4, correlation_id, -1) + body)


def frame(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data
