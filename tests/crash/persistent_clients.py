"""Clients that go on whatever happens to their broker: three libraries that write, and a group that reads.

Each runs as a process of its own until its input ends, and tells on its output what the broker acknowledged.

    python -m tests.crash.persistent_clients LIBRARY BOOTSTRAP

A writer is an idempotent producer of numbered records, one to this partition and one to that. The reader commits what
it has read. They survive by their library's own retries.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

import aiokafka
import confluent_kafka
import kafka

from tests.crash.broker_kill import END_LIMIT, GROUP, PARTITIONS, TOPIC

IN_FLIGHT = 40
PAUSE = 0.004  # seconds between two records of a writer
NEVER = 2**31 - 1


def tell(*words: object) -> None:
    print(*words, flush=True)


def input_ended() -> threading.Event:
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended


def write_with_confluent(bootstrap: str, ended: threading.Event) -> int:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # never
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    under_way = threading.Semaphore(IN_FLIGHT)

    def delivered(number: int) -> Callable[..., None]:
        def note(error: object, message: confluent_kafka.Message) -> None:
            under_way.release()
            if error is not None:
                tell("error", error)
            else:
                tell("acknowledged", number, message.offset())

        return note

    number = 0
    while not ended.is_set():
        while not under_way.acquire(blocking=False):
            producer.poll(0.05)
        value = f"confluent/{number}".encode()
        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=delivered(number))
        number += 1
        producer.poll(PAUSE)
    left = producer.flush(END_LIMIT)
    if left:
        tell("error", left, "records were not acknowledged")
    return number


def write_with_aiokafka(bootstrap: str, ended: threading.Event) -> int:
    return asyncio.run(_write_with_aiokafka(bootstrap, ended))


async def _write_with_aiokafka(bootstrap: str, ended: threading.Event) -> int:
    under_way = asyncio.Semaphore(IN_FLIGHT)

    def note(number: int, sent: asyncio.Future[aiokafka.structs.RecordMetadata]) -> None:
        under_way.release()
        if sent.exception() is not None:
            tell("error", repr(sent.exception()))
        else:
            tell("acknowledged", number, sent.result().offset)

    number = 0
    options = {"enable_idempotence": True, "retry_backoff_ms": 20, "request_timeout_ms": 100_000, "linger_ms": 1}
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        while not ended.is_set():
            await under_way.acquire()
            value = f"aiokafka/{number}".encode()
            sent = await producer.send(TOPIC, value, partition=number % PARTITIONS)
            sent.add_done_callback(lambda sent, number=number: note(number, sent))
            number += 1
            await asyncio.sleep(PAUSE)
        await producer.flush()
    return number


def write_with_kafka_python(bootstrap: str, ended: threading.Event) -> int:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        delivery_timeout_ms=NEVER,
        request_timeout_ms=30_000,
        max_block_ms=100_000,
        retry_backoff_ms=20,
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=100,
        linger_ms=1,
    )
    under_way = threading.Semaphore(IN_FLIGHT)

    def done(number: int) -> Callable[..., None]:
        def note(metadata: kafka.producer.future.RecordMetadata) -> None:
            under_way.release()
            tell("acknowledged", number, metadata.offset)

        return note

    def failed(error: BaseException) -> None:
        under_way.release()
        tell("error", repr(error))

    number = 0
    while not ended.wait(PAUSE):
        under_way.acquire()
        sent = producer.send(TOPIC, f"kafka-python/{number}".encode(), partition=number % PARTITIONS)
        sent.add_callback(done(number)).add_errback(failed)
        number += 1
    producer.flush(END_LIMIT)
    producer.close()
    return number


def read_as_a_group(bootstrap: str, ended: threading.Event) -> int:
    """Reads, commits, and complains when it is sent back behind what it committed, or over what it has not read."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    next_offset: dict[int, int] = defaultdict(int)
    committed: dict[int, int] = defaultdict(int)
    count = 0
    while not ended.is_set():
        messages = [message for message in consumer.consume(100, 0.1) if message.error() is None]
        count += len(messages)
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if offset > next_offset[partition]:
                tell("error", f"went from {next_offset[partition]} on to {offset} in partition {partition}")
            if offset < committed[partition]:
                tell("error", f"went back to {offset} from {committed[partition]} in partition {partition}")
            next_offset[partition] = max(offset + 1, next_offset[partition])
        if messages:
            _commit(consumer, messages, committed)
    consumer.close()
    return count


def _commit(
    consumer: confluent_kafka.Consumer, messages: list[confluent_kafka.Message], committed: dict[int, int]
) -> None:
    ends = {message.partition(): message.offset() + 1 for message in messages}
    try:
        offsets = [confluent_kafka.TopicPartition(TOPIC, *end) for end in ends.items()]
        results = consumer.commit(offsets=offsets, asynchronous=False)
    except confluent_kafka.KafkaException:
        return  # it was not acknowledged, so nothing is promised
    for result in results or ():
        if result.error is None:
            committed[result.partition] = result.offset
            tell("committed", result.partition, result.offset)


PROGRAMS: Mapping[str, Callable[[str, threading.Event], int]] = {
    "confluent": write_with_confluent,
    "aiokafka": write_with_aiokafka,
    "kafka-python": write_with_kafka_python,
    "group": read_as_a_group,
}


def main(name: str, bootstrap: str) -> None:
    tell("sent", PROGRAMS[name](bootstrap, input_ended()))


if __name__ == "__main__":
    main(*sys.argv[1:])
