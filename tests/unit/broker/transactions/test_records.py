"""The records of `__transaction_state`: Apache Kafka 4.3's own bytes are read, and written the same."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.transactions.records import read_key, read_value, write_key, write_value
from runnel.broker.transactions.state import Status, TopicPartition, Transaction

KEY = "0000000178"
ORDERS = frozenset({TopicPartition("topic-x", 0), TopicPartition("topic-x", 1)})
OFFSETS = frozenset({TopicPartition("__consumer_offsets", 0)})
ONE = frozenset({TopicPartition("topic-x", 0)})
BEGUN, BEGUN_AGAIN = 1_794_766_938_439, 1_794_766_938_471
# What Kafka wrote while a producer of the first generation committed, and one of the second aborted.
OF_KAFKA = {
    "0001000000000000002000000000ea600000000001a1e0722146ffffffffffffffff0100080000000000000020": Transaction(
        32, 0, 60_000, Status.EMPTY, updated=1_794_766_938_438, previous_producer_id=32
    ),
    "0001000000000000002000000000ea600401000001a1e072214b000001a1e07221470100080000000000000020": Transaction(
        32, 0, 60_000, Status.COMPLETE_COMMIT, started=BEGUN, updated=1_794_766_938_443, previous_producer_id=32
    ),
    "0001000000000000002000010000ea60010208746f7069632d78020000000000000001a1e0722167000001a1e0722167020008000000000000"
    "002002020002": Transaction(
        32, 1, 60_000, Status.ONGOING, ONE, BEGUN_AGAIN, BEGUN_AGAIN, previous_producer_id=32, version=2
    ),
    "0001000000000000002000020000ea60030208746f7069632d78020000000000000001a1e072216a000001a1e0722167020008000000000000"
    "002002020002": Transaction(
        32, 2, 60_000, Status.PREPARE_ABORT, ONE, BEGUN_AGAIN, 1_794_766_938_474, previous_producer_id=32, version=2
    ),
    "0001000000000000002000020000ea600501000001a1e072216b000001a1e0722167020008000000000000002002020002": Transaction(
        32, 2, 60_000, Status.COMPLETE_ABORT, started=BEGUN_AGAIN, updated=1_794_766_938_475, previous_producer_id=32,
        version=2,
    ),
}  # fmt: skip
# Kafka has the topics and partitions in the order of its hash tables.
IN_ANOTHER_ORDER = (
    "0001000000000000002000000000ea60020308746f7069632d7803000000010000000000135f5f636f6e73756d65725f6f66667365747302000000"
    "0000000001a1e072214a000001a1e07221470100080000000000000020"
)

partitions = st.frozensets(st.builds(TopicPartition, st.text(min_size=1, max_size=300), st.integers(0, 2**31 - 1)))
times = st.integers(-1, 2**62)
ids = st.integers(-1, 2**63 - 1)
transactions = st.builds(
    Transaction,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.sampled_from([status for status in Status if status is not Status.EMPTY]),
    partitions,
    times,
    times,
    ids,
    ids,
    st.integers(-1, 2**15 - 1),
    st.integers(0, 2),
)


@pytest.mark.parametrize(("data", "meant"), OF_KAFKA.items(), ids=[each.status.name for each in OF_KAFKA.values()])
def test_what_kafka_wrote_is_read_and_would_be_written_the_same(data: str, meant: Transaction) -> None:
    assert read_value(bytes.fromhex(data)) == meant
    assert write_value(meant).hex() == data


def test_the_order_of_partitions_means_nothing() -> None:
    assert read_value(bytes.fromhex(IN_ANOTHER_ORDER)) == Transaction(
        32, 0, 60_000, Status.PREPARE_COMMIT, ORDERS | OFFSETS, BEGUN, 1_794_766_938_442, previous_producer_id=32
    )


def test_the_key_is_that_of_kafka() -> None:
    assert write_key("x").hex() == KEY
    assert read_key(bytes.fromhex(KEY)) == "x"


@given(st.text(min_size=1, max_size=1_000))
def test_any_transactional_id_is_read_as_it_was_written(name: str) -> None:
    assert read_key(write_key(name)) == name


@given(transactions)
def test_any_transaction_is_read_as_it_was_written(transaction: Transaction) -> None:
    assert read_value(write_value(transaction)) == transaction


def test_an_empty_one_has_no_partitions_at_all() -> None:
    """Kafka's readers take null for a producer that has done nothing."""
    assert write_value(Transaction(1, 0, 5, Status.EMPTY))[17] == 0
    assert write_value(Transaction(1, 0, 5, Status.COMPLETE_ABORT))[17] == 1


def test_a_value_of_the_first_version_is_read() -> None:
    data = struct.pack(">hqhib", 0, 7, 3, 60_000, Status.ONGOING)
    data += struct.pack(">ih6siii", 1, 6, b"orders", 2, 4, 5) + struct.pack(">qq", 200, 100)
    places = frozenset({TopicPartition("orders", 4), TopicPartition("orders", 5)})
    assert read_value(data) == Transaction(7, 3, 60_000, Status.ONGOING, places, 100, 200)
    data = struct.pack(">hqhib", 0, 7, 3, 60_000, Status.EMPTY) + struct.pack(">iqq", -1, 200, -1)
    assert read_value(data) == Transaction(7, 3, 60_000, Status.EMPTY, updated=200)


def test_our_own_tag_is_the_only_one_that_kafka_does_not_know() -> None:
    known = Transaction(1, 2, 5, Status.EMPTY, previous_producer_id=3, next_producer_id=4, version=2)
    plain, tagged = write_value(known), write_value(known._replace(last_epoch=1))
    count = len(plain) - (1 + (2 + 8) + (2 + 8) + (2 + 2))  # where the number of tags stands
    assert (plain[count], tagged[count]) == (3, 4)
    assert tagged[count + 1 :] == plain[count + 1 :] + bytes.fromhex("e807 02 0001")


def test_a_tag_that_nobody_knows_is_stepped_over() -> None:
    plain = write_value(Transaction(1, 2, 5, Status.EMPTY))
    assert read_value(plain[:-1] + bytes.fromhex("02 2a 03 ffffff 02 02 0002")).version == 2


@pytest.mark.parametrize("version", [-1, 2])
def test_a_value_of_another_version_is_refused(version: int) -> None:
    data = struct.pack(">h", version) + write_value(Transaction(1, 2, 5, Status.EMPTY))[2:]
    with pytest.raises(ValueError, match=f"a value of version {version}"):
        read_value(data)


def test_a_key_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="a key of version 1"):
        read_key(b"\x00\x01" + write_key("x")[2:])
