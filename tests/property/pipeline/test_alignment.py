"""Where a batch ends that cannot take everything."""

import bisect

from hypothesis import given
from hypothesis import strategies as st

from runnel.pipeline.source.alignment import aligned

PARTITIONS = st.lists(st.lists(st.integers(1, 50), max_size=30).map(sorted), min_size=1, max_size=4)


def cut(partitions, start, most, guess=(0, 0)):
    latest = {("t", number): len(times) for number, times in enumerate(partitions)}
    newest = max((times[-1] for times in partitions if times), default=0)
    asked = []

    def offsets_at(moment):
        asked.append(moment)
        return {("t", number): bisect.bisect_left(times, moment) for number, times in enumerate(partitions)}

    ends, moment = aligned(start, latest, most, newest + 1, offsets_at, guess)
    return ends, moment, asked


@given(PARTITIONS, st.integers(1, 40), st.data())
def test_a_batch_is_never_too_large_always_goes_on_and_leaves_nothing_older_behind(partitions, most, data):
    start = {
        ("t", number): data.draw(st.integers(0, len(times)), label=f"start {number}")
        for number, times in enumerate(partitions)
    }
    waiting = sum(len(times) - start["t", number] for number, times in enumerate(partitions))
    ends, _, _ = cut(partitions, start, most)
    taken = {place: ends[place] - start[place] for place in ends}
    assert all(count >= 0 for count in taken.values())
    assert sum(taken.values()) <= max(most, 0)
    if waiting:
        assert sum(taken.values()) > 0
    newest_taken = max(
        (partitions[number][ends["t", number] - 1] for number in range(len(partitions)) if taken["t", number]),
        default=0,
    )
    for number, times in enumerate(partitions):
        left = times[ends["t", number] :]
        assert not left or left[0] >= newest_taken


@given(PARTITIONS, st.integers(1, 40))
def test_batch_after_batch_everything_is_read(partitions, most):
    start = {("t", number): 0 for number in range(len(partitions))}
    guess = (0, 0)
    for _ in range(200):
        if sum(start.values()) == sum(map(len, partitions)):
            return
        start, moment, _ = cut(partitions, start, most, guess)
        guess = (moment, max(1, (moment - guess[0]) // 2)) if guess[0] else (moment, 0)
    raise AssertionError("it does not come to an end")


def test_a_few_questions_are_enough():
    partitions = [list(range(1_000, 100_000, 3)), list(range(1_000, 100_000, 5))]
    _, _, asked = cut(partitions, {("t", 0): 0, ("t", 1): 0}, 5_000)
    assert len(asked) <= 20


def test_an_empty_partition_holds_nobody_up():
    ends, _, _ = cut([[1, 2, 3, 4], []], {("t", 0): 0, ("t", 1): 0}, 3)
    assert ends in ({("t", 0): 2, ("t", 1): 0}, {("t", 0): 3, ("t", 1): 0})


def test_many_records_of_one_moment_are_shared_out():
    ends, _, _ = cut([[7] * 10, [7] * 30], {("t", 0): 0, ("t", 1): 0}, 8)
    assert ends == {("t", 0): 2, ("t", 1): 6}
