"""Which records of the dirty part are the newest of their key, piece by piece from its end to its start."""

from pathlib import Path

import pytest

from runnel.files import DISK
from runnel.log.compaction.newest import DEAD, LIVE, TOMBSTONE, Dirty, Newest, TooManyKeys
from runnel.log.compaction.transactions import Transactions
from runnel.log.compaction.windows import windows_of
from runnel.records import Record, build_batch, place

NO_TRANSACTIONS = Transactions(())


def dirty_part(folder: Path, *pieces: list[Record]) -> list[Dirty]:
    """Each piece is a batch in a segment of its own."""
    found: list[Dirty] = []
    offset = 0
    for records in pieces:
        path = folder / f"{offset}.log"
        path.write_bytes(place(build_batch(records), offset, 0))
        file = DISK.open(str(path))
        (window,) = windows_of(file, offset, file.size())
        found.append(Dirty(file, window, offset))
        offset += len(records)
    return found


def puts(*keys: str) -> list[Record]:
    return [Record(b"value", key.encode() if key else None) for key in keys]


def fates(folder: Path, *pieces: list[Record], newest: Newest | None = None) -> list[int]:
    newest = newest or Newest(1_000_000)
    newest.find(dirty_part(folder, *pieces), NO_TRANSACTIONS, lambda: None)
    return list(newest.fates)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([puts("a", "b", "c")], [LIVE, LIVE, LIVE]),
        ([puts("a", "b", "a")], [DEAD, LIVE, LIVE]),
        ([puts("a", "b"), puts("c", "d")], [LIVE, LIVE, LIVE, LIVE]),
        ([puts("a", "b", "c"), puts("b", "d")], [LIVE, DEAD, LIVE, LIVE, LIVE]),
        ([puts("a", "b", "a"), puts("b", "a")], [DEAD, DEAD, DEAD, LIVE, LIVE]),
        ([puts("a", "b", "a", "c"), puts("b")], [DEAD, DEAD, LIVE, LIVE, LIVE]),
    ],
)
def test_a_record_lives_if_no_later_one_has_its_key(
    tmp_path: Path, pieces: list[list[Record]], expected: list[int]
) -> None:
    assert fates(tmp_path, *pieces) == expected


def test_records_without_a_key_die_and_make_no_other_one_older(tmp_path: Path) -> None:
    assert fates(tmp_path, puts("a", "", "b"), puts("", "b")) == [LIVE, DEAD, DEAD, DEAD, LIVE]


def test_a_tombstone_that_is_the_newest_is_told_from_a_value(tmp_path: Path) -> None:
    gone = Record(None, b"a")
    assert fates(tmp_path, [gone, *puts("a", "b")], [gone]) == [DEAD, DEAD, LIVE, TOMBSTONE]


def test_the_keys_of_all_pieces_are_known_afterwards(tmp_path: Path) -> None:
    newest = Newest(1_000_000)
    fates(tmp_path, puts("a", "b", ""), puts("b", "c"), newest=newest)
    assert len(newest.keys) == 3


def test_more_keys_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    newest = Newest(1_000_000)
    newest.capacity = 3
    with pytest.raises(TooManyKeys):
        fates(tmp_path, puts("a", "b"), puts("c", "d"), newest=newest)
    assert not newest.keys
