"""Produce and consume for programs on asyncio, over aiokafka: the same values and errors, and any Kafka.

    async with AsyncProducer("127.0.0.1:9092") as producer:
        token = await producer.produce("orders", b"tea", key=b"7")

    async with AsyncConsumer("127.0.0.1:9092", "orders", group="kitchen") as records:
        async for record in records: ...

A consumer follows the topic until it is closed. In a `group`, a record counts as done when the loop asks for the next
one; what is done is committed by `commit` and at the end. When the group shares its partitions anew, what is done and
not committed by then is read again, by whoever gets it. Without a group it reads all partitions and commits nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, Unpack

from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.errors import (  # type: ignore[import-untyped]
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)

from runnel.client import arguments
from runnel.client.connection import Connection
from runnel.client.errors import Busy, RecordTooLarge, Refused, TimedOut, UnknownPartition, UnknownTopic, Unreachable
from runnel.client.producer import About
from runnel.client.records import Received, Token
from runnel.errors import RunnelError
from runnel.settings import INT64_MAX
from runnel.start import EARLIEST, LATEST, Place, Start

POLL_SECONDS = 0.01


class AsyncProducer:
    """Idempotent, and waits for all replicas. Settings are aiokafka's, by its names."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._bootstrap = Connection(bootstrap).bootstrap
        own = {"enable_idempotence": True, "acks": "all", "client_id": "runnel"}
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **(own | settings))

    async def produce(self, topic: str, value: bytes | None, **about: Unpack[About]) -> Token:
        """Write a record, wait until it is safe, and return where it is."""
        written = await self.submit(topic, value, **about)
        with _told(self._bootstrap, "writing a record", topic):
            return await written

    async def submit(self, topic: str, value: bytes | None, **about: Unpack[About]) -> asyncio.Future[Token]:
        """Hand a record in, when there is room for it; the future gives its token."""
        arguments.topic_name(topic)
        if (timestamp := about.get("timestamp")) is not None:
            arguments.whole("timestamp", timestamp, 0, INT64_MAX)
        headers = arguments.headers(about.get("headers") or ())
        await self._check(topic, about.get("partition"))
        with _told(self._bootstrap, "writing a record", topic):
            written = await self._producer.send(
                topic,
                value,
                about.get("key"),
                about.get("partition"),
                timestamp,
                headers,
            )
        return asyncio.ensure_future(_token(self._bootstrap, topic, written))

    async def flush(self) -> None:
        """Wait until all that was handed in is written or has failed."""
        await self._producer.flush()

    async def __aenter__(self) -> Self:
        with _told(self._bootstrap, "connecting"):
            try:
                await self._producer.start()
            except BaseException:
                await self._producer.stop()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._producer.stop()

    async def _check(self, topic: str, partition: int | None) -> None:
        if partition is None:
            return
        with _told(self._bootstrap, "finding the partitions", topic):
            there = await self._producer.partitions_for(topic)
        if partition not in there:
            raise UnknownPartition(topic, partition, len(there))


class AsyncConsumer:
    """Follows one topic. Settings are aiokafka's, by its names."""

    def __init__(
        self, bootstrap: str, topic: str, *, start: Start = EARLIEST, group: str | None = None, **settings: Any
    ) -> None:
        self._bootstrap = Connection(bootstrap).bootstrap
        self._topic = topic
        self._start = start
        self._group = group
        own = {
            "group_id": group,
            "client_id": "runnel",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "auto_offset_reset": "latest" if start == LATEST else "earliest",
        }
        self._consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **(own | settings))
        self._next: dict[TopicPartition, int] = {}  # what is done and not committed yet
        self._shared_anew = _SharedAnew(self._next)

    async def __aiter__(self) -> AsyncIterator[Received]:
        while True:
            with _told(self._bootstrap, "reading records", self._topic):
                record = await self._consumer.getone()
            times = self._shared_anew.times
            yield Received(
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple(record.headers),
            )
            if times == self._shared_anew.times:
                self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1

    async def commit(self) -> None:
        """Commit what is done now."""
        if self._group is None or not self._next:
            return
        done = dict(self._next)
        with _told(self._bootstrap, "committing offsets", self._topic):
            await self._consumer.commit(done)
        for place, offset in done.items():
            if self._next.get(place) == offset:  # else more was done meanwhile
                del self._next[place]

    async def __aenter__(self) -> Self:
        with _told(self._bootstrap, "connecting", self._topic):
            try:
                await self._consumer.start()
                await self._begin()
            except BaseException:
                await self._consumer.stop()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            await self.commit()
        finally:
            await self._consumer.stop()

    async def _begin(self) -> None:
        if self._topic not in await self._consumer.topics():
            raise UnknownTopic(self._topic)
        self._consumer.subscribe([self._topic], listener=self._shared_anew)
        if self._group is not None:
            if self._start.place not in (Place.EARLIEST, Place.LATEST):
                raise ValueError("a group begins at the earliest or the latest record, or where it has committed")
            return
        while not self._consumer.assignment():  # without a group it gets all partitions, as soon as it has met them
            await asyncio.sleep(POLL_SECONDS)
        for place, offset in (await self._offsets(sorted(self._consumer.assignment()))).items():
            self._consumer.seek(place, offset)

    async def _offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self._start.place is Place.OFFSET:
            return dict.fromkeys(places, arguments.offset(self._start.number))
        if self._start.place is Place.EARLIEST:
            return dict(await self._consumer.beginning_offsets(places))
        ends = dict(await self._consumer.end_offsets(places))
        if self._start.place is Place.LATEST:
            return ends
        found = await self._consumer.offsets_for_times(dict.fromkeys(places, self._start.number))
        return ends | {place: each.offset for place, each in found.items() if each is not None}


class _SharedAnew(ConsumerRebalanceListener):  # type: ignore[misc]
    """Forgets what was done when a group shares its partitions anew: they may be another member's now, and aiokafka
    refuses a commit that has one of those, with all that is right in it.
    """

    def __init__(self, done: dict[TopicPartition, int]) -> None:
        self.times = 0
        self._done = done

    def on_partitions_revoked(self, _revoked: set[TopicPartition]) -> None:
        self.times += 1
        self._done.clear()

    def on_partitions_assigned(self, _assigned: set[TopicPartition]) -> None: ...


async def _token(bootstrap: str, topic: str, written: asyncio.Future[Any]) -> Token:
    with _told(bootstrap, "writing a record", topic):
        about = await written
    return Token(about.topic, about.partition, about.offset)


@contextmanager
def _told(bootstrap: str, doing: str, topic: str = "") -> Iterator[None]:
    """Errors of aiokafka as ours."""
    try:
        yield
    except UnicodeDecodeError as error:
        hint = "aiokafka does not read a header with such a name; runnel.client.Consumer does"
        raise Refused(doing, f"a record has text that is not UTF-8: {error.object!r}", hint=hint) from None
    except KafkaError as error:
        raise _error(error, bootstrap, doing, topic) from None


def _error(error: KafkaError, bootstrap: str, doing: str, topic: str) -> RunnelError:
    reason = " ".join(str(error).split())
    if isinstance(error, KafkaConnectionError | NodeNotReadyError):
        return Unreachable(bootstrap, reason)
    if isinstance(error, UnknownTopicOrPartitionError):
        return UnknownTopic(topic)
    if isinstance(error, MessageSizeTooLargeError):
        return RecordTooLarge(topic, reason)
    if isinstance(error, KafkaTimeoutError | RequestTimedOutError):
        return TimedOut(bootstrap, doing)
    return (Busy if error.retriable else Refused)(doing, reason)
