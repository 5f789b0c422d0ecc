"""Three client libraries of others behind one face, so that a test can be told of each and of every pair.

    LIBRARIES["aiokafka"].write(bootstrap, topic, records, compression="zstd")
    with LIBRARIES["confluent"].member(bootstrap, Membership(group="readers", topics=(topic,))) as member:
        read = poll_until(lambda read: len(read) == len(records), member)

The face says only what every library can do. It adds nothing of its own: no retries, no caches, no defaults beyond
short intervals, so that a test need not wait for them.

As a program it is a member of a group that reads until it is killed:

    python -m tests.interop.python_clients LIBRARY BOOTSTRAP GROUP TOPIC SESSION_MILLISECONDS
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import aiokafka
import confluent_kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky

from runnel.records import Record

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.net.inet import KafkaNetSocket

LIMIT = 60.0  # seconds for what takes a moment on an idle machine
POLL = 0.05  # seconds that one look for records may wait
HEARTBEAT = 100  # milliseconds
LINGER = 10_000  # milliseconds that a batch waits for more, unless it is full or flushed
FETCH_WAIT = 100  # milliseconds; a consumer that closes may wait for its last fetch
METADATA_AGE = 250  # milliseconds after which a client looks for new topics and partitions

Partition = tuple[str, int]
Answer = TypeVar("Answer")


class Read(NamedTuple):
    """A record and where it was."""

    topic: str
    partition: int
    record: Record

    @property
    def offset(self) -> int:
        return self.record.offset


class Fenced(Exception):
    """Another member has taken this one's name."""


@dataclass(frozen=True)
class Membership:
    """What a consumer asks of its group."""

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str = "range"
    instance: str | None = None
    session: int = 45_000  # milliseconds: nobody is taken for dead because the machine is busy


class Member(ABC):
    """A consumer. Without a membership it reads only what it was told to."""

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def poll(self) -> list[Read]:
        """What has come; it waits a moment for it. Who does not poll is no member for long."""

    @abstractmethod
    def assign(self, *partitions: Partition) -> None:
        """Read these partitions from their beginnings, outside of any group's rules."""

    @abstractmethod
    def assignment(self) -> set[Partition]: ...

    @abstractmethod
    def commit(self, offsets: Mapping[Partition, int]) -> None: ...

    @abstractmethod
    def committed(self, partition: Partition) -> int | None: ...

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None: ...

    @abstractmethod
    def pause(self, partition: Partition) -> None: ...

    @abstractmethod
    def resume(self, partition: Partition) -> None: ...

    @abstractmethod
    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        """The first offset with this time or a later one; None if there is none."""

    @abstractmethod
    def ends(self, partition: Partition) -> tuple[int, int]:
        """The offsets of the partition's first record and of the next one to be written."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group, unless it knows this member by name."""


class Library(ABC):
    """A client library."""

    name: str
    assignors: tuple[str, ...]

    @abstractmethod
    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
        largest: int = 1_000_000,
    ) -> list[int]:
        """Write the records, with batches of up to `largest` bytes, and tell their offsets."""

    @abstractmethod
    def member(self, bootstrap: str, membership: Membership | None = None) -> Member: ...

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]:
        """The first records of a partition."""
        with self.member(bootstrap) as member:
            member.assign((topic, partition))
            return [read.record for read in poll_until(lambda read: len(read) >= count, member)]


def poll_until(done: Callable[[list[Read]], bool], *members: Member) -> list[Read]:
    """Poll the members in turn until what they have read is enough."""
    read: list[Read] = []
    deadline = time.monotonic() + LIMIT
    while not done(read):
        if time.monotonic() > deadline:
            assigned = [sorted(member.assignment()) for member in members]
            raise AssertionError(f"not after {LIMIT:.0f} s; {len(read)} records read, and assigned are {assigned}")
        for member in members:
            read += member.poll()
    return read


# --- confluent-kafka


