import pytest

from runnel.log import Record
from runnel.log.tail import MUCH, OVERHEAD, TailCache
from tests.unit.log.stage import Stage, batch, fill, offsets

NAME = "orders-0"


def cache(budget: int = 10 * (OVERHEAD + 10)) -> TailCache:
    """Offsets 10 to 19, 20 to 29 and 30 to 39 in three batches of 10 bytes each."""
    tails = TailCache(budget)
    tails.add(NAME, 10, [(b"a" * 10,), (b"b" * 10,), (b"c" * 10,)], [20, 30, 40])
    return tails


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    assert cache().read(NAME, 25, 1_000) == (b"b" * 10 + b"c" * 10, 40)


def test_a_read_respects_the_bytes_it_was_given() -> None:
    assert cache().read(NAME, 10, 20) == (b"a" * 10 + b"b" * 10, 30)
    assert cache().read(NAME, 10, 19) == (b"a" * 10, 20)


def test_a_read_gets_one_batch_even_if_it_is_larger() -> None:
    assert cache().read(NAME, 10, 1) == (b"a" * 10, 20)


def test_offsets_outside_of_the_cache_are_not_here() -> None:
    assert cache().read(NAME, 9, 1_000) is None
    assert cache().read(NAME, 40, 1_000) is None
    assert cache().read("other-0", 10, 1_000) is None


def test_batches_that_follow_are_added() -> None:
    tails = cache()
    tails.add(NAME, 40, [(b"d",)], [41])

    assert tails.read(NAME, 30, 1_000) == (b"c" * 10 + b"d", 41)


def test_batches_behind_a_gap_replace_what_was_there() -> None:
    tails = cache()
    tails.add(NAME, 50, [(b"d",)], [51])

    assert tails.read(NAME, 30, 1_000) is None
    assert tails.read(NAME, 50, 1_000) == (b"d", 51)


def test_the_oldest_batches_go_when_the_budget_is_used_up() -> None:
    tails = cache(budget=3 * (OVERHEAD + 10))
    tails.add(NAME, 40, [(b"d" * 10,)], [50])

    assert tails.read(NAME, 10, 1_000) is None
    assert tails.read(NAME, 45, 1_000) == (b"d" * 10, 50)


def test_no_more_goes_than_is_needed() -> None:
    """To free thousands of batches at once would hold up all requests."""
    tails = TailCache(5_000 * (OVERHEAD + 1))
    for number in range(20_000):
        tails.add(NAME, number, [(b"x",)], [number + 1])
        oldest = max(0, number - 4_999)
        assert tails.read(NAME, oldest, 1) == (b"x", oldest + 1)
        assert tails.read(NAME, oldest - 1, 1) is None


def test_the_partition_that_was_written_longest_ago_gives_up_its_batches_first() -> None:
    tails = cache(budget=3 * (OVERHEAD + 10))
    tails.add("other-0", 0, [(b"x" * 10,)], [1])

    assert tails.read(NAME, 10, 1_000) is None
    assert tails.read("other-0", 0, 1_000) == (b"x" * 10, 1)


def test_a_batch_larger_than_the_budget_is_not_kept() -> None:
    tails = TailCache(OVERHEAD + 5)
    tails.add(NAME, 10, [(b"a" * 10,)], [20])

    assert tails.read(NAME, 10, 1_000) is None


def test_the_budget_is_held_over_many_additions() -> None:
    budget = 10 * (OVERHEAD + 50)
    tails = TailCache(budget)
    for number in range(500):
        tails.add(f"p{number % 7}-0", number, [(bytes(number % 90),)], [number + 1])
        assert 0 <= tails._used <= budget
        assert tails._used == sum(tail.cost for tail in tails._tails.values())


def test_small_batches_count_for_what_they_really_cost() -> None:
    tails = TailCache(100 * OVERHEAD)
    for number in range(1_000):
        tails.add(NAME, number, [(b"x",)], [number + 1])

    assert tails.read(NAME, 999 - 100, 1_000) is None
    assert tails.read(NAME, 999, 1_000) == (b"x", 1_000)


def test_a_forgotten_partition_frees_its_bytes() -> None:
    tails = cache()
    tails.forget(NAME)
    tails.forget(NAME)

    assert tails.read(NAME, 10, 1_000) is None
    assert tails._used == 0


def test_memory_goes_back_to_the_system_once_much_was_given_up() -> None:
    asked = []
    tails = TailCache(MUCH, lambda: asked.append(True))
    tails.add(NAME, 0, [(bytes(MUCH - OVERHEAD),)], [1])
    tails.give_back()
    assert asked == []

    tails.add("other-0", 0, [(b"x",)], [1])
    tails.give_back()
    tails.give_back()

    assert asked == [True]


# --- in a log


def test_memory_goes_back_to_the_system_at_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(TailCache, "give_back", lambda tails: asked.append(tails))
    stage = Stage(checkpoint_ms=60_000)
    stage.log.maintain()
    assert asked == []

    stage.clock.advance(60_000)
    stage.log.maintain()

    assert len(asked) == 1


def test_reads_at_the_end_touch_no_disk() -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 20)
    stage.files.fail("read", times=10**6)
    stage.files.fail("open", times=10**6)

    assert offsets(partition) == list(range(20))


def test_reads_of_what_left_the_cache_come_from_the_disk() -> None:
    stage = Stage(tail_cache_bytes=4 * OVERHEAD)
    partition = stage.partition()
    fill(partition, 20)

    assert offsets(partition) == list(range(20))


def test_a_log_without_a_cache_reads_from_the_disk() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition()
    fill(partition, 20)

    assert offsets(partition) == list(range(20))


def test_records_that_a_failed_sync_took_back_leave_the_cache() -> None:
    stage = Stage(retry_after_failure_ms=0)
    partition = stage.partition(flush_messages=3)
    partition.append([Record(b"seen and lost")])
    stage.files.fail("sync", ".log")
    append = partition.submit(batch(b"lost", b"lost"))
    stage.log.commit()
    assert append.error is not None

    partition.append([Record(b"instead")])

    assert [record.value for record in partition.records()] == [b"instead"]
