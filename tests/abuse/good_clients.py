"""A producer and a consumer with good manners. Whatever others do to the broker, these two must not notice.

The producer sends numbers, the consumer reads them: at the end all are there, once and in order, and neither was told
of an error.
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

TOPIC = "good-manners"
PAUSE = 0.005  # between two records: they shall run beside the abuse, not compete with it
LIMIT = 60.0


class GoodClients:
    """Use it with `with`; the end of the block checks."""

    def __init__(self, bootstrap: str) -> None:
        self.complaints: list[str] = []
        self._bootstrap = bootstrap
        self._acknowledged = 0
        self._read: list[int] = []
        self._stop = threading.Event()
        self._given_up = False
        self._sent: int | None = None  # known when the producer has ended
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]

    def __enter__(self) -> GoodClients:
        for thread in self._threads:
            thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop(given_up=kind is not None)
        if kind is None:
            self._check()

    def stop(self, *, given_up: bool) -> None:
        """`given_up`: something is wrong already, so nothing more is waited for."""
        self._given_up = given_up
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def read(self) -> int:
        """How many records the consumer has."""
        return len(self._read)

    def wait_for_more(self, count: int = 1) -> None:
        """Return when so many more records went from one to the other."""
        wanted = self.read + count
        deadline = time.monotonic() + LIMIT
        while self.read < wanted:
            assert time.monotonic() < deadline, f"the good clients are stuck at {self.read} records {self.complaints}"
            time.sleep(0.002)

    def _check(self) -> None:
        assert self.complaints == []
        assert self._sent is not None
        assert self._acknowledged == self._sent
        assert self._read == list(range(self._sent))

    # --- the two

    def _settings(self) -> dict[str, str | int | object]:
        return {
            "bootstrap.servers": self._bootstrap,
            "error_cb": lambda error: self.complaints.append(f"told of {error}"),
            "client.id": "good",
            "log_level": 0,
        }

    def _produce(self) -> None:
        producer = Producer(self._settings() | {"enable.idempotence": True, "linger.ms": 0})
        sent = 0
        while not self._stop.is_set():
            producer.produce(TOPIC, str(sent).encode(), partition=0, on_delivery=self._delivered)
            sent += 1
            producer.poll(PAUSE)
        if self._given_up:
            producer.purge()
        left = producer.flush(LIMIT)
        if left:
            self.complaints.append(f"{left} records were not acknowledged")
        self._sent = sent

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self.complaints.append(f"a record was refused: {error}")

    def _consume(self) -> None:
        consumer = Consumer(self._settings() | {"group.id": "good", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            deadline = None
            while self._sent is None or len(self._read) < self._sent:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self._read.append(int(message.value()))
                elif message is not None:
                    self.complaints.append(f"could not read: {message.error()}")
                if self._sent is not None:
                    deadline = deadline or time.monotonic() + LIMIT
                    if self._given_up or time.monotonic() > deadline:
                        self.complaints.append(f"read {len(self._read)} of {self._sent} records")
                        return
        finally:
            consumer.close()
