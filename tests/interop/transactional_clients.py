"""The Python clients as transactional producers and as readers of committed records, behind one interface."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiokafka
import confluent_kafka

from tests.interop.python_clients import LIMIT, EventLoop, kafka

TIMEOUT = 60_000  # milliseconds
Places = Mapping[tuple[str, int], int]
Values = dict[int, list[bytes]]  # by partition


class Writer(ABC):
    """A transactional producer. `begin` and what follows are its own calls; an error is the library's own."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def write(self, topic: str, value: bytes, partition: int = 0) -> None: ...

    @abstractmethod
    def send_offsets(self, offsets: Places, group: str) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    def close(self) -> None:
        """Without waiting for what cannot be sent."""
        return


class ConfluentWriter(Writer):
    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        facts = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
        self._producer = confluent_kafka.Producer(facts | {"transaction.timeout.ms": TIMEOUT})
        self._producer.init_transactions(LIMIT)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.produce(topic, value, partition=partition)

    def send_offsets(self, offsets: Places, group: str) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        places = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            self._producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), LIMIT)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(LIMIT)

    def abort(self) -> None:
        self._producer.abort_transaction(LIMIT)


class AiokafkaWriter(Writer):
    def __init__(self, bootstrap: str, name: str) -> None:
        self._loop = EventLoop()
        self._producer = self._loop.run(self._started(bootstrap, name))

    async def _started(self, bootstrap: str, name: str) -> Any:
        facts = {"transactional_id": name, "transaction_timeout_ms": TIMEOUT}
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **facts)
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def write(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._loop.run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offsets(self, offsets: Places, group: str) -> None:
        places = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._loop.run(self._producer.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        with contextlib.suppress(aiokafka.errors.KafkaError):
            self._loop.run(self._producer.stop())
        self._loop.close()


class KafkaPythonWriter(Writer):
    def __init__(self, bootstrap: str, name: str) -> None:
        facts = {"transactional_id": name, "transaction_timeout_ms": TIMEOUT, "enable_idempotence": True}
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **facts)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition)

    def send_offsets(self, offsets: Places, group: str) -> None:
        places = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(places, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


WRITERS: Mapping[str, Callable[[str, str], Writer]] = {
    "confluent": ConfluentWriter,
    "aiokafka": AiokafkaWriter,
    "kafka-python": KafkaPythonWriter,
}


@contextlib.contextmanager
def writer(library: str, bootstrap: str, name: str) -> Iterator[Writer]:
    made = WRITERS[library](bootstrap, name)
    try:
        yield made
    finally:
        made.close()


# --- readers of committed records: each reads until every partition has told a last value


def read_by_confluent(bootstrap: str, topic: str, last: Mapping[int, bytes]) -> Values:
    facts = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer(facts | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in last])
    found: Values = {number: [] for number in last}
    try:
        while not _is_all(found, last):
            message = consumer.poll(LIMIT)
            assert message is not None, f"nothing more came after {found}"
            assert message.error() is None, message.error()
            found[message.partition()].append(message.value())
    finally:
        consumer.close()
    return found


def read_by_aiokafka(bootstrap: str, topic: str, last: Mapping[int, bytes]) -> Values:
    async def read() -> Values:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        found: Values = {number: [] for number in last}
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, number) for number in last])
            while not _is_all(found, last):
                message = await asyncio.wait_for(consumer.getone(), LIMIT)
                found[message.partition].append(message.value)
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


def read_by_kafka_python(bootstrap: str, topic: str, last: Mapping[int, bytes]) -> Values:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([kafka.TopicPartition(topic, number) for number in last])
    found: Values = {number: [] for number in last}
    with contextlib.closing(consumer):
        while not _is_all(found, last):
            polled = consumer.poll(timeout_ms=int(LIMIT * 1000))
            assert polled, f"nothing more came after {found}"
            for place, messages in polled.items():
                found[place.partition] += [message.value for message in messages]
    return found


def _is_all(found: Values, last: Mapping[int, bytes]) -> bool:
    return all(found[number][-1:] == [value] for number, value in last.items())


READERS: Mapping[str, Callable[[str, str, Mapping[int, bytes]], Values]] = {
    "confluent": read_by_confluent,
    "aiokafka": read_by_aiokafka,
    "kafka-python": read_by_kafka_python,
}


def committed_offset(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """What a group has committed, when no transaction can change it any more; -1001 if nothing."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (place,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], LIMIT)
        return int(place.offset)
    finally:
        consumer.close()
