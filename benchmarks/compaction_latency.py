"""Sends records at a fixed rate until told to stop: python -m benchmarks.compaction_latency BOOTSTRAP TOPIC RATE.

A process of its own, with confluent-kafka and nothing gathered (`linger.ms` 0). When its standard input ends it prints
JSON: of each record, when it was sent (seconds since 1970) and how long its acknowledgement took (milliseconds). So
whoever started it can tell which were sent while something else was under way.
"""

import gc
import json
import sys
import threading
import time

from confluent_kafka import KafkaError, Message, Producer

VALUE = b"." * 100
LIMIT = 60.0


class Stream:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._failed: list[str] = []
        self.taken: list[tuple[float, float]] = []

    def run(self, rate: float, ended: threading.Event) -> None:
        polling = threading.Thread(target=self._poll, args=[ended])
        polling.start()
        begin, number = time.perf_counter(), 0
        while not ended.is_set():
            time.sleep(max(begin + number / rate - time.perf_counter(), 0))
            self._send()
            number += 1
        polling.join()
        self._producer.flush(LIMIT)
        if self._failed or len(self.taken) < number:
            raise SystemExit(f"of {number} records {len(self.taken)} were acknowledged {self._failed[:3]}")

    def _send(self) -> None:
        sent, started = time.time(), time.perf_counter()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self._failed.append(str(error))
            self.taken.append((sent, (time.perf_counter() - started) * 1e3))

        self._producer.produce(self._topic, VALUE, partition=0, on_delivery=delivered)

    def _poll(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self._producer.poll(0.1)


def _wait_for_the_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main(bootstrap: str, topic: str, rate: str) -> None:
    gc.disable()
    sys.setswitchinterval(0.0005)  # two threads share the interpreter, and each has little to do
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=[ended], daemon=True).start()
    stream = Stream(bootstrap, topic)
    stream.run(float(rate), ended)
    json.dump(stream.taken, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
