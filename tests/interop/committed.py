"""What transactions have committed to a topic, read with confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

LIMIT = 120.0


class CommittedReader:
    """Reads all partitions of a topic from their start. A broker that is away for a while is waited for."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        settings |= {"isolation.level": "read_committed", "enable.partition.eof": True}
        # An empty answer tells the end of a partition; and where it begins need not be asked first.
        settings |= {"fetch.wait.max.ms": 50, "auto.offset.reset": "earliest"}
        self._consumer = Consumer(settings | {"reconnect.backoff.max.ms": 200})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._partitions = partitions
        self._ended: set[int] = set()

    def __enter__(self) -> CommittedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def arrived(self) -> Iterator[Message]:
        for message in self._consumer.consume(1_000, 0.05):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(message.partition())

    def until_the_end(self) -> Iterator[Message]:
        deadline = time.monotonic() + LIMIT
        while len(self._ended) < self._partitions:
            assert time.monotonic() < deadline, f"only partitions {self._ended} were read to their end"
            yield from self.arrived()


def committed(bootstrap: str, topic: str, partitions: int = 1) -> list[tuple[bytes | None, bytes | None]]:
    """Every key and value, in the order of its partition."""
    with CommittedReader(bootstrap, topic, partitions) as reader:
        return [(message.key(), message.value()) for message in reader.until_the_end()]
