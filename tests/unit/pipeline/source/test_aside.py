"""What was put aside is read whole, or is as good as not there."""

import pytest

from runnel.pipeline.source import aside
from runnel.pipeline.source.offsets import Range

READ = Range("clicks", 0, 10, 30, "")


def test_what_a_task_wrote_is_read(tmp_path):
    aside.write(tmp_path, 0, READ, 20, [], [(12, 14)])
    found = aside.read_aside(tmp_path, 0, READ)
    assert (found.in_time, found.late, found.rejected, found.gone) == (20, 0, 0, ((12, 14),))
    assert aside.read_aside(tmp_path, 1, READ) is None


def test_a_topic_may_have_the_longest_name_that_kafka_allows(tmp_path):
    reads = [Range("t" * 248 + end, 99_999, 2**62, 2**62 + 1, "") for end in "ab"]
    for number, read in enumerate(reads):
        aside.write(tmp_path, 0, read, number, [])
    assert [aside.read_aside(tmp_path, 0, read).in_time for read in reads] == [0, 1]


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_what_a_power_cut_has_left_by_half_is_as_good_as_not_there(tmp_path, kept):
    """The range is read once more then."""
    aside.write(tmp_path, 0, READ, 20, [])
    path = aside.path_of(tmp_path, 0, READ)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    assert aside.read_aside(tmp_path, 0, READ) is None


OTHER = Range("clicks", 1, 0, 5, "")


def test_counts_of_ranges_that_were_read_at_once(tmp_path):
    aside.write_counts(tmp_path, 0, {READ: 20, OTHER: 5})
    found = [aside.read_aside(tmp_path, 0, read) for read in (READ, OTHER)]
    assert [(each.in_time, each.late, each.rejected, each.gone) for each in found] == [(20, 0, 0, ()), (5, 0, 0, ())]
    assert aside.read_aside(tmp_path, 1, READ) is None
    assert aside.read_aside(tmp_path, 0, Range("clicks", 0, 10, 31, "")) is None


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_counts_that_a_power_cut_has_left_by_half_are_as_good_as_not_there(tmp_path, kept):
    aside.write_counts(tmp_path, 0, {READ: 20, OTHER: 5})
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    assert aside.read_aside(tmp_path, 0, READ) is None
