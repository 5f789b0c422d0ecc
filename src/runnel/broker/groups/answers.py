"""What a member is told, and the promise to tell it later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from runnel.broker.request import Answer, Body
from runnel.errors import BatchTooLarge, Closed, RunnelError, Transient
from runnel.protocol.error_codes import ErrorCode

Told = TypeVar("Told")


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    member_id: str
    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()  # all of them, for the leader


class SyncAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


def promise() -> Future[Told]:
    future: Future[Told] = Future()
    future.set_running_or_notify_cancel()  # a client that goes away takes nothing back
    return future


def kept(answer: Told) -> Future[Told]:
    future: Future[Told] = promise()
    future.set_result(answer)
    return future


def error_of(error: BaseException, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> ErrorCode:
    """What a client is told of entries that could not be stored."""
    if isinstance(error, BatchTooLarge):
        return too_large
    if isinstance(error, Transient | Closed):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients look for the coordinator and try again
    return ErrorCode.UNKNOWN_SERVER_ERROR


def told(
    future: Future[Told],
    body: Callable[[Told], Body],
    failed: Callable[[RunnelError], Body] | None = None,
) -> Answer:
    """The answer to a request, at once if it is known."""
    if future.done() and future.exception() is None:
        return body(future.result())
    return _later(future, body, failed)


async def _later(
    future: Future[Told], body: Callable[[Told], Body], failed: Callable[[RunnelError], Body] | None
) -> Body:
    try:
        return body(await asyncio.wrap_future(future))
    except RunnelError as error:
        if failed is None:
            raise
        return failed(error)
