import logging
import random
import struct

import pytest

from runnel.errors import DamagedLog
from runnel.log.damage import Damage
from runnel.log.index import TimeIndex
from runnel.log.open_files import OpenFiles
from runnel.log.place import Place
from runnel.log.segment import Segment
from runnel.log.walk import Broken, whole_batches
from runnel.records import BatchHeader, Record, build_batch, parse_header, records_of
from runnel.testing import FaultyFiles

FOLDER = "/orders-0"
BASE = 100
INTERVAL = 500


def new_segment(*times: int, interval: int = INTERVAL) -> Segment:
    """A segment of one batch of one record for each time, from offset 100 on, with saved indexes."""
    files = OpenFiles(FaultyFiles(), 8)
    files.files.make_directory(FOLDER)
    segment = Segment(files, FOLDER, BASE, interval)
    segment.create()
    for number, time in enumerate(times):
        write(segment, build_batch([Record(b"." * 100, None, time)], base_offset=BASE + number))
    segment.seal()
    return segment


def write(segment: Segment, batch: bytes) -> None:
    segment.file().write([batch], segment.size)
    segment.note(parse_header(batch), segment.size)


def again(segment: Segment, limit: int | None = None) -> Segment:
    """The same files, opened anew."""
    other = Segment(segment._files, FOLDER, BASE, INTERVAL)
    other.load(limit)
    return other


def size_of_batch(segment: Segment) -> int:
    return parse_header(segment.file().read(61, 0)).size


def found(segment: Segment, offset: int) -> int:
    slice = segment.read(segment.locate(offset), offset, 1)
    return records_of(slice.data)[0].offset


def offset_at(segment: Segment, time: int) -> int | None:
    record = segment.find_time(time, BASE)
    return record.offset if record else None


def entries(segment: Segment, suffix: str, shape: str) -> list[tuple[int, ...]]:
    content = segment._files.files.open(segment.stem + suffix).read(10**6, 0)
    return list(struct.iter_unpack(shape, content))


def rewrite(segment: Segment, suffix: str, shape: str, changed: list[tuple[int, ...]]) -> None:
    file = segment._files.files.open(segment.stem + suffix)
    file.truncate(0)
    file.write([b"".join(struct.pack(shape, *entry) for entry in changed)], 0)


# --- files


def test_files_are_named_by_the_base_offset() -> None:
    segment = new_segment(1, 2)

    assert segment.path == "/orders-0/00000000000000000100.log"
    assert sorted(segment._files.files.list(FOLDER)) == [
        "00000000000000000100.index",
        "00000000000000000100.log",
        "00000000000000000100.timeindex",
    ]


def test_a_new_segment_replaces_what_stood_under_its_name() -> None:
    segment = new_segment(1, 2)
    segment.quarantine(Damage(Place(0, BASE), None, "old"))
    fresh = Segment(segment._files, FOLDER, BASE, INTERVAL)
    fresh.create()

    assert segment._files.files.list(FOLDER) == ["00000000000000000100.log"]
    assert fresh.file().size() == 0


def test_a_removed_segment_leaves_nothing() -> None:
    segment = new_segment(1, 2)
    segment.quarantine(Damage(Place(0, BASE), None, "old"))
    segment.remove()

    assert segment._files.files.list(FOLDER) == []


def test_what_was_not_synced_can_be_cut_back() -> None:
    segment = new_segment(*range(20))
    size, count = segment.size, len(segment.offsets.entries)
    write(segment, build_batch([Record(b"." * 1_000, None, 99)], base_offset=BASE + 20))
    write(segment, build_batch([Record(b"." * 1_000, None, 99)], base_offset=BASE + 21))
    assert len(segment.offsets.entries) > count
    segment.size, segment.next_offset = size, BASE + 20
    segment.cut_back()

    assert segment.file().size() == size
    assert len(segment.offsets.entries) == count
    last = segment.times.last()
    assert last is not None
    assert last.timestamp == 19


