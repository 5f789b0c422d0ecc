"""The clients of the workload, each a process of its own until its input ends.

    python -m tests.transactions.clients '{"kind": "writer", ...}'

writer   writes transactions of unique values to several partitions, aborts some, and dawdles in the midst of others;
loop     reads one partition of the input as committed, writes an output for each record, and commits its offset in the
         same transaction;
copier   does the same from partition to partition with the values as they are, until all is copied;
reader   reads all partitions from the start with one isolation level, and asks for the loops' offsets.

A writer and a loop exist in two generations: `confluent` is librdkafka, whose transactions are of the first, `modern`
is of the second. All is recorded in the history. A client that is fenced ends with `FENCED`, one that does not know
what became of its transaction with `UNSURE` or `STUCK`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka import Producer as ConfluentProducer

from tests.transactions.history import (
    READ_COMMITTED,
    Aborted,
    Aborting,
    Acknowledged,
    Begin,
    Committed,
    Committing,
    GroupOffset,
    Initialised,
    Place,
    Poll,
    Position,
    Recorder,
    Seen,
    Send,
    SendOffsets,
    Trouble,
)
from tests.transactions.modern_producer import ModernProducer, NoAnswer, Refused

Answer = TypeVar("Answer")
INPUT, OUTPUT = "input", "output"
GROUP = "loops"
FENCED = 3
UNSURE = 4
STUCK = 5
PATIENCE = 10.0  # seconds for one step of a transaction
ATTEMPT = 5.0  # seconds for one call of librdkafka
STUCK_AFTER = 8.0  # seconds; a step of librdkafka sometimes does not come back though it was given less
RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


@dataclass(frozen=True)
class Settings:
    kind: str
    generation: str
    name: str
    incarnation: int
    bootstrap: str
    history: str
    seed: str
    partitions: int
    partition: int = 0  # of the input, for a loop
    isolation: str = READ_COMMITTED
    timeout_ms: int = 3000  # of a transaction
    aborts: float = 0.3
    dawdles: float = 0.005  # how many pauses last until the transaction's time is over
    largest: int = 6  # records in a transaction
    pause: float = 0.01  # between two steps of a transaction
    until: int = 0  # the offset at which a copier is done

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class MustAbort(Exception):
    """The transaction cannot be committed, the producer can go on."""


class MustEnd(Exception):
    """The producer cannot go on. `code` is the exit code."""

    def __init__(self, why: object, code: int = FENCED) -> None:
        super().__init__(str(why))
        self.code = code


class Producer(Protocol):
    """What the two generations have in common; each step raises MustAbort or MustEnd."""

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None: ...

    def send_offset(self, topic: str, partition: int, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def idle(self, seconds: float) -> None: ...


class Confluent:
    """librdkafka."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        self._recorder = recorder
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": settings.bootstrap,
                "transactional.id": settings.name,
                "transaction.timeout.ms": settings.timeout_ms,
                "message.timeout.ms": settings.timeout_ms,
                "request.timeout.ms": 3000,
                "socket.timeout.ms": settings.timeout_ms,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "linger.ms": 1,
                "error_cb": lambda error: None,  # or poll and flush would raise it; the next step does anyway
                **RECONNECT,
            }
        )
        self._group = Consumer({"bootstrap.servers": settings.bootstrap, "group.id": GROUP, **RECONNECT})
        self._step_began: float | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """End the process when a step does not come back: what it did is unknown then."""
        while True:
            time.sleep(1)
            began = self._step_began
            if began is not None and time.monotonic() > began + STUCK_AFTER:
                self._recorder.note(Trouble, f"a step of librdkafka did not come back in {STUCK_AFTER} s")
                os._exit(STUCK)

    def init(self) -> None:
        self._insist(lambda: self._producer.init_transactions(ATTEMPT))

    def begin(self) -> None:
        self._insist(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        for value in values:
            self._send(topic, partition, value)

    def _send(self, topic: str, partition: int, value: str) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._recorder.note(Acknowledged, value, Place(topic, partition, message.offset()))

        self._insist(lambda: self._producer.produce(topic, value, partition=partition, on_delivery=delivered))

    def send_offset(self, topic: str, partition: int, offset: int) -> None:
        offsets, group = [TopicPartition(topic, partition, offset)], self._group.consumer_group_metadata()
        self._insist(lambda: self._producer.send_offsets_to_transaction(offsets, group, ATTEMPT))

    def commit(self) -> None:
        self._insist(lambda: self._producer.commit_transaction(ATTEMPT))

    def abort(self) -> None:
        # Seen once, on Apache Kafka: after an abort with a record still waiting to be sent again, a record of the next
        # transaction was acknowledged at that one's offset, and is in no log. As far as the history tells, its
        # sequence number was used twice. So nothing may be left to purge.
        self._insist(lambda: self._producer.flush(ATTEMPT))
        if len(self._producer):
            raise MustEnd("records are under way, and an abort would purge them", UNSURE)
        self._insist(lambda: self._producer.abort_transaction(ATTEMPT))

    def idle(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._insist(lambda: self._producer.poll(min(left, 1.0)))

    def _insist(self, step: Callable[[], object]) -> None:
        """Try again what may be tried again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._step_began = time.monotonic()
                step()
                return
            except (KafkaException, SystemError) as problem:
                # A fatal error inside of poll or flush comes wrapped in a SystemError.
                error = (problem.__cause__ if isinstance(problem, SystemError) else problem).args[0]
                if error.fatal():
                    raise MustEnd(error) from problem
                if error.txn_requires_abort():
                    raise MustAbort(str(error)) from problem
                if not error.retriable() or time.monotonic() > deadline:
                    raise MustEnd(error, UNSURE) from problem
            finally:
                self._step_began = None


class Modern:
    """The producer of modern_producer.py."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        host, _, port = settings.bootstrap.rpartition(":")
        self._recorder = recorder
        self._producer = ModernProducer((host, int(port)), settings.name, settings.timeout_ms, PATIENCE)

    def init(self) -> None:
        self._step(self._producer.init)

    def begin(self) -> None:
        pass

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        offset = self._step(lambda: self._producer.send(topic, partition, values))
        if offset is not None:
            for number, value in enumerate(values, offset):
                self._recorder.note(Acknowledged, value, Place(topic, partition, number))

    def send_offset(self, topic: str, partition: int, offset: int) -> None:
        self._step(lambda: self._producer.send_offset(GROUP, topic, partition, offset))

    def commit(self) -> None:
        self._step(self._producer.commit)

    def abort(self) -> None:
        self._step(self._producer.abort)

    def idle(self, seconds: float) -> None:
        time.sleep(seconds)

    def _step(self, step: Callable[[], Answer]) -> Answer:
        try:
            return step()
        except NoAnswer as problem:
            raise MustEnd(problem, UNSURE) from problem
        except Refused as problem:
            if problem.fatal:
                raise MustEnd(problem) from problem
            raise MustAbort(str(problem)) from problem


GENERATIONS: dict[str, Callable[[Settings, Recorder], Producer]] = {"confluent": Confluent, "modern": Modern}


class Client:
    """What writers and loops have in common: transactions that are recorded."""

    def __init__(self, settings: Settings, recorder: Recorder, ended: threading.Event) -> None:
        self.settings = settings
        self.recorder = recorder
        self.ended = ended
        self.chance = random.Random(settings.seed)
        self.producer = GENERATIONS[settings.generation](settings, recorder)
        self._number = 0
        self._values = 0

    def init(self) -> None:
        self.producer.init()
        self.recorder.note(Initialised)

    def begin(self) -> str:
        self._number += 1
        self._values = 0
        name = f"{self.recorder.name}/{self._number}"
        self.producer.begin()
        self.recorder.note(Begin, name)
        return name

    def send(self, transaction: str, topic: str, partition: int, origins: Sequence[Place | None] = (None,)) -> None:
        """Send a new value for each of the origins."""
        values = []
        for origin in origins:
            self._values += 1
            values.append(f"{transaction}/{self._values}")
            self.recorder.note(Send, transaction, values[-1], topic, partition, origin)
        self.producer.send(topic, partition, values)

    def end(self, transaction: str) -> bool:
        """Commit or abort, as chance wants; whether it was committed."""
        if self.chance.random() >= self.settings.aborts:
            self.recorder.note(Committing, transaction)
            self.producer.commit()
            self.recorder.note(Committed, transaction)
            return True
        self.abort(transaction)
        return False

    def abort(self, transaction: str) -> None:
        self.recorder.note(Aborting, transaction)
        self.producer.abort()
        self.recorder.note(Aborted, transaction)

    def pause(self) -> None:
        """In a transaction: a short one, or one until its time is over."""
        if self.chance.random() < self.settings.dawdles:
            self.producer.idle(self.settings.timeout_ms / 1000 + 1)
        else:
            self.pause_shortly()

    def pause_shortly(self) -> None:
        self.producer.idle(self.chance.uniform(0, 2 * self.settings.pause))


def write(settings: Settings, recorder: Recorder, ended: threading.Event) -> None:
    client = Client(settings, recorder, ended)
    client.init()
    while not ended.is_set():
        client.pause_shortly()
        transaction = client.begin()
        try:
            for _ in range(client.chance.randint(1, settings.largest)):
                together = [None] * client.chance.choice((1, 1, 1, 3))
                client.send(transaction, INPUT, client.chance.randrange(settings.partitions), together)
                client.pause()
            client.end(transaction)
        except MustAbort as problem:
            recorder.note(Trouble, f"{transaction}: {problem}")
            client.abort(transaction)


def committed_consumer(settings: Settings) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": READ_COMMITTED,
            **RECONNECT,
        }
    )


