"""Which batches of an answer are visible: a model of committed reading, against the headers alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.client.batches import Aborted, Seen, visible
from runnel.errors import CorruptBatch
from runnel.records import TRANSACTIONAL, Codec, Producer, Record, batches_of, build_batch, build_marker, records_of

WHOLE = 2**40


def data(offset, *values, producer=None, codec=Codec.NONE):
    """A batch; of a transaction if it has a producer."""
    own = {} if producer is None else {"producer": Producer(producer, 0, 0), "attributes": TRANSACTIONAL}
    return build_batch([Record(value, None, 1) for value in values], base_offset=offset, codec=codec, **own)


def marker(offset, producer, *, committed):
    built = build_marker(producer, 0, committed=committed, coordinator_epoch=0, timestamp=1)
    return offset.to_bytes(8, "big") + built[8:]


def values_in(seen):
    return [
        record.value for part in seen.parts for position, _ in batches_of(part) for record in records_of(part, position)
    ]


def seen_in(*batches, aborted=(), start=0, end=WHOLE):
    return visible(memoryview(b"".join(batches)), [Aborted(*each) for each in aborted], start, end)


def test_batches_that_follow_each_other_are_one_view():
    whole = data(0, b"a", b"b") + data(2, b"c")
    seen = seen_in(whole)
    assert [bytes(part) for part in seen.parts] == [whole]
    assert seen.next_offset == 3


def test_nothing_is_nothing():
    assert visible(memoryview(b""), [], 0, 10) == Seen((), -1)


def test_a_marker_is_taken_out_and_its_offset_passed():
    seen = seen_in(data(0, b"a", producer=7), marker(1, 7, committed=True), data(2, b"b"))
    assert values_in(seen) == [b"a", b"b"]
    assert len(seen.parts) == 2
    assert seen_in(marker(5, 7, committed=True)) == Seen((), 6)


def test_an_aborted_transaction_is_taken_out_up_to_its_marker():
    seen = seen_in(
        data(0, b"no", producer=7),
        data(1, b"other", producer=8),
        data(2, b"no", producer=7),
        marker(3, 7, committed=False),
        data(4, b"yes", producer=7),
        marker(5, 7, committed=True),
        marker(6, 8, committed=True),
        aborted=[(7, 0)],
    )
    assert values_in(seen) == [b"other", b"yes"]
    assert seen.next_offset == 7


def test_two_aborted_transactions_of_one_producer_leave_the_one_between_them():
    seen = seen_in(
        data(0, b"no", producer=7),
        marker(1, 7, committed=False),
        data(2, b"yes", producer=7),
        marker(3, 7, committed=True),
        data(4, b"no", producer=7),
        marker(5, 7, committed=False),
        aborted=[(7, 4), (7, 0)],
    )
    assert values_in(seen) == [b"yes"]


def test_an_aborted_transaction_that_began_before_the_answer_is_taken_out():
    assert values_in(seen_in(data(5, b"no", producer=7), data(6, b"yes"), aborted=[(7, 2)], start=5)) == [b"yes"]


def test_a_producer_without_transactions_is_not_taken_for_one():
    plain = build_batch([Record(b"yes", None, 1)], producer=Producer(7, 0, 0))
    assert values_in(seen_in(plain, aborted=[(7, 0)])) == [b"yes"]


def test_batches_that_reach_beyond_the_range_are_given_whole():
    seen = seen_in(data(0, b"0", b"1"), data(2, b"2", b"3"), data(4, b"4", b"5"), start=1, end=4)
    assert values_in(seen) == [b"0", b"1", b"2", b"3"]
    assert seen.next_offset == 4
    assert seen_in(data(0, b"0", b"1"), data(2, b"2", b"3"), start=0, end=3).next_offset == 4


def test_batches_before_the_range_are_left_out():
    assert values_in(seen_in(data(0, b"0"), data(1, b"1"), start=1)) == [b"1"]


def test_a_gap_up_to_the_end_of_the_range_is_passed():
    assert seen_in(data(9, b"9"), start=2, end=5) == Seen((), 5)
    assert seen_in(data(2, b"2"), data(9, b"9"), start=2, end=5).next_offset == 5


@pytest.mark.parametrize("cut", [1, 30, 61, 65])
def test_a_batch_that_is_cut_off_is_left_for_the_next_answer(cut):
    second = data(1, b"x" * 50)
    seen = seen_in(data(0, b"a"), second[:cut])
    assert values_in(seen) == [b"a"]
    assert seen.next_offset == 1
    assert seen_in(second[:cut]) == Seen((), -1)


def test_an_old_format_is_told():
    old = bytearray(data(4, b"a"))
    old[16] = 1
    with pytest.raises(CorruptBatch, match="a batch of format 1 at offset 4"):
        seen_in(bytes(old))


def test_compressed_batches_are_not_looked_into():
    batch = data(0, b"a" * 100, codec=Codec.ZSTD)
    assert [bytes(part) for part in seen_in(batch).parts] == [batch]


@given(
    st.lists(st.tuples(st.sampled_from(["plain", 7, 8]), st.sampled_from(["write", "commit", "abort"])), max_size=30)
)
def test_what_is_visible_is_what_was_committed(history):
    """Of any history in which all transactions end."""
    log, aborted, open_since, pending, offset = [], [], {}, {}, 0
    committed = []
    for who, what in [*history, (7, "commit"), (8, "abort")]:
        value = b"%d" % offset
        if who == "plain":
            log.append(data(offset, value))
            committed.append(value)
        elif what == "write":
            log.append(data(offset, value, producer=who))
            open_since.setdefault(who, offset)
            pending.setdefault(who, []).append(value)
        elif who in open_since:
            log.append(marker(offset, who, committed=what == "commit"))
            first, values = open_since.pop(who), pending.pop(who)
            if what == "commit":
                committed += values
            else:
                aborted.append((who, first))
        else:
            continue
        offset += 1
    seen = seen_in(*log, aborted=aborted)
    assert values_in(seen) == sorted(committed, key=int)
    assert seen.next_offset == (offset or -1)
