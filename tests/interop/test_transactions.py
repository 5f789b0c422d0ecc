"""Transactions of confluent-kafka, aiokafka and kafka-python on our broker, read by each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from runnel import Broker
from tests.interop.transactional_clients import READERS, WRITERS, committed_offset, writer

each_writer = pytest.mark.parametrize("library", WRITERS)
each_reader = pytest.mark.parametrize("reader", READERS)
numbers = itertools.count(1)
END = b"end"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def topic(broker: Broker) -> str:
    """With two partitions; groups and transactional ids are named like it."""
    name = f"name-{next(numbers)}"
    broker.create_topic(name, 2)
    return name


@each_writer
@each_reader
def test_readers_see_what_is_committed_in_order_and_nothing_else(
    bootstrap: str, topic: str, library: str, reader: str
) -> None:
    kept: dict[int, list[bytes]] = {0: [], 1: []}
    with writer(library, bootstrap, topic) as producer:
        for number in range(8):
            producer.begin()
            for partition in (0, 1):
                value = b"%d in %d" % (number, partition)
                producer.write(topic, value, partition)
                if number % 3 != 1:
                    kept[partition].append(value)
            (producer.abort if number % 3 == 1 else producer.commit)()
        producer.begin()
        for partition in (0, 1):
            producer.write(topic, END, partition)
            kept[partition].append(END)
        producer.commit()
    assert READERS[reader](bootstrap, topic, {0: END, 1: END}) == kept


@each_writer
def test_whoever_takes_over_a_transactional_id_ends_what_the_other_has_begun(
    bootstrap: str, topic: str, library: str
) -> None:
    with writer(library, bootstrap, topic) as old:
        old.begin()
        old.write(topic, b"old")
        old.send_offsets({(topic, 1): 3}, topic)
        with writer(library, bootstrap, topic) as new:
            with pytest.raises(Exception, match=r"(?i)fenced|newer|ProducerFenced|epoch"):
                old.commit()
            new.begin()
            new.write(topic, END)
            new.commit()
    assert READERS["confluent"](bootstrap, topic, {0: END}) == {0: [END]}
    assert committed_offset(bootstrap, topic, topic, 1) < 0


@each_writer
@each_reader
def test_what_is_read_and_what_is_written_of_it_count_together(
    bootstrap: str, topic: str, library: str, reader: str
) -> None:
    """Records of one partition are copied to the other, in transactions that fail at first."""
    values = [b"%d" % number for number in range(5)]
    with writer("confluent", bootstrap, f"{topic}-source") as source:
        source.begin()
        for value in values:
            source.write(topic, value)
        source.commit()
    with writer(library, bootstrap, topic) as producer:
        for offset, value in enumerate(values):
            for commits in (False, True):
                producer.begin()
                producer.write(topic, b"copy of " + value, 1)
                producer.send_offsets({(topic, 0): offset + 1}, topic)
                (producer.commit if commits else producer.abort)()
                expected = offset + 1 if commits else offset or -1001
                assert committed_offset(bootstrap, topic, topic) == expected
    copies = READERS[reader](bootstrap, topic, {1: b"copy of 4"})
    assert copies == {1: [b"copy of " + value for value in values]}
