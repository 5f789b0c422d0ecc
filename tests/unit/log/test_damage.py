import pytest

from runnel.log.damage import Damage, read_damage, write_damage
from runnel.log.place import Place
from runnel.testing import FaultyFiles

STEM = "/00000000000000000040"
DAMAGE = Damage(Place(100, 42), Place(300, 45), "no batch stands there")


def test_damage_that_was_written_is_read() -> None:
    files = FaultyFiles()
    write_damage(files, STEM, DAMAGE)

    assert read_damage(files, STEM) == DAMAGE


def test_damage_up_to_the_end_of_the_segment_is_read() -> None:
    files = FaultyFiles()
    lost_end = Damage(Place(100, 42), None, "it ends too early")
    write_damage(files, STEM, lost_end)

    assert read_damage(files, STEM) == lost_end


def test_a_segment_without_the_file_is_whole() -> None:
    assert read_damage(FaultyFiles(), STEM) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xff",
        b"[]",
        b"7",
        b'{"start": [1, 2]}',
        b'{"start": [1], "resume": null, "reason": ""}',
        b'{"start": [1, 2, 3], "resume": null, "reason": ""}',
        b'{"start": [-1, 42], "resume": null, "reason": ""}',
        b'{"start": [1e999, 42], "resume": null, "reason": ""}',
        b'{"start": [1, 99999999999999999999], "resume": null, "reason": ""}',
        b'{"start": ["1", "2"], "resume": null, "reason": ""}',
        b'{"start": [1, 2], "resume": 0, "reason": ""}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_cannot_be_read_condemns_the_whole_segment(content: bytes) -> None:
    files = FaultyFiles()
    files.open(STEM + ".damage", create=True).write([content], 0)

    damage = read_damage(files, STEM)

    assert damage is not None
    assert (damage.start, damage.resume) == (Place(0, 40), None)
    assert damage.reason.startswith("its .damage file cannot be read")


def test_two_damages_become_one_that_covers_both() -> None:
    later = Damage(Place(700, 50), Place(900, 52), "checksum")

    both = later.joined_with(DAMAGE)

    assert both == Damage(Place(100, 42), Place(900, 52), "no batch stands there; checksum")


def test_a_damage_inside_of_another_does_not_shorten_it() -> None:
    inside = Damage(Place(150, 43), Place(200, 44), "checksum")

    assert DAMAGE.joined_with(inside).resume == DAMAGE.resume


@pytest.mark.parametrize("position", [50, 400])
def test_a_lost_end_stays_lost_when_another_damage_is_found(position: int) -> None:
    lost_end = Damage(Place(position, 41), None, "it ends too early")

    assert DAMAGE.joined_with(lost_end).resume is None


def test_the_same_damage_found_twice_is_told_once() -> None:
    assert DAMAGE.joined_with(DAMAGE) == DAMAGE


def test_the_error_tells_where_it_is_and_where_to_go_on() -> None:
    error = DAMAGE.error("/data/orders-0/00000000000000000040.log")

    assert str(error) == (
        "/data/orders-0/00000000000000000040.log is damaged at position 100: no batch stands there; "
        "records from offset 42 before offset 45 cannot be read "
        "(restore the file from a backup, or read on from offset 45)"
    )


def test_the_error_of_a_lost_end_leads_to_the_next_segment() -> None:
    error = Damage(Place(100, 42), None, "it ends too early").error("x.log", next_segment=60)

    assert (error.first_offset, error.next_offset) == (42, 60)


def test_the_error_of_a_lost_end_without_a_next_segment_has_no_offset_to_go_on() -> None:
    error = Damage(Place(100, 42), None, "it ends too early").error("x.log")

    assert error.next_offset is None
    assert error.hint == "restore the file from a backup, or read another segment"
