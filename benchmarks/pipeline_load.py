"""Sends clicks at a fixed rate and measures how long each takes: python -m benchmarks.pipeline_load (see `main`).

Latency counts from the call of `produce` until a reader has the row: a consumer of committed records, or somebody who
looks into the view's SQLite file every two milliseconds. The first seconds are not counted.
"""

import gc
import json
import sqlite3
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.broker_turns import percentile
from benchmarks.pipeline_events import PARTITIONS

PAGES = 1_000  # a page comes once in so many clicks
LIMIT = 60.0
PAUSE = 0.002  # between two looks into a view
VIEW = "counted"


class Load:
    def __init__(self, bootstrap: str, topic: str, rate: float, seconds: float) -> None:
        self._topic = topic
        self._rate = rate
        self.count = int(rate * seconds)
        self.sent = [0.0] * self.count
        self.seen = [0.0] * self.count
        self.missing = self.count
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def send(self) -> None:
        begin = time.perf_counter()
        for number in range(self.count):
            time.sleep(max(begin + number / self._rate - time.perf_counter(), 0))
            now = time.perf_counter()
            self.sent[number] = now
            self._producer.produce(self._topic, _click(number), partition=number % PARTITIONS)
            self._producer.poll(0)
        self._producer.flush(LIMIT)

    def see(self, number: int) -> None:
        if not self.seen[number]:
            self.seen[number] = time.perf_counter()
            self.missing -= 1

    def latencies(self, warm_up: float) -> list[float]:
        """In milliseconds."""
        first = int(warm_up * self._rate)
        return [1e3 * (self.seen[number] - self.sent[number]) for number in range(first, self.count)]


def _click(number: int) -> bytes:
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    click = {"page": f"p{number % PAGES}", "customer_id": number, "at": at, "ms": 5, "number": number}
    return json.dumps(click, separators=(",", ":")).encode()


def read_topic(load: Load, bootstrap: str, topic: str, end: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "load",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while load.missing and not end.is_set():
        for message in consumer.consume(500, 0.05):
            if message.error() is None:
                load.see(json.loads(message.value() or b"")["number"])
    consumer.close()


def read_view(load: Load, path: str, end: threading.Event) -> None:
    while not Path(path).exists():
        time.sleep(PAUSE)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    newest = dict.fromkeys(range(PAGES), -1)
    version, highest = None, -1
    while load.missing and not end.is_set():
        time.sleep(PAUSE)
        found = connection.execute("PRAGMA data_version").fetchone()
        if found == version:
            continue
        version = found
        try:
            rows = connection.execute(f"SELECT newest FROM {VIEW} WHERE newest > ?", (highest - 20 * PAGES,)).fetchall()
        except sqlite3.OperationalError:  # the table is not there yet
            continue
        for (number,) in rows:
            page = number % PAGES
            for each in range(newest[page] + PAGES if newest[page] >= 0 else page, number + 1, PAGES):
                load.see(each)
            newest[page] = max(newest[page], number)
            highest = max(highest, number)
    connection.close()


def main(bootstrap: str, topic: str, kind: str, where: str, rate: str, seconds: str, warm_up: str) -> None:
    """`kind` is topic or view; `where` its name or the path of its file. `warm_up` is the part that is not counted."""
    gc.disable()
    sys.setswitchinterval(0.0005)
    load = Load(bootstrap, topic, float(rate), float(seconds))
    end = threading.Event()
    reader = (
        threading.Thread(target=read_topic, args=(load, bootstrap, where, end))
        if kind == "topic"
        else threading.Thread(target=read_view, args=(load, where, end))
    )
    reader.start()
    load.send()
    reader.join(LIMIT)
    end.set()
    if load.missing:
        raise SystemExit(f"{load.missing} of {load.count} rows were not seen")
    taken = load.latencies(float(warm_up))
    print(json.dumps({f"p{share}": percentile(taken, share / 100) for share in (50, 95, 99, 100)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
