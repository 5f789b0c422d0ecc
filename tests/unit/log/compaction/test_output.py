"""No offset is missing in a cleaned segment, though records are."""

from random import Random

import pytest

from runnel.files import read_file
from runnel.log.compaction.output import Output
from runnel.log.open_files import OpenFiles
from runnel.log.segment import Segment
from runnel.log.txn_index import Entry
from runnel.records import Producer, Record, batches_of, build_batch, build_marker, parse_header, place, records_of
from runnel.records.batch import NO_PRODUCER, TRANSACTIONAL
from runnel.settings import INT32_MAX
from runnel.testing import FaultyFiles

PRODUCER = Producer(7, 0, 0)


class Written:
    """An output on a disk in memory, and what is found in its file when it is finished."""

    def __init__(self, base_offset: int = 0, index_interval: int = 0) -> None:
        self.files = FaultyFiles()
        self.files.make_directory("/p")
        self.open_files = OpenFiles(self.files, 8)
        self.base_offset = base_offset
        self.output = Output(self.open_files, "/p", base_offset, index_interval)

    def add(
        self,
        offset: int,
        count: int = 1,
        *,
        epoch: int = 0,
        producer: Producer = NO_PRODUCER,
        attributes: int = 0,
        holds_sequence: bool = False,
    ) -> None:
        batch = build_batch(
            [Record(b"v", b"k", offset + 1)] * count,
            base_offset=offset,
            leader_epoch=epoch,
            producer=producer,
            attributes=attributes,
        )
        self.output.add(parse_header(batch), batch, holds_sequence=holds_sequence)

    def add_marker(self, offset: int) -> None:
        batch = place(build_marker(7, 0, committed=True, coordinator_epoch=0, timestamp=1), offset, 0)
        self.output.add(parse_header(batch), batch, holds_sequence=False)

    def leave_out(self, offset: int, count: int = 1, *, epoch: int = 0) -> None:
        batch = build_batch([Record(b"v")] * count, base_offset=offset, leader_epoch=epoch)
        self.output.leave_out(parse_header(batch))

    def finish(self, next_offset: int) -> list[tuple[int, int, int]]:
        self.output.finish(next_offset, [])
        content = read_file(self.files, f"/p/{self.base_offset:020d}.cleaned.log")
        return [(h.base_offset, h.last_offset, h.count) for _, h in batches_of(content)]


def test_what_is_missing_belongs_to_the_batch_before_it() -> None:
    written = Written()
    written.add(0)
    written.leave_out(1, 4)
    written.add(5)
    written.leave_out(6, 4)

    assert written.finish(10) == [(0, 4, 1), (5, 9, 1)]


def test_what_is_missing_at_the_start_belongs_to_an_empty_batch() -> None:
    written = Written(base_offset=100)
    written.leave_out(100, 3)
    written.add(103)

    assert written.finish(104) == [(100, 102, 0), (103, 103, 1)]


def test_if_all_is_gone_one_empty_batch_is_left() -> None:
    written = Written()
    written.leave_out(0, 4)
    written.leave_out(4, 6)

    assert written.finish(10) == [(0, 9, 0)]


def test_a_batch_that_tells_a_last_sequence_is_not_stretched() -> None:
    written = Written()
    written.add(0, producer=PRODUCER, holds_sequence=True)
    written.leave_out(1, 4)

    assert written.finish(5) == [(0, 0, 1), (1, 4, 0)]


def test_a_batch_of_a_transaction_is_not_stretched() -> None:
    written = Written()
    written.add(0, producer=PRODUCER, attributes=TRANSACTIONAL)
    written.leave_out(1)

    assert written.finish(2) == [(0, 0, 1), (1, 1, 0)]


def test_a_marker_is_not_stretched() -> None:
    written = Written()
    written.add_marker(0)
    written.leave_out(1)

    assert written.finish(2) == [(0, 0, 1), (1, 1, 0)]


def test_a_batch_is_not_stretched_further_than_its_format_can_tell() -> None:
    longest, longer = Written(index_interval=10**6), Written(index_interval=10**6)
    for written in (longest, longer):
        written.add(0)
        written.leave_out(1)

    assert longest.finish(INT32_MAX + 1) == [(0, INT32_MAX, 1)]
    assert longer.finish(INT32_MAX + 2) == [(0, 0, 1), (1, INT32_MAX + 1, 0)]


def test_offsets_keep_their_leader_epoch() -> None:
    written = Written()
    written.add(0, epoch=1)
    written.leave_out(1, 2, epoch=1)
    written.leave_out(3, 2, epoch=2)
    written.leave_out(5, 2, epoch=3)
    written.add(7, epoch=3)
    written.output.finish(8, [])

    content = read_file(written.files, f"/p/{0:020d}.cleaned.log")
    found = [(h.base_offset, h.last_offset, h.leader_epoch) for _, h in batches_of(content)]
    assert found == [(0, 2, 1), (3, 4, 2), (5, 6, 3), (7, 7, 3)]


def test_the_segment_can_be_read_like_any_other() -> None:
    written = Written()
    for offset in range(0, 300, 3):
        written.add(offset)
        written.leave_out(offset + 1, 2)
    written.finish(300)

    segment = Segment(written.open_files, "/p", 0, 0, ".cleaned")
    segment.load(300)
    assert (segment.damage, segment.next_offset, len(segment.offsets.entries)) == (None, 300, 99)
    found = segment.read(segment.locate(151), 151, 1)
    assert [record.offset for record in records_of(bytes(found.data))] == [150]
    timed = segment.find_time(200, 0)
    assert timed is not None
    assert timed.offset == 201


def test_aborted_transactions_are_written_beside_it() -> None:
    written = Written()
    written.add_marker(0)
    written.output.finish(1, [Entry(7, 0, 0, 1)])

    assert read_file(written.files, f"/p/{0:020d}.cleaned.txnindex") == Entry(7, 0, 0, 1).encode()


@pytest.mark.parametrize("seed", range(5))
def test_all_is_synced_when_it_is_finished(seed: int) -> None:
    written = Written()
    written.files.sync_directory("/")
    for offset in range(100):
        written.add(offset)
    written.finish(100)
    before = {name: read_file(written.files, f"/p/{name}") for name in written.files.list("/p")}

    left = written.files.crash(Random(seed))

    assert {name: read_file(left, f"/p/{name}") for name in left.list("/p")} == before
