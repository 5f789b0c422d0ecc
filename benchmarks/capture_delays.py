"""How old a change is when it can be read: python -m benchmarks.capture_delays URL BOOTSTRAP TOPIC TABLE RATE SECONDS.

One writer inserts rows at a steady rate, each in a transaction of its own; one reader reads what is committed in the
topic. Prints JSON: the percentiles, in milliseconds, from the call of the commit until the reader has the record.
"""

import gc
import json
import sys
import threading
import time
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, TopicPartition

from benchmarks.broker_turns import percentile

PATIENCE = 60.0


class Reader:
    """Notes when the record of each key arrives."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.arrived: dict[int, float] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": str(uuid4()),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)
        self._consumer.assign([TopicPartition(topic, 0, end)])

    def read(self, last: int) -> None:
        """Until the record of the last key is there."""
        while last not in self.arrived:
            message = self._consumer.poll(PATIENCE)
            if message is None:
                break
            key = message.key()
            if message.error() is None and key is not None:
                self.arrived[key_of(key)] = time.perf_counter()
        self._consumer.close()


def key_of(record: bytes | str) -> int:
    found: int = json.loads(record)["id"]
    return found


def main(url: str, bootstrap: str, topic: str, table: str, rate: float, seconds: float) -> None:
    count = int(rate * seconds)
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}".encode()).fetchone()
        connection.commit()
        assert found is not None
        first = int(found[0]) + 1
        reader = Reader(bootstrap, topic)
        thread = threading.Thread(target=reader.read, args=[first + count - 1])
        thread.start()
        gc.freeze()
        committed = _write(connection, table, range(first, first + count), rate)
    thread.join()
    missing = [number for number in committed if number not in reader.arrived]
    if missing:
        raise SystemExit(f"{len(missing)} of {count} changes did not arrive within {PATIENCE:.0f} s")
    taken = [(reader.arrived[number] - moment) * 1000 for number, moment in committed.items()]
    print(json.dumps({"p50": percentile(taken, 0.5), "p99": percentile(taken, 0.99)}))


def _write(
    connection: "psycopg.Connection[tuple[object, ...]]", table: str, keys: range, rate: float
) -> dict[int, float]:
    """When the commit of each row was called."""
    statement = f"INSERT INTO {table} VALUES (%s, 7, 'new', 1.25, now(), repeat('x', 160))".encode()
    committed: dict[int, float] = {}
    start = time.perf_counter()
    for place, key in enumerate(keys):
        time.sleep(max(0.0, start + place / rate - time.perf_counter()))
        connection.execute(statement, [key])
        committed[key] = time.perf_counter()
        connection.commit()
    return committed


if __name__ == "__main__":
    main(*sys.argv[1:5], rate=float(sys.argv[5]), seconds=float(sys.argv[6]))
