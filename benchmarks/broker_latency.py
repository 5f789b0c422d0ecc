"""Sends records at a fixed rate and measures how long each takes: python -m benchmarks.broker_latency (see `main`).

A process of its own, with confluent-kafka as its users have it, and nothing gathered (`linger.ms` 0). One thread sends,
one takes the acknowledgements, one reads. Both latencies count from the call of `produce`.
"""

import gc
import json
import struct
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.broker_turns import percentile

SENT_AT = struct.Struct(">d")
VALUE_SIZE = 100
WARM_UP = 0.2  # the part of the records that is not counted
LIMIT = 60.0


class Exchange:
    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        self._topic = topic
        self._count = count
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency", "enable.auto.commit": False})
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=LIMIT)
        self._consumer.assign([TopicPartition(topic, 0, end)])
        self._acknowledged: list[float] = []
        self._received: list[float] = []
        self._failed: list[str] = []

    def run(self, rate: float) -> tuple[list[float], list[float]]:
        """The latencies of acknowledgements and from end to end, in milliseconds."""
        threads = [threading.Thread(target=self._read), threading.Thread(target=self._poll)]
        for thread in threads:
            thread.start()
        self._send(rate)
        for thread in threads:
            thread.join(LIMIT)
        self._consumer.close()
        if self._failed or len(self._acknowledged) < self._count or len(self._received) < self._count:
            raise RuntimeError(
                f"of {self._count} records {len(self._acknowledged)} were acknowledged and {len(self._received)}"
                f" came back {self._failed[:3]}"
            )
        first = int(self._count * WARM_UP)
        return self._acknowledged[first:], self._received[first:]

    def _send(self, rate: float) -> None:
        begin = time.perf_counter()
        for number in range(self._count):
            time.sleep(max(begin + number / rate - time.perf_counter(), 0))
            value = SENT_AT.pack(time.perf_counter()).ljust(VALUE_SIZE, b".")
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(str(error))
        self._acknowledged.append(self._since(message))

    def _poll(self) -> None:
        limit = time.monotonic() + LIMIT
        while len(self._acknowledged) < self._count and time.monotonic() < limit:
            self._producer.poll(0.1)

    def _read(self) -> None:
        limit = time.monotonic() + LIMIT
        while len(self._received) < self._count and time.monotonic() < limit:
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                self._failed.append(str(message.error()))
            else:
                self._received.append(self._since(message))

    @staticmethod
    def _since(message: Message) -> float:
        sent: float = SENT_AT.unpack_from(message.value() or b"")[0]
        return (time.perf_counter() - sent) * 1e3


def main(bootstrap: str, topic: str, rate: str, seconds: str) -> None:
    gc.disable()
    sys.setswitchinterval(0.0005)  # three threads share the interpreter, and each has little to do
    acknowledged, received = Exchange(bootstrap, topic, int(float(rate) * float(seconds))).run(float(rate))
    result = {
        f"{name}_{label}": percentile(values, share)
        for name, values in (("ack", acknowledged), ("end_to_end", received))
        for label, share in (("p50", 0.50), ("p99", 0.99))
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
