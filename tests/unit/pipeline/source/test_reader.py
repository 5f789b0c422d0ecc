"""What falls to each task."""

from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.reader import FEW, shared_out


def ranges(*counts):
    return [Range("clicks", number, 10, 10 + count, "") for number, count in enumerate(counts)]


def test_few_records_are_one_task_whatever_their_partitions():
    assert shared_out(ranges(3, 5, FEW - 8)) == [ranges(3, 5, FEW - 8)]


def test_many_records_are_a_task_for_each_partition():
    assert shared_out(ranges(3, FEW)) == [(ranges(3, FEW)[0],), (ranges(3, FEW)[1],)]


def test_nothing_is_no_task():
    assert shared_out([]) == []