# --- the sparse indexes


def test_an_entry_is_written_after_each_interval() -> None:
    segment = new_segment(*range(20))
    size = size_of_batch(segment)
    step = INTERVAL // size + 1

    assert entries(segment, ".index", ">ii") == [(number, number * size) for number in range(step, 20, step)]


def test_the_time_index_ends_with_the_largest_time() -> None:
    segment = new_segment(50, 10, 99, 20, 30)

    assert entries(segment, ".timeindex", ">qi")[-1] == (99, 2)


def test_every_offset_is_found_with_and_without_an_index() -> None:
    for interval in (0, INTERVAL, 10**9):
        segment = new_segment(*range(30), interval=interval)
        assert [found(segment, offset) for offset in range(BASE, BASE + 30)] == list(range(BASE, BASE + 30))


def test_a_lookup_leads_close_to_the_offset() -> None:
    segment = new_segment(*range(100))
    start = segment.locate(BASE + 90)

    assert 0 <= 90 - (start.offset - BASE) <= INTERVAL // size_of_batch(segment) + 1


def test_an_index_entry_that_leads_astray_is_noticed_and_not_used(caplog: pytest.LogCaptureFixture) -> None:
    segment = new_segment(*range(30))
    known = entries(segment, ".index", ">ii")
    rewrite(segment, ".index", ">ii", [(relative, position + 7) for relative, position in known[:-1]] + known[-1:])
    segment = again(segment, BASE + 30)

    assert [found(segment, offset) for offset in range(BASE, BASE + 30)] == list(range(BASE, BASE + 30))
    assert "the index is wrong at offset" in caplog.text


def test_indexes_that_do_not_fit_are_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    segment = new_segment(*range(30))
    known = entries(segment, ".index", ">ii")
    rewrite(segment, ".index", ">ii", [(1, 1)] * 5)
    segment = again(segment, BASE + 30)

    assert "the indexes are missing or do not fit the segment, and are made anew" in caplog.text
    assert entries(segment, ".index", ">ii") == known


@pytest.mark.parametrize("missing", range(6))
def test_a_missing_entry_of_the_time_index_does_not_hide_a_record(missing: int) -> None:
    segment = new_segment(*range(0, 300, 10))
    known = entries(segment, ".timeindex", ">qi")
    rewrite(segment, ".timeindex", ">qi", known[:missing] + known[missing + 1 :])
    segment = again(segment, BASE + 30)

    assert [offset_at(segment, time) for time in range(0, 300, 10)] == list(range(BASE, BASE + 30))


@pytest.mark.parametrize("kept", range(6))
def test_a_time_index_that_lost_its_end_does_not_hide_a_record(kept: int) -> None:
    segment = new_segment(*range(0, 300, 10))
    rewrite(segment, ".timeindex", ">qi", entries(segment, ".timeindex", ">qi")[:kept])
    segment = again(segment, BASE + 30)

    assert [offset_at(segment, time) for time in range(0, 300, 10)] == list(range(BASE, BASE + 30))
    assert segment.largest.timestamp == 290


@pytest.mark.parametrize("wrong", [(10**15, 3), (5, 3), (-7, 0), (40, 2**31 - 1), (40, -5)])
@pytest.mark.parametrize("number", range(6))
def test_a_wrong_entry_of_the_time_index_does_not_hide_a_record(number: int, wrong: tuple[int, int]) -> None:
    segment = new_segment(*range(0, 300, 10))
    known = entries(segment, ".timeindex", ">qi")
    rewrite(segment, ".timeindex", ">qi", [*known[:number], wrong, *known[number + 1 :]])
    segment = again(segment, BASE + 30)

    assert [offset_at(segment, time) for time in range(0, 300, 10)] == list(range(BASE, BASE + 30))


