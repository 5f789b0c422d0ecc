from runnel.log.open_files import OpenFiles
from runnel.log.segment import Segment
from runnel.log.segments import Segments
from runnel.records import Record, build_batch
from runnel.testing import FaultyFiles

FOLDER = "/orders-0"


def segments(*bases: int) -> Segments:
    """Segments from these offsets, each filled up to the next one."""
    files = OpenFiles(FaultyFiles(), 8)
    files.files.make_directory(FOLDER)
    made = [Segment(files, FOLDER, base, 4_096) for base in bases]
    for segment, following in zip(made, bases[1:], strict=False):
        segment.create()
        count = following - segment.base_offset
        segment.file().write([build_batch([Record(b"tea")] * count, base_offset=segment.base_offset)], 0)
        segment.loaded = False
    made[-1].create()
    return Segments(made)


def test_the_last_one_is_active() -> None:
    assert segments(0, 10, 20).active.base_offset == 20


def test_an_offset_is_held_by_the_last_segment_that_begins_at_or_before_it() -> None:
    chain = segments(0, 10, 20)

    assert [chain.holding(offset).base_offset for offset in (0, 9, 10, 19, 20, 99)] == [0, 0, 10, 10, 20, 20]


def test_a_segment_is_loaded_when_it_is_first_asked_for() -> None:
    chain = segments(0, 10, 20)
    loaded = [segment.loaded for segment in chain._all]
    held = chain.holding(5)

    assert loaded == [False, False, True]
    assert held.next_offset == 10


def test_segments_from_an_offset_on_begin_with_the_one_that_holds_it() -> None:
    assert [segment.base_offset for segment in segments(0, 10, 20).from_offset(15)] == [10, 20]


def test_the_base_after_a_segment_is_that_of_the_next_one() -> None:
    chain = segments(0, 10, 20)

    assert [chain.base_after(segment) for segment in chain] == [10, 20, None]


def test_a_new_segment_becomes_active() -> None:
    chain = segments(0, 10)
    chain.add(Segment(OpenFiles(FaultyFiles(), 8), FOLDER, 20, 4_096))

    assert chain.base_offsets == [0, 10, 20]


def test_a_new_segment_replaces_an_empty_one_of_its_base() -> None:
    chain = segments(0, 10)
    again = Segment(OpenFiles(FaultyFiles(), 8), FOLDER, 10, 4_096)
    chain.add(again)

    assert len(chain) == 2
    assert chain.active is again


def test_segments_that_end_before_an_offset_are_dropped() -> None:
    chain = segments(0, 10, 20)

    assert [segment.base_offset for segment in chain.drop_before(20)] == [0, 10]
    assert chain.base_offsets == [20]


def test_a_segment_that_holds_the_offset_is_kept() -> None:
    chain = segments(0, 10, 20)

    assert [segment.base_offset for segment in chain.drop_before(19)] == [0]


def test_the_active_segment_is_never_dropped() -> None:
    chain = segments(0, 10, 20)
    chain.drop_before(10**9)

    assert chain.base_offsets == [20]


def test_who_goes_through_the_segments_is_not_disturbed_by_a_drop() -> None:
    chain = segments(0, 10, 20)
    going = iter(chain)
    next(going)
    chain.drop_before(20)

    assert [segment.base_offset for segment in going] == [10, 20]
