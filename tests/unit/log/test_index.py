import struct

import pytest

from runnel.log.index import Entries, Indexed, OffsetIndex, Timed, TimeIndex
from runnel.log.open_files import OpenFiles
from runnel.testing import FaultyFiles

PATH = "/index"


def open_files() -> OpenFiles:
    return OpenFiles(FaultyFiles(), 8)


def offset_index(files: OpenFiles, *entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(files, PATH, 1_000)
    for entry in entries:
        index.add(*entry)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(open_files(), PATH, 1_000)
    for entry in entries:
        index.add(*entry)
    return index


def content(files: OpenFiles) -> bytes:
    return files.get(PATH).read(1_000, 0)


# --- the offset index


@pytest.mark.parametrize(
    ("offset", "entry"),
    [
        (1_000, None),
        (1_009, None),
        (1_010, (1_010, 500)),
        (1_019, (1_010, 500)),
        (1_020, (1_020, 900)),
        (9_999, (1_020, 900)),
    ],
)
def test_an_offset_is_looked_up_at_the_last_entry_that_is_not_after_it(
    offset: int, entry: tuple[int, int] | None
) -> None:
    assert offset_index(open_files(), (1_010, 500), (1_020, 900)).find(offset) == entry


@pytest.mark.parametrize("saved", [0, 1, 2, 3])
def test_entries_in_the_file_and_in_memory_are_one_index(saved: int) -> None:
    entries = [(1_010, 500), (1_020, 900), (1_030, 1_300)]
    index = offset_index(open_files(), *entries[:saved])
    index.entries.save()
    for entry in entries[saved:]:
        index.add(*entry)

    assert [index.find(offset) for offset, _ in entries] == entries
    assert index.last() == entries[-1]


def test_the_offset_index_has_kafkas_layout() -> None:
    files = open_files()
    offset_index(files, (1_010, 500), (1_020, 900)).entries.save()

    assert content(files) == struct.pack(">iiii", 10, 500, 20, 900)


def test_a_saved_index_is_loaded() -> None:
    files = open_files()
    offset_index(files, (1_010, 500)).entries.save()
    again = OffsetIndex(files, PATH, 1_000)
    again.entries.load()

    assert again.last() == Indexed(1_010, 500)


def test_an_index_without_a_file_is_empty() -> None:
    index = OffsetIndex(open_files(), PATH, 1_000)
    index.entries.load()

    assert (len(index.entries), index.last(), index.find(5_000)) == (0, None, None)


def test_an_odd_end_is_left_out_and_written_over() -> None:
    files = open_files()
    files.get(PATH, create=True).write([struct.pack(">ii", 10, 500) + b"odd"], 0)
    index = OffsetIndex(files, PATH, 1_000)
    index.entries.load()
    index.add(1_020, 900)
    index.entries.save()

    assert content(files) == struct.pack(">iiii", 10, 500, 20, 900)


@pytest.mark.parametrize("saved", [0, 1, 2, 3])
def test_entries_from_a_position_on_are_cut_wherever_they_are(saved: int) -> None:
    files = open_files()
    entries = [(1_010, 500), (1_020, 900), (1_030, 1_300)]
    index = offset_index(files, *entries[:saved])
    index.entries.save()
    for entry in entries[saved:]:
        index.add(*entry)
    index.cut_from(900)
    assert len(index.entries) == 1

    index.entries.save()

    assert content(files) == struct.pack(">ii", 10, 500)


def test_a_lookup_after_the_entries_were_cut_is_a_struct_error() -> None:
    files = open_files()
    index = offset_index(files, (1_010, 500))
    index.entries.save()
    files.get(PATH).truncate(0)

    with pytest.raises(struct.error):
        index.find(1_010)


def test_saving_syncs_the_file() -> None:
    files = FaultyFiles()
    index = offset_index(OpenFiles(files, 8), (1_010, 500))
    index.entries.save()
    index.add(1_020, 900)
    index.entries.save()

    assert files.history[-1] == f"sync {PATH}"


def test_an_index_that_is_saved_for_the_first_time_replaces_the_file_as_a_whole() -> None:
    files = FaultyFiles()
    offset_index(OpenFiles(files, 8), (1_010, 500)).entries.save()

    assert files.history[-3:-1] == [f"sync {PATH}.tmp", f"rename {PATH}.tmp -> {PATH}"]


def test_an_index_that_is_made_anew_keeps_its_old_file_until_it_is_saved() -> None:
    files = FaultyFiles()
    index = offset_index(OpenFiles(files, 8), (1_010, 500), (1_020, 900))
    index.entries.save()
    index.entries.cut(0)

    assert len(index.entries) == 0
    assert not index.entries.saved
    assert files.open(PATH).size() == 16


def test_a_bisection_never_answers_with_an_entry_that_is_too_large_even_in_disorder() -> None:
    entries = Entries(open_files(), PATH, struct.Struct(">ii"))
    for first in (5, 90, 1, 7, 60, 3):
        entries.add(first, 0)
    for value in range(100):
        number = entries.bisect(0, value)
        assert number == 0 or entries[number - 1][0] <= value


# --- the time index


def test_the_time_index_has_kafkas_layout() -> None:
    files = open_files()
    index = TimeIndex(files, PATH, 1_000)
    index.add(77_000, 1_010)
    index.entries.save()

    assert content(files) == struct.pack(">qi", 77_000, 10)


@pytest.mark.parametrize(
    ("timestamp", "before", "reaching"),
    [
        (10, None, (50, 1_010)),
        (50, None, (50, 1_010)),
        (51, (50, 1_010), (70, 1_030)),
        (70, (50, 1_010), (70, 1_030)),
        (71, (70, 1_030), None),
    ],
)
def test_a_time_stands_between_two_entries(
    timestamp: int, before: tuple[int, int] | None, reaching: tuple[int, int] | None
) -> None:
    assert time_index((50, 1_010), (70, 1_030)).around(timestamp) == (before, reaching)


@pytest.mark.parametrize("timestamp", [50, 49, -1])
def test_a_time_that_is_no_larger_is_no_news(timestamp: int) -> None:
    assert len(time_index((50, 1_010), (timestamp, 1_020)).entries) == 1


def test_records_without_a_time_are_not_indexed() -> None:
    assert time_index((-1, 1_010)).last() is None


def test_what_batches_from_an_offset_on_have_added_is_cut() -> None:
    index = time_index((50, 1_010), (70, 1_030))
    index.cut_from(1_030)

    assert index.last() == Timed(50, 1_010)
