import pytest

from runnel.log.compaction.transactions import Transactions
from runnel.records import BatchHeader, Producer, Record, build_batch, build_marker, parse_header, place
from runnel.records.batch import CONTROL, TRANSACTIONAL


def data(offset: int, producer_id: int = 7, *, transactional: bool = True) -> BatchHeader:
    attributes = TRANSACTIONAL if transactional else 0
    return parse_header(
        build_batch([Record(b"v")], base_offset=offset, producer=Producer(producer_id, 0, 0), attributes=attributes)
    )


def marker(offset: int, producer_id: int = 7, *, committed: bool) -> tuple[BatchHeader, bytes]:
    batch = place(build_marker(producer_id, 0, committed=committed, coordinator_epoch=0, timestamp=5), offset, 0)
    return parse_header(batch), batch


@pytest.mark.parametrize(("offset", "aborted"), [(9, False), (10, True), (15, True), (20, True), (21, False)])
def test_a_batch_inside_of_an_aborted_transaction_of_its_producer_is_aborted(offset: int, aborted: bool) -> None:
    transactions = Transactions([(7, 30, 40), (7, 10, 20), (8, 0, 100)])

    assert transactions.is_aborted(data(offset)) is aborted
    assert transactions.meet(data(offset)) is aborted


def test_a_batch_of_another_producer_or_of_no_transaction_is_not_aborted() -> None:
    transactions = Transactions([(7, 10, 20)])

    assert not transactions.is_aborted(data(15, producer_id=8))
    assert not transactions.is_aborted(data(15, transactional=False))


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_needed_while_data_of_its_transaction_is_met(committed: bool) -> None:
    transactions = Transactions([] if committed else [(7, 3, 5)])
    transactions.meet(data(3))

    assert not transactions.meet_marker(*marker(5, committed=committed))


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_of_a_transaction_without_data_is_not_needed(committed: bool) -> None:
    transactions = Transactions([] if committed else [(7, 3, 5)])
    transactions.meet(data(4, producer_id=8))

    assert transactions.meet_marker(*marker(5, committed=committed))


def test_data_is_that_of_one_transaction_only() -> None:
    transactions = Transactions([])
    transactions.meet(data(3))

    assert not transactions.meet_marker(*marker(4, committed=True))
    assert transactions.meet_marker(*marker(5, committed=True))


def test_an_aborted_transaction_is_kept_in_the_index_while_its_data_is_met() -> None:
    transactions = Transactions([(7, 3, 5), (7, 8, 9)])
    transactions.meet(data(3))

    assert transactions.keeps(7, 5)
    assert not transactions.keeps(7, 9)


def test_a_marker_of_an_unknown_kind_is_always_needed() -> None:
    batch = build_batch([Record(b"", b"\x00\x00\x00\x07")], attributes=CONTROL)

    assert not Transactions([]).meet_marker(parse_header(batch), batch)
