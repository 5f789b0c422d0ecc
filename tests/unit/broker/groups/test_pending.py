"""Offsets inside of transactions: which of them count, and when."""

from __future__ import annotations

from runnel.broker.groups.pending import PendingOffsets
from runnel.broker.groups.records import CommittedOffset, OffsetKey

ANN, BOB = 1, 2
FIRST, SECOND = OffsetKey("g", "orders", 0), OffsetKey("g", "orders", 1)
OTHER = OffsetKey("other", "orders", 0)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def test_what_is_committed_counts_once() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(ANN, SECOND, at(2))
    assert len(pending) == 2
    assert pending.end(ANN, committed=True) == [(FIRST, at(1)), (SECOND, at(2))]
    assert len(pending) == 0
    assert pending.end(ANN, committed=True) == []


def test_what_is_aborted_is_gone() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    assert pending.end(ANN, committed=False) == []
    assert (len(pending), pending.of_group("g")) == (0, {})
    assert pending.end(ANN, committed=True) == []


def test_an_end_concerns_one_producer_alone() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(BOB, SECOND, at(2))
    pending.end(ANN, committed=True)
    assert pending.of_group("g") == {SECOND: BOB}
    assert pending.end(BOB, committed=True) == [(SECOND, at(2))]


def test_the_last_offset_of_a_transaction_counts() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(5))
    pending.add(ANN, FIRST, at(3))
    assert pending.end(ANN, committed=True) == [(FIRST, at(3))]


def test_of_two_transactions_the_one_that_sent_its_offset_last_counts() -> None:
    """Not the one that ends last."""
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(BOB, FIRST, at(2))
    assert pending.end(BOB, committed=True) == [(FIRST, at(2))]
    assert pending.end(ANN, committed=True) == []


def test_the_earlier_offset_counts_if_it_ends_first_and_the_later_one_after_it() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(BOB, FIRST, at(2))
    assert pending.end(ANN, committed=True) == [(FIRST, at(1))]
    assert pending.of_group("g") == {FIRST: BOB}
    assert pending.end(BOB, committed=True) == [(FIRST, at(2))]


def test_an_abort_overtakes_nothing() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(BOB, FIRST, at(2))
    pending.end(BOB, committed=False)
    assert pending.end(ANN, committed=True) == [(FIRST, at(1))]


def test_a_commit_without_a_transaction_overtakes_what_is_pending_there_and_only_there() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(ANN, SECOND, at(2))
    pending.overtake(FIRST)
    assert pending.of_group("g") == {SECOND: ANN}
    assert pending.end(ANN, committed=True) == [(SECOND, at(2))]


def test_what_is_sent_after_a_commit_counts() -> None:
    pending = PendingOffsets()
    pending.overtake(FIRST)
    pending.add(ANN, FIRST, at(1))
    assert pending.end(ANN, committed=True) == [(FIRST, at(1))]


def test_a_group_is_told_of_its_own_places() -> None:
    pending = PendingOffsets()
    pending.add(ANN, FIRST, at(1))
    pending.add(BOB, OTHER, at(1))
    assert pending.of_group("g") == {FIRST: ANN}
    assert pending.of_group("other") == {OTHER: BOB}
    assert pending.of_group("nobody") == {}
