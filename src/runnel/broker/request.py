"""A request as a handler sees it, and what a handler may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from runnel.protocol.decode import Message
from runnel.protocol.own import api_of

if TYPE_CHECKING:
    from runnel.broker.node import Node


class Peer(Protocol):
    """Who sent it: one connection."""

    host: str  # the client's address
    listener: str  # the name of the listener it came in by

    def give_up(self, reason: str) -> None:
        """End the connection, with a line in the log."""
        ...


class Request(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Message  # has every field that some version has, see protocol/decode.py
    peer: Peer
    size: int  # of the frame, in bytes

    @property
    def name(self) -> str:
        """As people look for it: PRODUCE v12."""
        return f"{api_of(self.api_key).name} v{self.version}"


class Silence(NamedTuple):
    """There is no answer: a producer asked for none. It may have to wait all the same."""

    throttle: int = 0


class Encoded(NamedTuple):
    """An answer that is encoded already, for the version that was asked in."""

    data: bytes
    throttle: int = 0


Body = Mapping[str, Any] | Silence | Encoded  # a mapping is encoded by protocol/encode.py


class Later:
    """An answer that is given on the event loop when it is there: what a future is, without its cost."""

    __slots__ = ("_body", "_tell")

    def __init__(self) -> None:
        self._body: Body | None = None
        self._tell: Callable[[Body], object] | None = None

    def give(self, body: Body) -> None:
        self._body = body
        if self._tell is not None:
            self._tell(body)

    def then(self, tell: Callable[[Body], object]) -> None:
        self._tell = tell
        if self._body is not None:
            tell(self._body)


Answer = Body | Later | Awaitable[Body]  # what takes time comes later; the answers of a connection keep their order
Handler = Callable[["Node", Request], Answer]


class LongPoll(asyncio.Future[Body]):
    """An answer that may take long, and that nobody needs when its client is gone: it is cancelled then."""
