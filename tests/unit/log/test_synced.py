import struct

from runnel.log.synced import SyncedOffsets
from runnel.testing import FaultyFiles

PATH = "/synced-offsets"


def synced(files: FaultyFiles, **offsets: int) -> SyncedOffsets:
    known = SyncedOffsets(files, PATH)
    known.start(offsets)
    return known


def loaded(files: FaultyFiles) -> dict[str, int]:
    return SyncedOffsets(files, PATH).load()


def damage(files: FaultyFiles, position: int, content: bytes) -> None:
    files.open(PATH).write([content], position)


def test_nothing_is_known_without_the_file() -> None:
    assert loaded(FaultyFiles()) == {}


def test_what_it_starts_with_is_known() -> None:
    files = FaultyFiles()
    synced(files, orders=5, notes=2**40)

    assert loaded(files) == {"orders": 5, "notes": 2**40}


def test_notes_replace_what_was_known_and_add_what_was_not() -> None:
    files = FaultyFiles()
    known = synced(files, orders=5)
    known.note("orders", 6)
    known.note("notes", 1)
    known.note("notes", 2)

    assert loaded(files) == {"orders": 6, "notes": 2}


def test_a_note_is_not_synced() -> None:
    files = FaultyFiles()
    known = synced(files, orders=5)
    before = files.history.count(f"sync {PATH}")
    known.note("orders", 6)

    assert files.history.count(f"sync {PATH}") == before


def test_a_note_before_the_start_is_left_out() -> None:
    files = FaultyFiles()
    SyncedOffsets(files, PATH).note("orders", 6)

    assert loaded(files) == {}


def test_a_note_that_cannot_be_written_leaves_the_old_one() -> None:
    files = FaultyFiles()
    known = synced(files, orders=5)
    files.fail("write", PATH)
    known.note("notes", 7)

    assert loaded(files)["orders"] == 5


def test_an_entry_with_a_wrong_checksum_counts_as_unknown() -> None:
    files = FaultyFiles()
    synced(files, orders=5, notes=9)
    damage(files, 7, b"\x06")

    assert loaded(files) == {"notes": 9}


def test_an_offset_is_not_believed_under_another_name() -> None:
    files = FaultyFiles()
    synced(files, orders=5)
    damage(files, 14, b"u")

    assert loaded(files) == {}


def test_a_torn_end_counts_as_unknown() -> None:
    files = FaultyFiles()
    synced(files, orders=5, notes=9)
    files.open(PATH).truncate(25)

    assert loaded(files) == {"orders": 5}


def test_an_entry_is_offset_checksum_and_name() -> None:
    files = FaultyFiles()
    synced(files, orders=5)
    content = files.open(PATH).read(100, 0)

    assert struct.unpack_from(">q", content) == (5,)
    assert content[12:] == b"\x00\x06orders"
