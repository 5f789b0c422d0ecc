"""Writing records: tokens, order, and no loss in silence."""

from __future__ import annotations

import logging
import threading

import pytest
from aiokafka.partitioner import murmur2

from runnel.client import (
    Consumer,
    InvalidArgument,
    InvalidTopicName,
    Producer,
    QueueFull,
    RecordsLost,
    RecordTooLarge,
    Token,
    UnknownPartition,
    Unreachable,
)
from runnel.client.connection import LOGGER
from runnel.errors import Closed, RunnelError


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    with Consumer(bootstrap, topic) as records:
        return [record.value for record in records]


def test_a_record_gets_a_token_that_says_where_it_is(producer, topic):
    assert producer.produce(topic, b"a") == Token(topic, 0, 0)
    assert producer.produce(topic, b"b") == Token(topic, 0, 1)


def test_key_value_headers_and_timestamp_come_back_as_they_were_written(producer, bootstrap, kept):
    headers = [("a", b"1"), ("a", b""), ("none", None)]
    producer.produce(kept, b"\x00\xff", key=b"k", headers=headers, timestamp=1_700_000_000_123)
    with Consumer(bootstrap, kept) as records:
        (record,) = records
    assert record == (kept, 0, 0, 1_700_000_000_123, b"k", b"\x00\xff", tuple(headers))
    assert record.token == (kept, 0, 0)


def test_none_is_not_the_same_as_empty(producer, bootstrap, topic):
    producer.produce(topic, None, key=b"")
    producer.produce(topic, b"")
    with Consumer(bootstrap, topic) as records:
        assert [(record.key, record.value) for record in records] == [(b"", None), (None, b"")]


def test_a_partition_can_be_chosen(producer, wide):
    assert [producer.produce(wide, b"", partition=number).partition for number in (2, 0, 1)] == [2, 0, 1]


def test_a_key_always_has_the_same_partition_and_it_is_the_one_of_the_java_clients(producer, wide):
    keys = [b"a", b"b", b"21", b"foobar", b"a" * 30, b"\xff\x00"]
    expected = [(murmur2(key) & 0x7FFFFFFF) % 3 for key in keys]
    assert set(expected) == {0, 1, 2}
    assert [producer.produce(wide, b"", key=key).partition for key in keys] == expected


def test_the_first_record_waits_for_no_id_of_its_producer(bootstrap, topic, caplog):
    """librdkafka has asked for it when the first record is handed in: it would do so half a second later by itself."""
    caplog.set_level(logging.DEBUG, LOGGER.name)
    with Producer(bootstrap, settings={"debug": "eos,topic"}) as producer:
        producer.produce(topic, b"a")
    asked = caplog.text.index("Acquiring ProducerId")
    assert asked < caplog.text.index(f"New local topic: {topic}")


def test_futures_give_tokens_in_the_order_of_submission(producer, bootstrap, topic):
    futures = [producer.submit(topic, str(number).encode()) for number in range(1_000)]
    assert [future.result().offset for future in futures] == list(range(1_000))
    assert values(bootstrap, topic) == [str(number).encode() for number in range(1_000)]


def test_a_callback_is_told_the_token(producer, topic):
    told = []
    producer.send(topic, b"a", on_delivery=told.append)
    producer.flush()
    assert told == [Token(topic, 0, 0)]


def test_a_callback_is_told_without_a_flush(producer, topic):
    told = threading.Event()
    producer.send(topic, b"a", on_delivery=lambda _: told.set())
    assert told.wait(60)


def test_a_callback_that_raises_stops_nothing(producer, topic):
    producer.send(topic, b"a", on_delivery=lambda _: 1 / 0)
    assert producer.submit(topic, b"b").result(60).offset == 1


def test_flush_waits_for_all_that_was_handed_in(producer, bootstrap, topic):
    for number in range(1_000):
        producer.send(topic, str(number).encode())
    producer.flush()
    assert len(values(bootstrap, topic)) == 1_000