class ConfluentMember(Member):
    def __init__(self, bootstrap: str, membership: Membership | None) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": membership.group if membership else "none",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": FETCH_WAIT,
            "topic.metadata.refresh.interval.ms": METADATA_AGE,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        if membership is not None:
            settings |= {
                "partition.assignment.strategy": membership.assignor,
                "session.timeout.ms": membership.session,
                "heartbeat.interval.ms": HEARTBEAT,
            }
            if membership.instance is not None:
                settings["group.instance.id"] = membership.instance
        self._consumer = confluent_kafka.Consumer(settings)
        if membership is not None:
            self._consumer.subscribe([membership.pattern] if membership.pattern else list(membership.topics))

    def poll(self) -> list[Read]:
        read = []
        for message in self._consumer.consume(1_000, POLL):
            error = message.error()
            if error is None:
                read.append(_read_by_confluent(message))
            elif error.code() != error.UNKNOWN_TOPIC_OR_PART:  # a topic that is deleted, and may come back
                raise _fenced(error) or AssertionError(str(error))
        return read

    def assign(self, *partitions: Partition) -> None:
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(*each, beginning) for each in partitions])

    def assignment(self) -> set[Partition]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
        try:
            for result in self._consumer.commit(offsets=wanted, asynchronous=False):
                assert result.error is None, result.error
        except confluent_kafka.KafkaException as error:
            raise _fenced(error.args[0]) or error from error

    def committed(self, partition: Partition) -> int | None:
        (found,) = self._consumer.committed([confluent_kafka.TopicPartition(*partition)], LIMIT)
        assert found.error is None, found.error
        return None if found.offset == confluent_kafka.OFFSET_INVALID else int(found.offset)

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(confluent_kafka.TopicPartition(*partition, offset))

    def pause(self, partition: Partition) -> None:
        self._consumer.pause([confluent_kafka.TopicPartition(*partition)])

    def resume(self, partition: Partition) -> None:
        self._consumer.resume([confluent_kafka.TopicPartition(*partition)])

    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        (found,) = self._consumer.offsets_for_times([confluent_kafka.TopicPartition(*partition, timestamp)], LIMIT)
        assert found.error is None, found.error
        return None if found.offset == confluent_kafka.OFFSET_END else int(found.offset)

    def ends(self, partition: Partition) -> tuple[int, int]:
        first, following = self._consumer.get_watermark_offsets(confluent_kafka.TopicPartition(*partition), LIMIT)
        return first, following

    def close(self) -> None:
        self._consumer.close()


def _fenced(error: confluent_kafka.KafkaError) -> Fenced | None:
    return Fenced(str(error)) if error.code() in (error.FENCED_INSTANCE_ID, error._FATAL) else None


def _read_by_confluent(message: Any) -> Read:
    _, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    record = Record(message.value(), message.key(), timestamp, headers, message.offset())
    return Read(message.topic(), message.partition(), record)


class Confluent(Library):
    name = "confluent"
    assignors = ("range", "roundrobin", "cooperative-sticky")

    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
        largest: int = 1_000_000,
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": compression,
                "enable.idempotence": idempotent,
                "batch.size": largest,
                "batch.num.messages": len(records),
                "message.max.bytes": largest + 100_000,
                "linger.ms": LINGER,
                "log_level": 0,
            }
        )
        told: list[tuple[Any, Any]] = []
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=lambda error, message: told.append((error, message.offset())),
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        assert producer.flush(LIMIT) == 0
        assert [error for error, _ in told if error is not None] == []
        return [offset for _, offset in told]

    def member(self, bootstrap: str, membership: Membership | None = None) -> Member:
        return ConfluentMember(bootstrap, membership)


# --- aiokafka

AIOKAFKA_ASSIGNORS = {"range": AiokafkaRange, "roundrobin": AiokafkaRoundRobin, "sticky": AiokafkaSticky}


