"""Producers that do nothing but commit: python -m benchmarks.transactions_load BOOTSTRAP TOPIC PRODUCERS SECONDS.

Each writes transactions of a hundred records of 100 bytes, one after the other. Prints JSON: transactions a second, and
the percentiles of how long a commit takes, in milliseconds, from the call to its return.
"""

import itertools
import json
import sys
import threading
import time
from uuid import uuid4

from confluent_kafka import Producer

from benchmarks.broker_turns import percentile

RECORDS = 100
PARTITIONS = 4
VALUE = b"x" * 100
PATIENCE = 60.0


def main(bootstrap: str, topic: str, producers: int, seconds: float) -> None:
    commits: list[list[float]] = [[] for _ in range(producers)]
    ready = threading.Barrier(producers + 1)
    end = threading.Event()

    def produce(own: list[float]) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": str(uuid4())})
        producer.init_transactions(PATIENCE)
        _transaction(producer, topic)  # the first one meets what is not there yet
        ready.wait(PATIENCE)
        while not end.is_set():
            own.append(_transaction(producer, topic))

    threads = [threading.Thread(target=produce, args=(own,)) for own in commits]
    for thread in threads:
        thread.start()
    ready.wait(PATIENCE)
    begin = time.perf_counter()
    end.wait(seconds)
    end.set()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - begin
    taken = list(itertools.chain.from_iterable(commits))
    print(
        json.dumps(
            {
                "per_second": len(taken) / elapsed,
                "p50": percentile(taken, 0.5) * 1000,
                "p99": percentile(taken, 0.99) * 1000,
            }
        )
    )


def _transaction(producer: Producer, topic: str) -> float:
    """How long its commit took."""
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(topic, VALUE, partition=number % PARTITIONS)
    begin = time.perf_counter()
    producer.commit_transaction(PATIENCE)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
