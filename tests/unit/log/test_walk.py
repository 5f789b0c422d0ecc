from collections.abc import Callable, Iterator

import pytest

from runnel.files import File
from runnel.log.walk import Broken, headers, next_whole_batch, whole_batches
from runnel.records import BatchHeader, Record, build_batch
from runnel.testing import FaultyFiles

Walk = Callable[[File, int, int, int], Iterator[tuple[int, BatchHeader]]]
BOTH = pytest.mark.parametrize("walk", [headers, whole_batches])


def batch(base: int, count: int = 2, size: int = 50) -> bytes:
    return build_batch([Record(b"." * size)] * count, base_offset=base)


FIRST, SECOND, THIRD = batch(10), batch(12), batch(14)


def file_with(*parts: bytes | bytearray) -> File:
    file = FaultyFiles().open("/segment", create=True)
    file.write(parts, 0)
    return file


def walked(walk: Walk, file: File, position: int = 0, offset: int = 10) -> list[tuple[int, int]]:
    return [(at, header.base_offset) for at, header in walk(file, position, file.size(), offset)]


def broken(walk: Walk, file: File) -> Broken:
    with pytest.raises(Broken) as raised:
        walked(walk, file)
    return raised.value


@BOTH
def test_all_batches_are_met_in_their_order(walk: Walk) -> None:
    size = len(FIRST)

    assert walked(walk, file_with(FIRST, SECOND, THIRD)) == [(0, 10), (size, 12), (2 * size, 14)]


@BOTH
def test_a_walk_may_begin_in_the_middle(walk: Walk) -> None:
    assert walked(walk, file_with(FIRST, SECOND), len(FIRST), 12) == [(len(FIRST), 12)]


@BOTH
def test_an_empty_file_has_no_batches(walk: Walk) -> None:
    assert walked(walk, file_with()) == []


@BOTH
def test_batches_larger_than_what_is_read_at_once_are_met(walk: Walk) -> None:
    large = batch(10, count=3, size=700_000)

    assert walked(walk, file_with(large, batch(13))) == [(0, 10), (len(large), 13)]


@BOTH
@pytest.mark.parametrize("left", [1, 20, 61, 100])
def test_a_batch_that_is_cut_off_is_broken(walk: Walk, left: int) -> None:
    found = broken(walk, file_with(FIRST, SECOND[:left]))

    assert (found.position, found.offset) == (len(FIRST), 12)


@BOTH
def test_a_gap_in_the_offsets_is_broken(walk: Walk) -> None:
    found = broken(walk, file_with(FIRST, THIRD))

    assert (found.position, found.offset, found.reason) == (len(FIRST), 12, "batch with offsets 14 to 15")


@BOTH
def test_a_batch_of_another_format_is_broken(walk: Walk) -> None:
    old = bytearray(SECOND)
    old[16] = 1

    assert broken(walk, file_with(FIRST, old)).reason == "batch of format 1, only format 2 is known"


@BOTH
@pytest.mark.parametrize("length", [0, 48, -1, 2**31 - 1])
def test_a_length_that_cannot_be_is_broken(walk: Walk, length: int) -> None:
    wrong = SECOND[:8] + length.to_bytes(4, "big", signed=True) + SECOND[12:]

    assert broken(walk, file_with(FIRST, wrong)).position == len(FIRST)


@BOTH
def test_zeros_are_broken(walk: Walk) -> None:
    assert broken(walk, file_with(FIRST, bytes(500))).position == len(FIRST)


def test_a_changed_record_is_broken_only_for_who_checks() -> None:
    changed = SECOND[:-1] + b"?"
    file = file_with(FIRST, changed, THIRD)

    assert len(walked(headers, file)) == 3
    assert broken(whole_batches, file).reason.startswith("checksum of the batch is")


# --- behind a damage


def found_behind(file: File, position: int, offset: int, end_offset: int | None = None) -> tuple[int, int] | None:
    found = next_whole_batch(file, position, file.size(), offset, end_offset)
    return (found[0], found[1].base_offset) if found else None


@pytest.mark.parametrize(
    "garbage",
    [b"", b"?", bytes(100), b"\x02" * 300, FIRST[:-1], b"\x02" * 1_100_000, bytes(1_100_000)],
    ids=["nothing", "a byte", "zeros", "formats", "a torn batch", "many formats", "many zeros"],
)
def test_the_next_whole_batch_is_found_behind_any_garbage(garbage: bytes) -> None:
    file = file_with(garbage, SECOND, THIRD)

    assert found_behind(file, 0, 10) == (len(garbage), 12)


def test_a_batch_that_is_not_whole_is_stepped_over() -> None:
    file = file_with(FIRST, SECOND[:-1] + b"?", THIRD)

    assert found_behind(file, 1, 12) == (2 * len(FIRST), 14)


def test_a_batch_of_earlier_offsets_is_stepped_over() -> None:
    file = file_with(FIRST, FIRST, SECOND)

    assert found_behind(file, 1, 11) == (2 * len(FIRST), 12)


def test_nothing_is_found_when_nothing_is_whole() -> None:
    assert found_behind(file_with(FIRST, SECOND[:-1]), 1, 10) is None


def test_a_batch_whose_offset_the_next_one_does_not_confirm_is_stepped_over() -> None:
    astray = batch(5_000)
    file = file_with(b"?", astray, SECOND, THIRD)

    assert found_behind(file, 0, 10) == (1 + len(astray), 12)


def test_the_last_batch_is_confirmed_by_the_known_end() -> None:
    assert found_behind(file_with(b"?", SECOND), 0, 10, end_offset=14) == (1, 12)
    assert found_behind(file_with(b"?", batch(5_000)), 0, 10, end_offset=14) is None


def test_the_last_synced_batch_is_confirmed_whatever_follows_it() -> None:
    assert found_behind(file_with(b"?", SECOND, b"torn" * 50), 0, 10, end_offset=14) == (1, 12)


def test_offsets_behind_a_damage_may_need_more_than_four_bytes() -> None:
    after = 2**33 + 5
    file = file_with(b"?" * 70, batch(2**33), batch(2**33 + 2))

    assert found_behind(file, 0, 2**33 - 1, after) == (70, 2**33)


def test_a_file_that_ends_early_is_searched_to_its_end() -> None:
    file = file_with(FIRST)

    assert next_whole_batch(file, 1, 2**40, 10) is None
