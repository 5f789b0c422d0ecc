"""Fetch (1), versions 4 to 18: read record batches, and wait for them.

- Data begins with the batch that holds the offset. At least one batch is given, however large, in the first partition
  that has any; otherwise the limits of the request, of the partition, of `fetch.max.bytes` and of the quota hold.
- With less than `min_bytes` there, the answer waits for appends, for `max_wait` at most. An error is told at once.
- From version 13 on topics are named by their id. A stale or a future leader epoch is FENCED or UNKNOWN.
- Fetch sessions (KIP-227) are declined: the answer's session is 0, so clients send the whole list each time. Going on
  with a session is FETCH_SESSION_ID_NOT_FOUND.
- A topic that is deleted ends the wait for it with an error, as if it had never been there.
- With isolation level 1 (read_committed) nothing is given from the first offset of an open transaction on, and the
  aborted transactions are named whose records the client is to leave out. What some producer was told is committed is
  given: if its marker is on its way, the answer waits for that first, also where `max_wait` is 0. If the marker is late
  (a disk is ill), the answer is as for an open transaction.
- Followers do not exist: the fields of replicas are not looked at.
- What is not in memory is read by a thread: the disk holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple

from runnel.broker.mistakes import code_of, epoch_mistake
from runnel.broker.node import Node
from runnel.broker.request import Answer, Body, LongPoll, Request
from runnel.broker.topics import Topic
from runnel.broker.transactions import TopicPartition
from runnel.errors import Closed, OffsetOutOfRange, RunnelError
from runnel.log import Batches, Partition
from runnel.protocol.error_codes import ErrorCode
from runnel.records import parse_header

IDS_SINCE = 13
READ_COMMITTED = 1
WITHOUT_SESSION = (0, -1)  # epochs of a session that begins, or ends: the request names all that is wanted


def handle(node: Node, request: Request) -> Answer:
    if request.body["session_epoch"] not in WITHOUT_SESSION:
        return _answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    return Fetching(node, request).start()


class Wanted(NamedTuple):
    """A partition that is there, and the place of its answer."""

    partition: Partition
    offset: int
    max_bytes: int
    result: dict[str, Any]
    committed: bool  # only what is committed

    @property
    def end(self) -> int:
        return self.partition.last_stable_offset if self.committed else self.partition.end_offset

    @property
    def has_more(self) -> bool:
        return self.end > self.offset


class Fetching:
    """One request on its way."""

    def __init__(self, node: Node, request: Request) -> None:
        self._node = node
        self._request = request
        self._wanted: list[Wanted] = []
        self._failed = False
        self._answer: LongPoll | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._had = 0  # bytes when the wait began
        self._grew_from: list[tuple[int, int]] = []  # what the partitions' last segments were then
        self._committed: bool = request.body["isolation_level"] == READ_COMMITTED
        self._responses = [self._topic(asked) for asked in request.body["topics"]]

    def start(self) -> Answer:
        """Answer at once, or when there is enough."""
        transactions = self._node.transactions
        if self._committed and transactions.are_ending and transactions.when_readable(self._places(), self._go_on):
            self._answer = LongPoll(loop=self._node.loop)
            return self._answer
        return self._wait(LongPoll(loop=self._node.loop)) if self._must_wait_for_more() else self._read_now()

    def _places(self) -> set[TopicPartition]:
        return {
            TopicPartition(topic.name, partition["partition"])
            for asked in self._request.body["topics"]
            if (topic := self._find(asked)) is not None
            for partition in asked["partitions"]
        }

    def _go_on(self) -> None:
        """With the markers that were on their way."""
        if self._answer is None or self._answer.done():  # its client is gone
            return
        try:
            is_gone = any(wanted.partition.closed for wanted in self._wanted)  # deleted meanwhile: it wakes nobody
            if is_gone or not self._must_wait_for_more():
                self._finish()
            else:
                self._wait(self._answer)
        except Exception as error:  # the connection waits for an answer
            if not self._answer.done():
                self._answer.set_exception(error)

    # --- what is asked for

    def _find(self, asked: dict[str, Any]) -> Topic | None:
        by_id = self._request.version >= IDS_SINCE
        topics = self._node.topics
        return topics.find_id(asked["topic_id"]) if by_id else topics.find(asked["topic"])

    def _topic(self, asked: dict[str, Any]) -> dict[str, Any]:
        topic = self._find(asked)
        results = []
        for partition in asked["partitions"]:
            result = _result(partition["partition"], committed=self._committed)
            results.append(result)
            if topic is None:
                self._fail(result, self._unknown)
                continue
            try:
                self._want(topic.partition(partition["partition"]), partition, result)
            except IndexError:
                self._fail(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            except RunnelError as error:
                self._fail(result, code_of(error))
        return {"topic": asked["topic"], "topic_id": asked["topic_id"], "partitions": results}

    @property
    def _unknown(self) -> ErrorCode:
        by_id = self._request.version >= IDS_SINCE
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _want(self, partition: Partition, asked: dict[str, Any], result: dict[str, Any]) -> None:
        mistake = epoch_mistake(partition, asked["current_leader_epoch"])
        start, end = partition.start_offset, partition.end_offset
        result["high_watermark"], result["last_stable_offset"] = end, partition.last_stable_offset
        result["log_start_offset"] = start
        if mistake:
            self._fail(result, mistake)
        elif not start <= asked["fetch_offset"] <= end:
            self._fail(result, ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            most = asked["partition_max_bytes"]
            self._wanted.append(Wanted(partition, asked["fetch_offset"], most, result, self._committed))

    def _fail(self, result: dict[str, Any], code: ErrorCode) -> None:
        result["error_code"] = code
        self._failed = True

    # --- waiting

    def _must_wait_for_more(self) -> bool:
        body = self._request.body
        minimum: int = body["min_bytes"]
        if self._failed or not self._wanted or minimum <= 0 or body["max_wait"] <= 0 or self._node.stopping:
            return False
        if minimum == 1:
            return not any(wanted.has_more for wanted in self._wanted)
        self._grew_from = [wanted.partition.growing for wanted in self._wanted]  # first: what comes meanwhile counts
        self._had = self._bytes_there()
        return self._had < minimum

    def _bytes_there(self) -> int:
        """How much there is, as far as it is in memory; what is older is taken for enough."""
        there = 0
        enough: int = self._request.body["min_bytes"]
        for wanted in self._wanted:
            try:
                batches = wanted.partition.read_in_memory(wanted.offset, wanted.max_bytes)
            except RunnelError:  # told when it is read
                return enough
            there += len(up_to(batches, wanted.end).data) if batches is not None else enough
        return there

    def _wait(self, answer: LongPoll) -> LongPoll:
        self._answer = answer
        partitions = [wanted.partition for wanted in self._wanted]
        answer.add_done_callback(self._leave)
        self._timer = self._node.loop.call_later(self._request.body["max_wait"] / 1000, self._finish)
        self._node.waits.add(partitions, self._woken)
        self._woken()
        return answer

    def _woken(self) -> None:
        """Is it enough by now?"""
        if self._node.stopping or any(wanted.partition.closed for wanted in self._wanted):
            self._finish()
            return
        minimum = self._request.body["min_bytes"]
        enough = any(wanted.has_more for wanted in self._wanted)
        if enough and minimum > 1:
            enough = self._bytes_by_now() >= minimum
        if enough:
            self._finish()

    def _bytes_by_now(self) -> int:
        """What was there and what has come since, without looking at all of it each time, nor at a disk."""
        if self._committed:
            return self._bytes_there()  # what an end makes readable was there before
        there = self._had
        for wanted, (base_offset, size) in zip(self._wanted, self._grew_from, strict=True):
            base_offset_now, size_now = wanted.partition.growing
            if base_offset_now != base_offset:  # there is another segment since
                return self._bytes_there()
            there += size_now - size
        return there

    def _finish(self) -> None:
        if self._answer is None or self._answer.done():
            return
        given = self._read_now()
        if isinstance(given, Awaitable):
            self._leave(self._answer)
            task = asyncio.ensure_future(given)
            task.add_done_callback(self._hand_over)
        else:
            self._answer.set_result(given)

    def _hand_over(self, task: asyncio.Future[Body]) -> None:
        if self._answer is None or self._answer.done():
            return
        error = task.exception()
        if error is not None:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(task.result())

    def _leave(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._node.waits.remove([wanted.partition for wanted in self._wanted], self._woken)

    # --- reading

    def _read_now(self) -> Body | Awaitable[Body]:
        if self._read(self._limit(), in_memory=True):
            return self._body()
        return self._read_in_thread()

    async def _read_in_thread(self) -> Body:
        node = self._node
        async with node.disk_reads:
            limit = self._limit()
            with node.unsent.held(limit):
                await node.in_thread(self._read, limit)
        return self._body()

    def _limit(self) -> int:
        most = min(self._request.body["max_bytes"], self._node.settings.fetch_max_bytes)
        return self._node.unsent.allowance(self._node.consumable(self._request.client_id, most))

    def _read(self, limit: int, *, in_memory: bool = False) -> bool:
        """Read what there is, up to the limit; False if that needs the disk and `in_memory` forbids it."""
        for wanted in self._wanted:
            wanted.result["records"] = b""  # of all: what memory had is no reason to leave out a large batch
        for wanted in self._wanted:
            partition, offset, max_bytes, result, _ = wanted
            try:
                if partition.closed and not self._node.stopping:
                    raise Closed(f"partition {partition.id}")
                stable = partition.last_stable_offset  # before anything is read: what is aborted is asked for after it
                if wanted.has_more and (limit > 0 or not self._has_some):
                    most = min(max_bytes, limit)
                    batches = partition.read_in_memory(offset, most) if in_memory else partition.read(offset, most)
                    if batches is None:
                        return False
                    self._take(up_to(batches, stable) if self._committed else batches, result, most)
                    if self._committed and result["records"]:
                        result["aborted_transactions"] = _aborted(partition, offset, min(batches.next_offset, stable))
                    limit -= len(result["records"])
                result["high_watermark"], result["last_stable_offset"] = partition.end_offset, stable
                result["log_start_offset"] = partition.start_offset
            except (RunnelError, OSError) as error:
                self._refuse(result, error)
        return True

    def _take(self, batches: Batches, result: dict[str, Any], most: int) -> None:
        """A batch that is larger than allowed is given only if it is the first of all."""
        if len(batches.data) <= most or not self._has_some:
            result["records"] = batches.data

    @property
    def _has_some(self) -> bool:
        return any(wanted.result["records"] for wanted in self._wanted)

    def _refuse(self, result: dict[str, Any], error: RunnelError | OSError) -> None:
        result["records"] = b""
        if isinstance(error, OffsetOutOfRange):
            result["log_start_offset"] = error.start
        if isinstance(error, Closed):  # it was deleted
            self._fail(result, self._unknown)
        else:
            self._fail(result, code_of(error) if isinstance(error, RunnelError) else ErrorCode.KAFKA_STORAGE_ERROR)

    def _body(self) -> dict[str, Any]:
        size = sum(len(wanted.result["records"]) for wanted in self._wanted)
        throttle = self._node.throttle_consumer(self._request.client_id, size)
        return _answer(ErrorCode.NONE, self._responses, throttle)


def up_to(batches: Batches, end: int) -> Batches:
    """Those that are wholly before the offset `end`."""
    if batches.next_offset <= end:
        return batches
    position, next_offset = 0, end
    while position < len(batches.data):
        header = parse_header(batches.data, position)
        if header.last_offset >= end:
            next_offset = header.base_offset
            break
        position += header.size
    return Batches(memoryview(batches.data)[:position], next_offset)


def _aborted(partition: Partition, offset: int, end: int) -> list[dict[str, int]]:
    return [
        {"producer_id": aborted.producer_id, "first_offset": aborted.first_offset}
        for aborted in partition.aborted(offset, end)
    ]


def _result(partition: int, *, committed: bool) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": ErrorCode.NONE,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": () if committed else None,
        "preferred_read_replica": -1,
        "records": b"",
    }


def _answer(error: ErrorCode, responses: list[dict[str, Any]], throttle: int = 0) -> dict[str, Any]:
    return {"throttle_time": throttle, "error_code": error, "session_id": 0, "responses": responses}