def test_a_full_queue_makes_the_sender_wait(bootstrap, topic):
    with Producer(bootstrap, settings={"queue.buffering.max.messages": 10}) as producer:
        for number in range(500):
            producer.send(topic, str(number).encode())
    assert values(bootstrap, topic) == [str(number).encode() for number in range(500)]


def test_a_queue_that_stays_full_is_an_error(bootstrap, topic):
    settings = {"queue.buffering.max.messages": 1, "linger.ms": 60_000, "message.timeout.ms": 120_000}
    with Producer(bootstrap, settings=settings, timeout=0.2) as producer:
        producer.send(topic, b"a")
        with pytest.raises(QueueFull, match=r"no room for another within 0\.2 s"):
            producer.send(topic, b"b")
    assert values(bootstrap, topic) == [b"a"]


def test_a_record_over_the_producers_own_limit_is_refused_at_once(producer, topic):
    with pytest.raises(RecordTooLarge, match="Message size too large") as caught:
        producer.send(topic, bytes(2_000_000))
    assert caught.value.topic == topic


def test_a_record_over_the_topics_limit_is_refused_by_the_broker(producer, narrow):
    with pytest.raises(RecordTooLarge):
        producer.produce(narrow, bytes(2_000))


@pytest.mark.parametrize("wrong", ["\udcff", "a\0b"], ids=["no text", "a NUL"])
def test_a_header_that_librdkafka_cannot_take_is_refused(producer, bootstrap, topic, wrong):
    with pytest.raises(ValueError, match="cannot be the name of a header"):
        producer.send(topic, b"x", headers=[(wrong, b"y")])
    producer.flush()
    assert values(bootstrap, topic) == []


def test_the_first_millisecond_of_1970_is_not_taken_for_the_present(producer, bootstrap, kept):
    with pytest.raises(InvalidArgument, match="0 cannot be the timestamp"):
        producer.send(kept, b"x", timestamp=0)
    producer.produce(kept, b"y", timestamp=1)
    with Consumer(bootstrap, kept) as records:
        assert [(record.value, record.timestamp) for record in records] == [(b"y", 1)]


@pytest.mark.parametrize("wrong", ["\udcff", "a\0b"], ids=["no text", "a NUL"])
def test_a_topic_that_librdkafka_cannot_take_is_refused(producer, wrong):
    with pytest.raises(InvalidTopicName):
        producer.send(wrong, b"x")


def test_an_unknown_partition_is_told(producer, topic):
    with pytest.raises(UnknownPartition, match=f'topic "{topic}" has no partition 5'):
        producer.produce(topic, b"", partition=5)


def test_flush_raises_what_was_not_written(producer, bootstrap, narrow):
    told = []
    producer.send(narrow, bytes(2_000), on_delivery=told.append)
    with pytest.raises(RecordsLost, match=f'1 record was not written: a record for topic "{narrow}" is too large'):
        producer.flush()
    assert isinstance(told[0], RecordTooLarge)
    producer.send(narrow, b"small")
    producer.flush()  # what was told once is not told again
    assert values(bootstrap, narrow) == [b"small"]


def test_close_raises_what_was_not_written(bootstrap, narrow):
    producer = Producer(bootstrap)
    producer.send(narrow, bytes(2_000))
    with pytest.raises(RecordsLost):
        producer.close()
    producer.close()


def test_what_produce_raised_is_not_told_again(bootstrap, narrow):
    with Producer(bootstrap) as producer, pytest.raises(RecordTooLarge):
        producer.produce(narrow, bytes(2_000))


def test_an_error_of_the_block_is_not_hidden_by_lost_records(bootstrap, narrow):
    def fail() -> None:
        with Producer(bootstrap) as producer:
            producer.send(narrow, bytes(2_000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_closed_producer_refuses_records(bootstrap, topic):
    producer = Producer(bootstrap)
    producer.close()
    with pytest.raises(Closed, match="the producer is closed"):
        producer.send(topic, b"")


def test_a_broker_that_is_not_there_is_told_with_its_address():
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1: connection refused") as caught:
        Producer("127.0.0.1:1")
    assert isinstance(caught.value, RunnelError)
    assert caught.value.bootstrap == "127.0.0.1:1"
