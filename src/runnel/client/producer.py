"""Writes records to any Kafka.

- `produce` waits and returns the record's token; `submit` returns a future of it; `send` returns at once and tells a
  callback, which is the fastest.
- A producer is idempotent and waits for all replicas: a record is written once, and in the order in which it was
  handed in for its partition.
- A full queue makes the caller wait, for `timeout` seconds at most. A record that could not be written within
  `timeout` seconds has failed.
- Nothing is lost in silence: `flush` and `close` raise RecordsLost if a record of `submit` or `send` was not written.

Callbacks and futures are served by a thread of the producer's, or by a caller that waits in `send` or `flush`; a
callback must be quick.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as KafkaProducer

from runnel.client import arguments
from runnel.client.connection import LOGGER, Connection, Faults, Settings
from runnel.client.errors import LATE, QueueFull, RecordsLost, TimedOut, UnknownPartition, Unreachable, told
from runnel.client.records import Token
from runnel.errors import Closed, RunnelError

Delivered = Callable[[Token | RunnelError], None]
Report = Callable[[KafkaError | None, Message], None]

MOST_SECONDS = 2_147_483  # librdkafka's limit
QUEUE_KIB = 64 * 1024
POLL_SECONDS = 0.05
LOOKS_AGAIN = 0.5  # seconds
GRACE_SECONDS = 5.0  # librdkafka looks for records that are too old once a second
DEFAULTS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,  # what waits while a batch is under way makes the next batch anyhow
    "partitioner": "murmur2_random",  # as the Java clients: a key has the same partition whoever writes it
    "queue.buffering.max.kbytes": QUEUE_KIB,
    "topic.metadata.propagation.max.ms": 10_000,
}


class About(TypedDict, total=False):
    """What a record may have beside its value. The timestamp is in milliseconds since 1970."""

    key: bytes | None
    headers: Iterable[tuple[str, bytes | None]]
    timestamp: int | None
    partition: int | None


class Producer:
    def __init__(self, bootstrap: str, *, settings: Settings | None = None, timeout: float = 30.0) -> None:
        arguments.seconds("timeout", timeout, MOST_SECONDS)
        self._connection = Connection(bootstrap, settings or {})
        self._connection.reach()
        self._timeout = timeout
        self._faults = Faults()
        own = {**DEFAULTS, "message.timeout.ms": max(1, round(timeout * 1_000))}
        self._producer = KafkaProducer(self._connection.configuration(own, self._faults))
        self._meet()
        self._lock = threading.Lock()
        self._lost = 0
        self._first: RunnelError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="runnel-producer", daemon=True)
        self._thread.start()

    def produce(self, topic: str, value: bytes | None, **about: Unpack[About]) -> Token:
        """Write a record, wait until it is safe, and return where it is."""
        future: Future[Token] = Future()
        self._hand_in(topic, value, partial(self._settle, future), about)
        return future.result()

    def submit(self, topic: str, value: bytes | None, **about: Unpack[About]) -> Future[Token]:
        """Hand a record in; the future gives its token, or raises."""
        future: Future[Token] = Future()
        future.set_running_or_notify_cancel()  # what is handed in cannot be taken back
        self._hand_in(topic, value, partial(self._report, partial(_settled, future)), about)
        return future

    def send(
        self, topic: str, value: bytes | None, *, on_delivery: Delivered | None = None, **about: Unpack[About]
    ) -> None:
        """Hand a record in; `on_delivery` gets its token, or the error why there is none."""
        self._hand_in(topic, value, partial(self._report, on_delivery), about)

    def flush(self) -> None:
        """Wait until all that was handed in is written, and raise RecordsLost if something could not be."""
        left = self._producer.flush(self._timeout + GRACE_SECONDS)
        with self._lock:
            lost, first = self._lost, self._first
            self._lost, self._first = 0, None
        if left:
            first = first or TimedOut(self._connection.bootstrap, "writing records")
        if first is not None:
            raise RecordsLost(lost + left, first)

    def close(self) -> None:
        """Flush, and stop. A second close does nothing."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except RunnelError:
            if error is None:
                raise

    # --- inside

    def _meet(self) -> None:
        try:
            self._producer.list_topics(timeout=self._connection.timeout)
        except KafkaException as error:
            raise self._error(error.args[0], "", None) from None
        # Whoever is asked first is known by the address that was given, and left as soon as it has said who the brokers
        # are. Asked again, librdkafka meets one of those, and gets its producer's id. By itself it would look for one
        # when LOOKS_AGAIN has passed, and no record leaves before.
        with suppress(KafkaException):
            self._producer.list_topics(timeout=LOOKS_AGAIN)

    def _hand_in(self, topic: str, value: bytes | None, report: Report, about: About) -> None:
        if self._closed:
            raise Closed("the producer")
        given: dict[str, Any] = {name: value for name, value in about.items() if value is not None}
        if "headers" in given:
            given["headers"] = arguments.headers(given["headers"])
        if "timestamp" in given:
            arguments.timestamp(given["timestamp"])
        if "partition" in given:
            arguments.partition(topic, given["partition"])
        deadline = None
        while True:
            try:
                self._producer.produce(topic, value, on_delivery=report, **given)
                return
            except BufferError:
                now = time.monotonic()
                deadline = deadline or now + self._timeout
                if now >= deadline:
                    raise QueueFull(self._connection.bootstrap, self._timeout) from None
                self._producer.poll(POLL_SECONDS)
            except KafkaException as error:
                raise self._error(error.args[0], topic, given.get("partition")) from None
            except ValueError:  # maybe of the topic's name, which is not looked at before: it takes time
                arguments.topic_name(topic)
                raise

    def _settle(self, future: Future[Token], error: KafkaError | None, message: Message) -> None:
        _settled(future, self._outcome(error, message))

    def _report(self, on_delivery: Delivered | None, error: KafkaError | None, message: Message) -> None:
        if error is None and on_delivery is None:
            self._faults.forget()
            return
        outcome = self._outcome(error, message)
        if isinstance(outcome, RunnelError):
            self._note(outcome)
        if on_delivery is not None:
            _guarded(on_delivery, outcome)

    def _outcome(self, error: KafkaError | None, message: Message) -> Token | RunnelError:
        topic = message.topic() or ""
        if error is None:
            self._faults.forget()
            return Token(topic, message.partition() or 0, message.offset() or 0)
        return self._error(error, topic, message.partition())

    def _error(self, error: KafkaError, topic: str, partition: int | None) -> RunnelError:
        if error.code() == KafkaError._UNKNOWN_PARTITION and partition is not None:
            return UnknownPartition(topic, partition)
        if error.code() in LATE and self._faults.down is not None:
            return Unreachable(self._connection.bootstrap, self._faults.down)
        return told(error, self._connection.bootstrap, "writing a record", topic=topic)

    def _note(self, error: RunnelError) -> None:
        with self._lock:
            self._lost += 1
            self._first = self._first or error

    def _serve(self) -> None:
        while not self._closed:
            self._producer.poll(POLL_SECONDS)


def _settled(future: Future[Token], outcome: Token | RunnelError) -> None:
    if isinstance(outcome, RunnelError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _guarded(on_delivery: Delivered, outcome: Token | RunnelError) -> None:
    """A callback that raises must not end the thread which serves the others."""
    try:
        on_delivery(outcome)
    except Exception:
        LOGGER.exception("a delivery callback raised")