def loop(settings: Settings, recorder: Recorder, ended: threading.Event) -> None:
    client = Client(settings, recorder, ended)
    client.init()
    consumer = committed_consumer(settings)
    _go_to_committed(settings, recorder, consumer)
    while not ended.is_set():
        messages = [each for each in consumer.consume(settings.largest, 0.2) if each.error() is None]
        if not messages:
            continue
        records = tuple(map(_seen, messages))
        recorder.note(Poll, READ_COMMITTED, records)
        transaction = client.begin()
        try:
            for seen in records:
                client.send(transaction, OUTPUT, client.chance.randrange(settings.partitions), [seen.place])
            position = Place(INPUT, settings.partition, records[-1].place.offset + 1)
            client.pause()
            recorder.note(SendOffsets, transaction, GROUP, position)
            client.producer.send_offset(*position)
            client.pause()
            if client.end(transaction):
                continue
        except MustAbort as problem:
            recorder.note(Trouble, f"{transaction}: {problem}")
            client.abort(transaction)
        _go_to_committed(settings, recorder, consumer)
    consumer.close()


def copy(settings: Settings, recorder: Recorder, ended: threading.Event) -> None:
    """Until as many records of the partition as `until` says are there. Of the records nothing is recorded."""
    client = Client(settings, recorder, ended)
    client.init()
    consumer = committed_consumer(settings)
    place = _go_to_committed(settings, recorder, consumer)
    while place.offset < settings.until and not ended.is_set():
        most = client.chance.randint(1, settings.largest)
        messages = [each for each in consumer.consume(most, 0.2) if each.error() is None]
        if not messages:
            continue
        transaction = client.begin()
        try:
            records = [_seen(message) for message in messages]
            client.producer.send(OUTPUT, settings.partition, [seen.value for seen in records])
            place = Place(INPUT, settings.partition, records[-1].place.offset + 1)
            client.producer.send_offset(*place)
            if client.end(transaction):
                continue
        except MustAbort as problem:
            recorder.note(Trouble, f"{transaction}: {problem}")
            client.abort(transaction)
        place = _go_to_committed(settings, recorder, consumer)
    consumer.close()


