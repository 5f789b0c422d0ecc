"""Clients of two libraries that talk through a broker: producers, and members of consumer groups.

Each runs in a thread of its own until it is told to end, and tells `Promises` what it was told. A broker that is gone
for a while is no failure: the libraries wait and try again, which is their task.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import aiokafka
import confluent_kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

RATE = 2_500  # records a second that a producer sends at most
UNDER_WAY = 200  # records of a producer that wait for their acknowledgement
AT_ONCE = 500  # records that a member asks for
SECONDS_TO_SEND = 60.0
SHORTEST_WAIT = 0.005
RETRY_MS = 50

logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)  # it would tell of every attempt to reach a dead broker


class Promises(Protocol):
    def note_sent(self, producer: str, number: int) -> None: ...
    def note_acknowledged(self, producer: str, number: int, partition: int, offset: int) -> None: ...
    def note_read(self, group: str, partition: int, offset: int) -> None: ...
    def note_committed(self, group: str, offsets: dict[int, int]) -> None: ...


class Plan(Protocol):
    def __call__(self, producer: str, number: int) -> tuple[bytes, bytes]: ...


class Client:
    library: str

    def __init__(self, name: str, bootstrap: str, topic: str, promises: Promises) -> None:
        self.name = name
        self.records = 0  # acknowledged, or read
        self.failure: BaseException | None = None
        self._bootstrap = bootstrap
        self._topic = topic
        self._promises = promises
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Finish what is under way."""
        self._ending.set()
        self.join()

    def join(self) -> None:
        """Wait until it has ended, by itself or because it was told to."""
        self._thread.join()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.failure = error

    def _run(self) -> None:
        raise NotImplementedError


class Producer(Client):
    """Sends at its rate, as far as it is acknowledged, until it is told to end or has sent so many."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, promises: Promises, plan: Plan, limit: int | None = None
    ) -> None:
        super().__init__(name, bootstrap, topic, promises)
        self._plan = plan
        self._limit = limit
        self._sent = 0
        self._due = 0.0

    @property
    def _goes_on(self) -> bool:
        return not self._ending.is_set() and (self._limit is None or self._sent < self._limit)

    def _wait_for_turn(self) -> float:
        """How many seconds to wait before the next record, for the rate; time that was lost is not made up for."""
        now = time.monotonic()
        self._due = max(self._due + 1 / RATE, now)
        return self._due - now if self._due - now > SHORTEST_WAIT else 0.0

    def _next(self) -> tuple[int, bytes, bytes]:
        number = self._sent
        self._sent += 1
        self._promises.note_sent(self.name, number)
        return number, *self._plan(self.name, number)

    def _acknowledged(self, number: int, partition: int, offset: int) -> None:
        self.records += 1
        self._promises.note_acknowledged(self.name, number, partition, offset)


class Member(Client):
    """Reads as a member of a group, and commits what it has read."""

    def __init__(self, name: str, bootstrap: str, topic: str, promises: Promises, group: str) -> None:
        super().__init__(name, bootstrap, topic, promises)
        self.group = group
        self.partitions: list[int] = []

    def _read(self, partition: int, offset: int) -> None:
        self.records += 1
        self._promises.note_read(self.group, partition, offset)


# --- confluent-kafka, over librdkafka in C


class ConfluentProducer(Producer):
    library = "confluent-kafka"

    def _run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": RETRY_MS * 4,
                "log_level": 0,
            }
        )
        while self._goes_on:
            if self._sent - self.records >= UNDER_WAY:
                producer.poll(0.01)
                continue
            number, key, value = self._next()
            producer.produce(self._topic, value, key, on_delivery=self._delivered(number))
            producer.poll(self._wait_for_turn())
        left = producer.flush(SECONDS_TO_SEND)
        if left:
            raise TimeoutError(f"{left} records were not acknowledged within {SECONDS_TO_SEND:.0f} s")

    def _delivered(self, number: int) -> Any:
        def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self._acknowledged(number, message.partition(), message.offset())
            else:
                self.failure = confluent_kafka.KafkaException(error)

        return note


class ConfluentMember(Member):
    library = "confluent-kafka"

    def _run(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "reconnect.backoff.max.ms": RETRY_MS * 4,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._topic])
        committed = True
        try:
            while not self._ending.is_set() or not committed:
                messages = [message for message in consumer.consume(AT_ONCE, 0.1) if not message.error()]
                self.partitions = sorted(each.partition for each in consumer.assignment())
                for message in messages:
                    self._read(message.partition(), message.offset())
                if messages or not committed:
                    committed = self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: confluent_kafka.Consumer) -> bool:
        try:
            stored = consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            # Nothing to commit: another member has the partitions now. Otherwise the broker is gone: try again.
            return bool(error.args[0].code() == confluent_kafka.KafkaError._NO_OFFSET)
        done = {each.partition: each.offset for each in stored if each.error is None and each.offset >= 0}
        self._promises.note_committed(self.group, done)
        return len(done) == len(stored)


# --- aiokafka, in Python with asyncio


class AioProducer(Producer):
    library = "aiokafka"

    def _run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, enable_idempotence=True, linger_ms=5, retry_backoff_ms=RETRY_MS
        ) as producer:
            waiting: deque[tuple[int, asyncio.Future[Any]]] = deque()
            while self._goes_on:
                if len(waiting) >= UNDER_WAY:
                    await self._settle(waiting)
                number, key, value = self._next()
                waiting.append((number, await producer.send(self._topic, value, key)))
                await asyncio.sleep(self._wait_for_turn())
                while waiting and waiting[0][1].done():
                    await self._settle(waiting)
            while waiting:
                await self._settle(waiting)

    async def _settle(self, waiting: deque[tuple[int, asyncio.Future[Any]]]) -> None:
        number, answer = waiting.popleft()
        told = await answer
        self._acknowledged(number, told.partition, told.offset)


class AioMember(Member):
    library = "aiokafka"

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        async with aiokafka.AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(RangePartitionAssignor,),
            retry_backoff_ms=RETRY_MS,
        ) as consumer:
            committed = True
            while not self._ending.is_set() or not committed:
                batches = await consumer.getmany(timeout_ms=100, max_records=AT_ONCE)
                self.partitions = sorted(each.partition for each in consumer.assignment())
                for place, records in batches.items():
                    for record in records:
                        self._read(place.partition, record.offset)
                if batches or not committed:
                    committed = await self._commit(consumer)

    async def _commit(self, consumer: aiokafka.AIOKafkaConsumer) -> bool:
        offsets = {place: await consumer.position(place) for place in consumer.assignment()}
        try:
            await consumer.commit(offsets)
        except KafkaError:
            return False
        self._promises.note_committed(self.group, {place.partition: offset for place, offset in offsets.items()})
        return True


def failures(clients: Iterable[Client]) -> list[str]:
    return [f"{each.name} ({each.library}) gave up: {each.failure!r}" for each in clients if each.failure is not None]
