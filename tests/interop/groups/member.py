"""A member of the storm's group, a process of its own until its input ends.

    python -m tests.interop.groups.member PROTOCOL BOOTSTRAP GROUP TOPIC NAME FILE

It is a good one: it commits what it has processed, and what it processed it writes down first, to FILE, one line for
each record: the time, the partition, the offset. What is taken from it orderly it commits before it lets it go; what
it has lost already it forgets. On its input it is told to `hold`, as if a record took long, and to `go` on.

An error that librdkafka calls fatal ends it with `FATAL`. One is that of a member that was fenced while its group went
on with classic members only: brokers answer GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

SESSION = 1_500  # milliseconds, of a classic member; the broker's setting for the others should be the same
HEARTBEAT = 200
LONGEST_WORK = 2_500  # milliseconds between two looks for records
MOST = 20  # records for one commit
LOOK = 0.1  # seconds
FATAL = 3  # as exit code

SETTINGS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "max.poll.interval.ms": LONGEST_WORK,
    "topic.metadata.refresh.interval.ms": 1_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}
PROTOCOLS = {
    "classic": {
        "group.protocol": "classic",
        "session.timeout.ms": SESSION,
        "heartbeat.interval.ms": HEARTBEAT,
        "partition.assignment.strategy": "range",
    },
    "cooperative": {
        "group.protocol": "classic",
        "session.timeout.ms": SESSION,
        "heartbeat.interval.ms": HEARTBEAT,
        "partition.assignment.strategy": "cooperative-sticky",
    },
    "consumer": {"group.protocol": "consumer"},
}


class StormMember:
    def __init__(self, protocol: str, bootstrap: str, group: str, topic: str, name: str, path: str) -> None:
        self._topic = topic
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._done: dict[int, int] = {}  # by partition, the offset after the last that was processed
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._ends = threading.Event()
        where = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": name}
        self._consumer = Consumer(SETTINGS | PROTOCOLS[protocol] | where)
        self._consumer.subscribe([topic], on_revoke=self._let_go, on_lost=self._lost)

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while not self._ends.is_set():
            self._process_some()
            self._goes_on.wait()
            self._commit(dict(self._done))
        self._consumer.close()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "hold":
                self._goes_on.clear()
            else:
                self._goes_on.set()
        self._ends.set()
        self._goes_on.set()

    def _process_some(self) -> None:
        # One at a time: a call for many may hand out records of a partition that was taken away during the call.
        until = time.monotonic() + LOOK
        for _ in range(MOST):
            message = self._consumer.poll(max(0.0, until - time.monotonic()))
            if message is None:
                return
            error = message.error()
            if error is None:
                partition, offset = message.partition(), message.offset()
                os.write(self._file, f"{time.monotonic_ns()} {partition} {offset}\n".encode())
                self._done[partition] = offset + 1
            else:
                say(error)
                if error.code() == KafkaError._FATAL:
                    os._exit(FATAL)  # to leave a group in which it is no member would take its time

    def _commit(self, offsets: dict[int, int]) -> None:
        """What is refused stays to be done, unless the partition is lost."""
        if not offsets:
            return
        places = [TopicPartition(self._topic, *place) for place in offsets.items()]
        try:
            for result in self._consumer.commit(offsets=places, asynchronous=False):
                if result.error is not None:
                    say(result.error)
                elif self._done.get(result.partition) == offsets[result.partition]:
                    del self._done[result.partition]
        except KafkaException as error:
            say(error.args[0])

    def _let_go(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        mine = {place.partition for place in places} & self._done.keys()
        self._commit({partition: self._done[partition] for partition in mine})
        self._lost(consumer, places)

    def _lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        for place in places:
            self._done.pop(place.partition, None)


def say(error: KafkaError) -> None:
    """For people who look for the cause of a failure."""
    print(time.monotonic_ns(), error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    StormMember(*sys.argv[1:]).run()
