"""Reads records of any Kafka.

    with Consumer("127.0.0.1:9092", "orders", start=EARLIEST) as records:
        for record in records: ...

- Alone, it reads the partitions that it is told to, or all, from `start`, and commits nothing.
- In a `group`, it shares the topic's partitions with the other members and goes on where the group has committed;
  `start` counts for partitions in which the group has committed nothing. A record counts as done when the loop asks
  for the next one, so a program that dies gets the record again that it was at; what is done is committed every few
  seconds, by `commit`, and at the end.
- It ends at the end that was there when it began, unless it is told to `follow`; or after `limit` records, or by
  `stop`.
- It reads what is committed: records of open and aborted transactions are not seen.
- A header's name that is not UTF-8 has U+FFFD where it is not. librdkafka for Python cannot read it, so a record that
  has one is read once more, over a connection of our own.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import methodcaller
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from runnel.client import arguments
from runnel.client.admin import Admin, TopicAndPartition
from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.connection import Faults, Settings
from runnel.client.errors import Refused, UnknownPartition, Unreachable, told
from runnel.client.fetch import Fetcher
from runnel.client.records import Headers, Received
from runnel.client.security import Security
from runnel.records import records_of
from runnel.start import EARLIEST, LATEST, Start

AT_ONCE = 500
POLL_SECONDS = 0.2
# By a call that sees that an error was left behind: one in our own code does not, once Python has called it often, and
# there would be headers that end the process when somebody looks at them.
_headers_of: Callable[[Message], list[tuple[str, bytes | None]] | None] = methodcaller("headers")
NO_GROUP = "runnel-alone"  # asked for by librdkafka; nothing is joined and nothing committed


class Consumer:
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        start: Start = EARLIEST,
        partitions: Iterable[int] | None = None,
        group: str | None = None,
        follow: bool = False,
        settings: Settings | None = None,
    ) -> None:
        if group is not None and partitions is not None:
            raise ValueError("a group chooses the partitions of its members: give either of them")
        if group is not None:
            arguments.name("name of a group", group)
        self._admin = Admin(bootstrap, settings=settings)
        self._topic = topic
        self._start = start
        self._group = group
        self._follow = follow
        self._faults = Faults()
        self._is_incremental = group is not None and _is_incremental(settings or {})
        places = self._wanted(partitions)
        self._ends = {} if follow else self._admin.offsets(places, LATEST)
        self._begins = {} if group is not None else self._admin.offsets(places, start)
        self._quiet_since = 0.0
        self._stopped = self._is_closed = False
        self._open: set[TopicAndPartition] | None = None  # what is not read to its end; None: not assigned yet
        self._waiting: deque[Message] = deque()  # fetched and not handed out yet
        self._consumer = KafkaConsumer(self._admin.connection.configuration(self._configuration(), self._faults))
        self._begin()

    def records(self, limit: int | None = None) -> Iterator[Received]:
        """The records as they come. A second call goes on where the first one stopped."""
        return self._records(None if limit is None else min(arguments.whole("limit", limit, 0), sys.maxsize))

    def __iter__(self) -> Iterator[Received]:
        return self.records()

    def commit(self) -> None:
        """Commit what is done now, and wait for it."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # nothing new
                raise self._told(error, "committing offsets") from None

    def stop(self) -> None:
        """Let the loop end after the record it is at: from another thread, or from a handler of signals."""
        self._stopped = True

    def close(self) -> None:
        """Commit what is done, and leave the group. A second close does nothing."""
        self._is_closed = True
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- inside

    def _records(self, most: int | None) -> Iterator[Received]:
        for message in islice(self._messages(), most):
            yield _received(message, self._headers(message))
            self._done(message)

    def _wanted(self, partitions: Iterable[int] | None) -> list[TopicAndPartition]:
        there = [partition.number for partition in self._admin.topic(self._topic).partitions]
        named = {arguments.partition(self._topic, each) for each in partitions or ()}
        wanted = there if partitions is None else sorted(named)
        for number in wanted:
            if number not in there:
                raise UnknownPartition(self._topic, number, len(there))
        return [(self._topic, number) for number in wanted]

    def _configuration(self) -> dict[str, Any]:
        return {
            "group.id": self._group or NO_GROUP,
            "enable.auto.commit": self._group is not None,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 500 if self._follow else 50,  # the end of a partition is told by an empty answer
        }

    def _begin(self) -> None:
        if self._group is not None:
            self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
            return
        self._open = set(self._begins)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._begins.items()])
        self._open -= {place for place, end in self._ends.items() if self._begins[place] >= end}

    def _assigned(self, consumer: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        if self._is_closed:  # it leaves: nothing is read any more, and nobody would answer
            return
        known = consumer.committed(partitions, self._admin.connection.timeout) if partitions else []
        nowhere = [(place.topic, place.partition) for place in known if place.offset < 0]
        begins = self._admin.offsets(nowhere, self._start)
        for place in partitions:
            place.offset = begins.get((place.topic, place.partition), place.offset)
        places = {(place.topic, place.partition) for place in partitions}
        new = {place for place in places if self._follow or self._ends.get(place, 0) > begins.get(place, 0)}
        if self._is_incremental:
            consumer.incremental_assign(partitions)
            self._open = new | (self._open or set())
        else:
            consumer.assign(partitions)
            self._open = new

    def _revoked(self, _consumer: KafkaConsumer, partitions: list[TopicPartition]) -> None:
        """Whoever gets the partitions reads the records of them that were fetched."""
        if not self._is_incremental:
            self._open = None
            self._waiting.clear()
            return
        gone = {(place.topic, place.partition) for place in partitions}
        self._open = None if self._open is None else self._open - gone
        self._waiting = deque(each for each in self._waiting if (each.topic(), each.partition()) not in gone)

    def _messages(self) -> Iterator[Message]:
        self._quiet_since = time.monotonic()
        while self._waiting or self._open is None or self._open or self._follow:
            if not self._waiting:
                self._fetch()
            while self._waiting or self._stopped:
                if self._stopped:
                    return
                message = self._waiting.popleft()
                if self._is_wanted(message):
                    yield message

    def _fetch(self) -> None:
        try:
            # `consume` alone would wait until it has them all.
            first = self._consumer.poll(POLL_SECONDS)
            if first is not None:
                self._waiting.append(first)
                self._waiting.extend(self._consumer.consume(AT_ONCE, 0))
        except KafkaException as error:
            raise self._told(error, "reading records") from None
        if self._waiting:
            self._quiet_since = time.monotonic()
            self._faults.forget()
        elif not self._follow and self._faults.ever:
            self._give_up_in_time()

    def _is_wanted(self, message: Message) -> bool:
        """Whether it is a record before the end. Takes a partition off the open ones when it is read to its end."""
        place = message.topic() or "", message.partition() or 0
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._told(error, "reading records")
            self._read_to_its_end(place)
            return False
        if self._follow:
            return True
        offset, end = message.offset() or 0, self._ends.get(place, 0)
        if offset + 1 >= end:
            self._read_to_its_end(place)
        return offset < end

    def _read_to_its_end(self, place: TopicAndPartition) -> None:
        if self._open is not None and not self._follow:
            self._open.discard(place)

    def _headers(self, message: Message) -> Headers:
        try:
            return tuple(_headers_of(message) or ())
        except SystemError as error:
            if not isinstance(error.__cause__, UnicodeDecodeError):
                raise
        return self._strange_headers(message.topic() or "", message.partition() or 0, message.offset() or 0)

    def _strange_headers(self, topic: str, partition: int, offset: int) -> Headers:
        connection = self._admin.connection
        security = Security.of(connection.settings)
        with Cluster(connection.bootstrap, security=security, timeout=connection.timeout) as cluster:
            for fetched in Fetcher(cluster).read(topic, partition, offset, offset + 1):
                for batch in (each for part in fetched.parts for each in each_batch(part)):
                    for record in records_of(batch):
                        if record.offset == offset:
                            return record.headers
        raise Refused("reading records", f"the headers of {topic}-{partition} at offset {offset} are gone")

    def _done(self, message: Message) -> None:
        if self._group is None:
            return
        try:
            self._consumer.store_offsets(message)
        except KafkaException as error:
            # The partition went to another member meanwhile, which reads the record again.
            if error.args[0].code() not in (KafkaError._STATE, KafkaError._UNKNOWN_PARTITION):
                raise self._told(error, "committing offsets") from None

    def _give_up_in_time(self) -> None:
        connection = self._admin.connection
        if time.monotonic() - self._quiet_since <= connection.timeout:
            return
        if self._faults.down is not None:
            raise Unreachable(connection.bootstrap, self._faults.down)
        # librdkafka tells of the same fault once in 30 seconds: it may have told it before the last records it had.
        connection.reach()
        self._quiet_since = time.monotonic()

    def _told(self, error: KafkaError | KafkaException, doing: str) -> Exception:
        return told(error, self._admin.connection.bootstrap, doing, topic=self._topic)


def _is_incremental(settings: Settings) -> bool:
    """Whether a group gives and takes partitions one by one: by the protocol of KIP-848, or a cooperative strategy."""
    strategy = str(settings.get("partition.assignment.strategy", ""))
    return str(settings.get("group.protocol", "")).lower() == "consumer" or "cooperative" in strategy.lower()


def _received(message: Message, headers: Headers) -> Received:
    kind, timestamp = message.timestamp()
    return Received(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp if kind else -1,
        message.key(),
        message.value(),
        headers,
    )
