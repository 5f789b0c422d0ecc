"""Transactions of any Kafka, as their coordinators and the partitions know them."""

from __future__ import annotations

import pytest

from runnel.client import (
    Consumer,
    NotHanging,
    NothingOpen,
    Transactions,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
)
from runnel.client.transactions import State

HANGING_PRODUCER = 987_654  # an id that no broker of a test gets to


@pytest.fixture
def transactions(admin):
    return Transactions(admin)


def by_id(found, transactional_id):
    return next((each for each in found if each.id == transactional_id), None)


# --- looking


def test_an_open_transaction_is_listed_with_its_producer_and_its_partitions(transactions, wide, open_transaction):
    begun = open_transaction(wide, 2, 0, timeout=47_000)
    listed = by_id(transactions.list(), begun.id)
    assert listed == transactions.describe(begun.id)
    assert (listed.state, listed.timeout, listed.is_open) == ("ongoing", 47_000, True)
    assert listed.partitions == ((wide, 0), (wide, 2))
    assert listed.started > 0
    assert listed.producer_id >= 0


def test_transactions_are_listed_by_their_state(transactions, topic, open_transaction):
    begun = open_transaction(topic, 0)
    assert by_id(transactions.list([State.ONGOING, State.EMPTY]), begun.id)
    assert by_id(transactions.list([State.EMPTY]), begun.id) is None


def test_a_committed_transaction_is_not_open(transactions, topic, open_transaction):
    begun = open_transaction(topic, 0)
    begun.client.commit_transaction(60)
    described = transactions.describe(begun.id)
    while described.state == "prepare commit":  # Apache Kafka answers a commit before its markers are written
        described = transactions.describe(begun.id)
    assert (described.state, described.started, described.partitions) == ("complete commit", None, ())


def test_a_transactional_id_that_is_not_there_is_told(transactions, name):
    with pytest.raises(UnknownTransaction):
        transactions.describe("\udcff")  # what no transactional id can be
    with pytest.raises(UnknownTransaction, match=f'there is no transactional id "{name}"'):
        transactions.describe(name)


def test_a_partition_knows_its_producers_and_where_their_transactions_begin(
    transactions, producer, wide, open_transaction
):
    producer.produce(wide, b"before", partition=1)
    begun = open_transaction(wide, 1)
    known = transactions.describe(begun.id)
    plain, writing = sorted(transactions.producers([(wide, 0), (wide, 1)]), key=lambda each: each.first_offset or 0)
    assert (plain.first_offset, plain.partition) == (None, 1)
    assert (writing.first_offset, writing.last_sequence) == (1, 0)
    assert (writing.producer_id, writing.epoch) == (known.producer_id, known.epoch)


def test_an_open_transaction_of_a_partition_is_known_by_its_id(transactions, topic, open_transaction):
    first, second = open_transaction(topic, 0), open_transaction(topic, 0)
    found = transactions.open_in([(topic, 0)])
    assert [(each.known.id, each.first_offset, each.is_listed) for each in found] == [
        (first.id, 0, True), (second.id, 1, True),
    ]  # fmt: skip
    assert found[0].since == transactions.describe(first.id).started
    assert transactions.hanging([(topic, 0)]) == []


def test_partitions_that_are_not_there_are_told(transactions, topic):
    with pytest.raises(UnknownPartition, match=f'topic "{topic}" has no partition 1'):
        transactions.producers([(topic, 1)])
    with pytest.raises(UnknownTopic, match=f'there is no topic "{topic}-none"'):
        transactions.producers([(f"{topic}-none", 0)])


# --- ending


def test_an_abort_ends_the_transaction_and_fences_its_producer(transactions, producer, wide, open_transaction):
    begun = open_transaction(wide, 0, 1)
    before = transactions.abort(begun.id)
    assert before.partitions == ((wide, 0), (wide, 1))
    after = transactions.describe(begun.id)
    assert (after.is_open, after.timeout) == (False, before.timeout)
    assert transactions.open_in([(wide, 0), (wide, 1)]) == []
    with pytest.raises(Exception, match="fenced"):
        begun.client.commit_transaction(60)


def test_an_abort_of_what_is_not_open_fences_nobody(transactions, topic, open_transaction):
    begun = open_transaction(topic, 0)
    begun.client.abort_transaction(60)
    while transactions.describe(begun.id).state == "prepare abort":
        pass
    with pytest.raises(NothingOpen, match=f'"{begun.id}" has no open transaction that can be aborted'):
        transactions.abort(begun.id)
    begun.client.begin_transaction()
    begun.client.produce(topic, b"more")
    begun.client.commit_transaction(60)


def test_an_abort_of_an_unknown_id_does_not_make_it(transactions, name):
    with pytest.raises(UnknownTransaction):
        transactions.abort(name)
    assert by_id(transactions.list(), name) is None


def test_a_transaction_that_its_coordinator_knows_is_not_ended_in_one_partition(transactions, wide, open_transaction):
    begun = open_transaction(wide, 0, 1)
    with pytest.raises(NotHanging, match=f'does not hang: it is that of "{begun.id}"'):
        transactions.abort_hanging(wide, 0, first_offset=0)
    begun.client.commit_transaction(60)
    assert transactions.hanging([(wide, 0), (wide, 1)]) == []


# --- hanging


def test_a_transaction_that_no_coordinator_knows_hangs(transactions, wide, hang, open_transaction):
    open_transaction(wide, 0)
    hang(wide, 1, HANGING_PRODUCER)
    (found,) = transactions.hanging([(wide, number) for number in range(3)])
    assert (found.place, found.first_offset, found.known, found.since) == ((wide, 1), 0, None, None)
    assert (found.producer.producer_id, found.producer.epoch) == (HANGING_PRODUCER, 0)


@pytest.mark.parametrize("by", [{"first_offset": 1}, {"producer_id": HANGING_PRODUCER}])
def test_a_hanging_transaction_is_ended(transactions, bootstrap, producer, topic, hang, by):
    producer.produce(topic, b"before")
    hang(topic, 0, HANGING_PRODUCER)
    producer.produce(topic, b"after")
    with Consumer(bootstrap, topic) as held:
        assert [record.value for record in held] == [b"before"]
    assert transactions.abort_hanging(topic, 0, **by).first_offset == 1
    assert transactions.open_in([(topic, 0)]) == []
    with Consumer(bootstrap, topic) as free:
        assert [record.value for record in free] == [b"before", b"after"]


def test_a_hanging_transaction_that_is_not_there_is_told(transactions, topic, hang):
    hang(topic, 0, HANGING_PRODUCER)
    with pytest.raises(NothingOpen, match=f"{topic}-0 has no open transaction that begins at offset 5"):
        transactions.abort_hanging(topic, 0, first_offset=5)
    with pytest.raises(NothingOpen, match=f"{topic}-0 has no open transaction that is of producer 5"):
        transactions.abort_hanging(topic, 0, producer_id=5)