@pytest.mark.parametrize("asked", [40, 290, 300])
def test_what_is_written_while_a_time_is_looked_for_does_not_make_the_time_index_wrong(
    asked: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    segment = new_segment(*range(0, 290, 10))
    for time in (290, 300):  # of the last one no index tells
        write(segment, build_batch([Record(b".", None, time)], base_offset=segment.next_offset))
    around, later = TimeIndex.around, iter(range(310, 350, 10))

    def written_meanwhile(index: TimeIndex, timestamp: int) -> object:
        found = around(index, timestamp)
        for time in later:
            write(segment, build_batch([Record(b"." * 600, None, time)], base_offset=segment.next_offset))
        return found

    monkeypatch.setattr(TimeIndex, "around", written_meanwhile)
    assert offset_at(segment, asked) == BASE + asked // 10
    assert not caplog.records


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_recovery_makes_wrong_indexes_anew(suffix: str) -> None:
    segment = new_segment(*range(0, 300, 10))
    segment._files.files.open(segment.stem + suffix).write([b"\x07" * 24], 0)
    other = Segment(segment._files, FOLDER, BASE, INTERVAL)
    place = other.begin_recovery(BASE + 30)
    for position, batch in batches_from(other, place):
        other.note(batch, position)

    assert other.largest.timestamp == 290
    assert [offset_at(other, time) for time in range(0, 300, 10)] == list(range(BASE, BASE + 30))


def test_a_recovery_begins_with_the_last_batch_that_is_indexed_before_its_point() -> None:
    segment = new_segment(*range(100))
    other = Segment(segment._files, FOLDER, BASE, INTERVAL)
    place = other.begin_recovery(BASE + 90)

    assert BASE + 80 < place.offset < BASE + 90


def batches_from(segment: Segment, place: Place) -> list[tuple[int, BatchHeader]]:
    return list(whole_batches(segment.file(), place.position, segment.file().size(), place.offset))


# --- loading


def test_a_loaded_segment_knows_its_end_and_its_largest_time() -> None:
    segment = new_segment(5, 90, 7, 8, 9)
    other = again(segment, BASE + 5)

    assert (other.size, other.next_offset, other.largest.timestamp) == (segment.size, BASE + 5, 90)
    assert other.damage is None


def test_what_stands_behind_the_limit_is_not_looked_at() -> None:
    segment = new_segment(1, 2, 3)
    segment.file().write([b"left over by a failed write"], segment.size)

    other = again(segment, BASE + 3)

    assert (other.size, other.damage) == (segment.size, None)


def test_a_segment_that_ends_before_the_next_one_begins_is_damaged() -> None:
    segment = again(new_segment(1, 2, 3), BASE + 9)

    assert segment.damage is not None
    assert (segment.damage.start.offset, segment.damage.resume) == (BASE + 3, None)
    assert segment.damage.reason == f"it ends before offset {BASE + 9}"


@pytest.mark.parametrize(
    "forged",
    [
        Damage(Place(10**9, BASE + 3), None, "behind the end"),
        Damage(Place(30, BASE), Place(60, BASE + 1), "in the middle of batches"),
        Damage(Place(0, BASE + 99), Place(10, BASE), "at other offsets"),
        Damage(Place(500, 7), Place(100, 3), "backwards"),
    ],
    ids=lambda damage: damage.reason,
)
def test_a_damage_file_that_speaks_of_other_places_does_not_make_records_up(forged: Damage) -> None:
    segment = new_segment(*range(20))
    segment.quarantine(forged)
    segment = again(segment, BASE + 20)
    assert segment.damage is not None
    resume = segment.damage.resume

    readable = [*range(BASE, segment.damage.start.offset), *range(resume.offset if resume else BASE + 20, BASE + 20)]

    assert [found(segment, offset) for offset in readable] == readable


# --- reading around damage


def damaged() -> Segment:
    """Thirty batches, of which those with offsets 110 to 114 are overwritten."""
    segment = new_segment(*range(0, 300, 10))
    size = size_of_batch(segment)
    segment.file().write([b"?" * (5 * size)], 10 * size)
    segment = again(segment, BASE + 30)
    assert len(list(segment.headers_from(BASE))) == 25
    return segment


def test_damage_is_found_by_stepping_over_it() -> None:
    segment = new_segment(*range(30))
    size = size_of_batch(segment)
    segment.file().write([b"?" * (5 * size)], 10 * size)
    with pytest.raises(Broken) as broken:
        segment.read(Place(0, BASE), BASE + 20, 1)
    damage = segment.damage_found(broken.value)

    assert (damage.start, damage.resume) == (Place(10 * size, BASE + 10), Place(15 * size, BASE + 15))


def test_headers_are_given_out_around_damage() -> None:
    segment = damaged()
    given = [header.base_offset for header in segment.headers_from(BASE)]

    assert given == [*range(BASE, BASE + 10), *range(BASE + 15, BASE + 30)]


def test_headers_step_over_damage_that_nobody_knew_and_quarantine_it(caplog: pytest.LogCaptureFixture) -> None:
    segment = new_segment(*range(30))
    size = size_of_batch(segment)
    segment.file().write([b"?"], 10 * size + 16)
    with caplog.at_level(logging.ERROR):
        given = [header.base_offset for header in segment.headers_from(BASE)]

    assert given == [offset for offset in range(BASE, BASE + 30) if offset != BASE + 10]
    assert segment.damage is not None
    assert "is damaged at position" in caplog.text


def test_times_before_damage_are_found_and_those_that_would_pass_it_are_not() -> None:
    segment = damaged()

    assert [offset_at(segment, time) for time in (0, 50, 90)] == [BASE, BASE + 5, BASE + 9]
    with pytest.raises(DamagedLog):
        segment.find_time(110, BASE)


def test_times_behind_damage_are_found_from_there_on() -> None:
    record = damaged().find_time(0, BASE + 15)

    assert record is not None
    assert record.offset == BASE + 15


def test_a_file_that_ends_too_early_is_broken() -> None:
    segment = new_segment(*range(30))
    segment.file().truncate(30)

    with pytest.raises(Broken):
        segment.read(Place(0, BASE), BASE, 100)


# --- several batches at once


@pytest.mark.parametrize("interval", [0, 1, 300, 301, 2**20])
def test_what_is_foreseen_is_what_noting_each_batch_does(seed: int, interval: int) -> None:
    chance = random.Random(f"{seed}/{interval}")
    noted, grown = new_segment(interval=interval), new_segment(interval=interval)
    offset = BASE
    for _ in range(20):
        steps: list[tuple[int, int, int]] = []
        for _ in range(chance.randrange(6)):
            # Sizes that add up to the interval, and times that rise, fall and stay.
            delta, size, time = chance.randrange(3), chance.choice([100, 150, 301]), chance.randrange(-1, 9)
            header = parse_header(build_batch([Record(b"")]))
            noted.note(
                header._replace(base_offset=offset, length=size - 12, last_offset_delta=delta, max_timestamp=time),
                noted.size,
            )
            steps.append((offset + delta, size, time))
            offset += delta + 1
        growth = grown.foresee(steps)
        grown.grow(growth)
        assert facts_of(grown) == facts_of(noted)


def test_what_is_foreseen_is_not_seen_yet() -> None:
    segment = new_segment(1, 2, 3, interval=0)
    before = facts_of(segment)
    segment.foresee([(BASE + 3, 100, 9), (BASE + 4, 100, 10)])

    assert facts_of(segment) == before


def facts_of(segment: Segment) -> tuple[object, ...]:
    indexes = [
        [index.entries[number] for number in range(len(index.entries))] for index in (segment.offsets, segment.times)
    ]
    return segment.size, segment.next_offset, segment.largest, segment._since_index, indexes