class EventLoop:
    """An event loop in a thread, for a client that lives in one while the test does not."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.start(work).result(LIMIT)

    def start(self, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


class AiokafkaMember(Member):
    def __init__(self, bootstrap: str, membership: Membership | None) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": FETCH_WAIT,
            "metadata_max_age_ms": METADATA_AGE,
        }
        if membership is not None:
            settings |= {
                "group_id": membership.group,
                "group_instance_id": membership.instance,
                "session_timeout_ms": membership.session,
                "heartbeat_interval_ms": HEARTBEAT,
                "partition_assignment_strategy": (AIOKAFKA_ASSIGNORS[membership.assignor],),
            }
        self._look: Future[Any] | None = None
        self._events = EventLoop()
        self._consumer = self._events.run(self._started(settings, membership))

    @staticmethod
    async def _started(settings: dict[str, Any], membership: Membership | None) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        if membership is not None:  # only now, because `start` would wait for an assignment
            consumer.subscribe(topics=membership.topics, pattern=membership.pattern)
        return consumer

    def poll(self) -> list[Read]:
        # A look that meets a rebalance lasts as long as that, and the rebalance as long as nobody polls the others.
        if self._look is None:
            records = self._consumer.getmany(timeout_ms=int(POLL * 1000), max_records=1_000)
            self._look = self._events.start(records)
        if not wait([self._look], 2 * POLL).done:
            return []
        look, self._look = self._look, None
        return [_read_by_kafka_python(message) for messages in look.result().values() for message in messages]

    def assign(self, *partitions: Partition) -> None:
        async def assign() -> None:
            self._consumer.assign([aiokafka.TopicPartition(*each) for each in partitions])

        self._events.run(assign())

    def assignment(self) -> set[Partition]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = {aiokafka.TopicPartition(*each): offset for each, offset in offsets.items()}
        self._events.run(self._consumer.commit(wanted))

    def committed(self, partition: Partition) -> int | None:
        found: int | None = self._events.run(self._consumer.committed(aiokafka.TopicPartition(*partition)))
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(aiokafka.TopicPartition(*partition), offset)

        self._events.run(seek())

    def pause(self, partition: Partition) -> None:
        async def pause() -> None:
            self._consumer.pause(aiokafka.TopicPartition(*partition))

        self._events.run(pause())

    def resume(self, partition: Partition) -> None:
        async def resume() -> None:
            self._consumer.resume(aiokafka.TopicPartition(*partition))

        self._events.run(resume())

    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        wanted = aiokafka.TopicPartition(*partition)
        found = self._events.run(self._consumer.offsets_for_times({wanted: timestamp}))[wanted]
        return None if found is None else int(found.offset)

    def ends(self, partition: Partition) -> tuple[int, int]:
        wanted = aiokafka.TopicPartition(*partition)
        first = self._events.run(self._consumer.beginning_offsets([wanted]))[wanted]
        return first, self._events.run(self._consumer.end_offsets([wanted]))[wanted]

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
        self._events.run(self._consumer.stop())
        self._events.close()


class Aiokafka(Library):
    name = "aiokafka"
    assignors = tuple(AIOKAFKA_ASSIGNORS)

    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
        largest: int = 1_000_000,
    ) -> list[int]:
        async def write() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if compression == "none" else compression,
                enable_idempotence=idempotent,
                max_batch_size=largest,
                max_request_size=largest + 100_000,
            )
            async with producer:
                # Nothing is sent before the batch is full or this coroutine waits, so that batches are large.
                under_way = [
                    await producer.send(
                        topic, record.value, record.key, partition, record.timestamp, list(record.headers)
                    )
                    for record in records
                ]
                return [acknowledged.offset for acknowledged in await asyncio.gather(*under_way)]

        return asyncio.run(write())

    def member(self, bootstrap: str, membership: Membership | None = None) -> Member:
        return AiokafkaMember(bootstrap, membership)


# --- kafka-python


class ClosedWhenForgotten(socket.socket):
    """kafka-python 3.0.12 may forget a socket when it is closed; Python would warn, in whatever test runs then."""

    def __del__(self) -> None:
        self.close()


KafkaNetSocket.socket = lambda _, family, kind, protocol: ClosedWhenForgotten(family, kind, protocol)

KAFKA_PYTHON_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(Member):
    def __init__(self, bootstrap: str, membership: Membership | None) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": None,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": FETCH_WAIT,
            "metadata_max_age_ms": METADATA_AGE,
            "allow_auto_create_topics": False,
        }
        if membership is not None:
            settings |= {
                "group_id": membership.group,
                "group_instance_id": membership.instance,
                "session_timeout_ms": membership.session,
                "heartbeat_interval_ms": HEARTBEAT,
                "partition_assignment_strategy": [KAFKA_PYTHON_ASSIGNORS[membership.assignor]],
            }
        self._consumer = kafka.KafkaConsumer(**settings)
        if membership is not None:
            self._consumer.subscribe(topics=membership.topics, pattern=membership.pattern)

    def poll(self) -> list[Read]:
        polled = self._consumer.poll(timeout_ms=int(POLL * 1000), max_records=1_000)
        coordinator = self._consumer._coordinator
        if coordinator is not None and coordinator._join_task is not None:
            # kafka-python 3.0.12 forgets a join that outlasts a poll, on any broker, if new metadata were its reason.
            coordinator.rejoin_needed = True
        return [_read_by_kafka_python(message) for messages in polled.values() for message in messages]

    def assign(self, *partitions: Partition) -> None:
        self._consumer.assign([kafka.TopicPartition(*each) for each in partitions])

    def assignment(self) -> set[Partition]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = {kafka.TopicPartition(*each): kafka.OffsetAndMetadata(at, "", -1) for each, at in offsets.items()}
        try:
            self._consumer.commit(wanted)
        except kafka.errors.FencedInstanceIdError as error:
            raise Fenced(str(error)) from error

    def committed(self, partition: Partition) -> int | None:
        found: int | None = self._consumer.committed(kafka.TopicPartition(*partition))
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(kafka.TopicPartition(*partition), offset)

    def pause(self, partition: Partition) -> None:
        self._consumer.pause(kafka.TopicPartition(*partition))

    def resume(self, partition: Partition) -> None:
        self._consumer.resume(kafka.TopicPartition(*partition))

    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        wanted = kafka.TopicPartition(*partition)
        found = self._consumer.offsets_for_times({wanted: timestamp})[wanted]
        return None if found is None else int(found.offset)

    def ends(self, partition: Partition) -> tuple[int, int]:
        wanted = kafka.TopicPartition(*partition)
        return self._consumer.beginning_offsets([wanted])[wanted], self._consumer.end_offsets([wanted])[wanted]

    def close(self) -> None:
        self._consumer.close()


def _read_by_kafka_python(message: Any) -> Read:
    """Of kafka-python, and of aiokafka, which began as its copy."""
    record = Record(message.value, message.key, message.timestamp, tuple(message.headers), message.offset)
    return Read(message.topic, message.partition, record)


class KafkaPython(Library):
    name = "kafka-python"
    assignors = tuple(KAFKA_PYTHON_ASSIGNORS)

    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: str = "none",
        idempotent: bool = False,
        largest: int = 1_000_000,
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            acks="all",
            batch_size=largest,
            max_request_size=largest + 100_000,
            linger_ms=LINGER,
        )
        with contextlib.closing(producer):
            under_way = [
                producer.send(topic, record.value, record.key, list(record.headers), partition, record.timestamp)
                for record in records
            ]
            producer.flush(LIMIT)
            return [sent.get(LIMIT).offset for sent in under_way]

    def member(self, bootstrap: str, membership: Membership | None = None) -> Member:
        return KafkaPythonMember(bootstrap, membership)


LIBRARIES: Mapping[str, Library] = {library.name: library for library in (Confluent(), Aiokafka(), KafkaPython())}


@contextlib.contextmanager
def members(bootstrap: str, *wanted: tuple[Library, Membership]) -> Iterator[list[Member]]:
    """Several members, which all leave at the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(library.member(bootstrap, membership)) for library, membership in wanted]


def main(library: str, bootstrap: str, group: str, topic: str, session: str) -> None:
    membership = Membership(group, (topic,), session=int(session))
    with LIBRARIES[library].member(bootstrap, membership) as member:
        while True:
            member.poll()


if __name__ == "__main__":
    main(*sys.argv[1:])
