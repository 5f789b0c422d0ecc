"""Stands between members and their broker, and notes what they say to each other about one group.

It is the proxy of the transactions' tests without its faults. A request is noted before the broker has it, an answer
before the client has it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from runnel.broker.groups.consumer.embedded import read_assignment, read_subscription
from runnel.protocol.decode import Message, read_request, read_response
from runnel.protocol.frames import parse_header
from runnel.protocol.schemas import schema
from runnel.protocol.versions import Api
from tests.interop.groups.history import Beat, ClassicBeat, Commit, Exchange, Join, Leave, Partitions, Sync
from tests.transactions.proxy import LENGTH, Proxy, Request, Upstream

CORRELATION_ID = 4


class Recorder(Proxy):
    """`exchanges` grows while it runs; look at a copy."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.exchanges: list[Exchange] = []

    async def _forward(self, request: Request, upstream: Upstream) -> asyncio.Future[bytes]:
        asked = time.monotonic_ns()
        answer = await super()._forward(request, upstream)
        if request.key in READERS:
            # It is called before the client gets the answer: whoever asked for a call first is called first.
            answer.add_done_callback(partial(self._note, request, asked))
        return answer

    def _note(self, request: Request, asked: int, answer: asyncio.Future[bytes]) -> None:
        answered = time.monotonic_ns()
        said = body_of(request)
        read = READERS[request.key]
        if answer.cancelled() or answer.exception() is not None:
            self.exchanges += read(said, None, asked, None)
        else:
            self.exchanges += read(said, answer_of(request, answer.result()), asked, answered)


def body_of(request: Request) -> Message:
    end = len(request.frame)
    return read_request(request.frame, parse_header(request.frame, LENGTH.size, end), end)


def answer_of(request: Request, frame: bytes) -> Message:
    known = schema(request.key, request.version)
    start = LENGTH.size + CORRELATION_ID + known.flexible_answer_header
    return read_response(request.key, request.version, frame, start)


# --- what requests and answers say; without an answer: None


def _beat(said: Message, answer: Message | None, *times: Any) -> Iterator[Exchange]:
    given = None if answer is None or answer["assignment"] is None else answer["assignment"]["topic_partitions"]
    yield Beat(
        *times,
        said["member_id"],
        _error(answer),
        epoch=said["member_epoch"],
        owned=_numbers(said["topic_partitions"]),
        new_epoch=-1 if answer is None else answer["member_epoch"],
        given=_numbers(given),
    )


def _join(said: Message, answer: Message | None, *times: Any) -> Iterator[Exchange]:
    member = said["member_id"] or (answer or said)["member_id"]
    owned = read_subscription(bytes(said["protocols"][0]["metadata"])).owned
    generation = -1 if answer is None else answer["generation_id"]
    yield Join(*times, member, _error(answer), frozenset(number for _, number in owned), generation)


def _sync(said: Message, answer: Message | None, *times: Any) -> Iterator[Exchange]:
    given = () if answer is None else read_assignment(bytes(answer["assignment"]))
    places = frozenset(number for _, number in given)
    yield Sync(*times, said["member_id"], _error(answer), said["generation_id"], places)


def _classic_beat(said: Message, answer: Message | None, *times: Any) -> Iterator[Exchange]:
    yield ClassicBeat(*times, said["member_id"], _error(answer), said["generation_id"])


def _leave(said: Message, answer: Message | None, *times: Any) -> Iterator[Exchange]:
    members = [each["member_id"] for each in said["members"]] or [said["member_id"]]
    yield from (Leave(*times, member, _error(answer)) for member in members)


def _commit(said: Message, answer: Message | None, *times: Any) -> Iterator[Exchange]:
    errors = {} if answer is None else dict(_errors(answer["topics"]))
    for topic in said["topics"]:
        for each in topic["partitions"]:
            number = each["partition_index"]
            who = (said["member_id"], errors.get(number))
            yield Commit(*times, *who, said["generation_id_or_member_epoch"], number, each["committed_offset"])


READERS = {
    Api.CONSUMER_GROUP_HEARTBEAT: _beat,
    Api.JOIN_GROUP: _join,
    Api.SYNC_GROUP: _sync,
    Api.HEARTBEAT: _classic_beat,
    Api.LEAVE_GROUP: _leave,
    Api.OFFSET_COMMIT: _commit,
}


def _error(answer: Message | None) -> int | None:
    return None if answer is None else answer["error_code"]


def _errors(topics: Iterable[Message]) -> Iterator[tuple[int, int]]:
    for topic in topics:
        yield from ((each["partition_index"], each["error_code"]) for each in topic["partitions"])


def _numbers(topics: Iterable[Message] | None) -> Partitions | None:
    return None if topics is None else frozenset(number for topic in topics for number in topic["partitions"])