def _go_to_committed(settings: Settings, recorder: Recorder, consumer: Consumer) -> Place:
    offset = max(0, _group_offset(consumer, recorder, settings.partition) or 0)
    place = Place(INPUT, settings.partition, offset)
    recorder.note(Position, place)
    consumer.assign([TopicPartition(*place)])
    return place


def _group_offset(consumer: Consumer, recorder: Recorder, partition: int) -> int | None:
    """Ask until there is an answer."""
    while True:
        asked = time.monotonic_ns()
        try:
            (found,) = consumer.committed([TopicPartition(INPUT, partition)], 5)
        except KafkaException as problem:
            recorder.note(Trouble, f"the group's offset: {problem}")
            continue
        if found.error is None:
            offset = None if found.offset == OFFSET_INVALID else found.offset
            recorder.note(GroupOffset, GROUP, INPUT, partition, offset, asked)
            return offset


def read(settings: Settings, recorder: Recorder, ended: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": settings.isolation,
            "fetch.wait.max.ms": 50,
            **RECONNECT,
        }
    )
    places = [Place(topic, partition, 0) for topic in (INPUT, OUTPUT) for partition in range(settings.partitions)]
    for place in places:
        recorder.note(Position, place)
    consumer.assign([TopicPartition(*place) for place in places])
    look_again = 0.0
    while not ended.is_set():
        messages = [each for each in consumer.consume(100, 0.1) if each.error() is None]
        if messages:
            recorder.note(Poll, settings.isolation, tuple(map(_seen, messages)))
        if time.monotonic() > look_again:
            look_again = time.monotonic() + 0.2
            _look_at_offsets(settings, recorder, consumer)
    consumer.close()


def _look_at_offsets(settings: Settings, recorder: Recorder, consumer: Consumer) -> None:
    asked = time.monotonic_ns()
    try:
        answers = consumer.committed([TopicPartition(INPUT, number) for number in range(settings.partitions)], 1)
    except KafkaException:
        return  # the broker is not there, or the offsets are not stable
    for found in answers:
        if found.error is None:
            offset = None if found.offset == OFFSET_INVALID else found.offset
            recorder.note(GroupOffset, GROUP, INPUT, found.partition, offset, asked)


def _seen(message: Message) -> Seen:
    value = message.value()
    assert value is not None
    return Seen(Place(message.topic() or "", message.partition() or 0, message.offset() or 0), value.decode())


PROGRAMS = {"writer": write, "loop": loop, "copier": copy, "reader": read}


def main(text: str) -> int:
    settings = Settings(**json.loads(text))
    recorder = Recorder(Path(settings.history), settings.name, settings.incarnation)
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        PROGRAMS[settings.kind](settings, recorder, ended)
    except MustEnd as problem:
        recorder.note(Trouble, str(problem))
        return problem.code
    except MustAbort as problem:  # while it aborted: so it cannot
        recorder.note(Trouble, str(problem))
        return UNSURE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
