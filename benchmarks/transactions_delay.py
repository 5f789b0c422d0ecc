"""How long a committed record is on its way: python -m benchmarks.transactions_delay BOOTSTRAP TOPIC RATE SECONDS.

One producer writes transactions of one record at a steady rate, one reader reads what is committed. Prints JSON: the
percentiles, in milliseconds, from the call of the commit until the reader has the record.
"""

import json
import sys
import threading
import time
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.broker_turns import percentile

PATIENCE = 60.0


def main(bootstrap: str, topic: str, rate: float, seconds: float) -> None:
    count = int(rate * seconds)
    arrived: dict[int, float] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": str(uuid4()),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
        }
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)
    consumer.assign([TopicPartition(topic, 0, end)])

    def read() -> None:
        while len(arrived) < count:
            message = consumer.poll(PATIENCE)
            if message is None:
                return
            if message.error() is None:
                arrived[int(message.value() or b"")] = time.perf_counter()

    reader = threading.Thread(target=read)
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": str(uuid4()), "linger.ms": 0})
    producer.init_transactions(PATIENCE)
    begun: list[float] = []
    start = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        producer.begin_transaction()
        producer.produce(topic, str(number).encode(), partition=0)
        begun.append(time.perf_counter())
        producer.commit_transaction(PATIENCE)
    reader.join()
    consumer.close()
    if len(arrived) < count:
        raise SystemExit(f"{count - len(arrived)} of {count} records did not arrive within {PATIENCE:.0f} s")
    taken = [(arrived[number] - begun[number]) * 1000 for number in range(count)]
    print(json.dumps({"p50": percentile(taken, 0.5), "p99": percentile(taken, 0.99)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
