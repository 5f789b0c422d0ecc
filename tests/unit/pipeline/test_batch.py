"""What a batch tells of itself."""

from unittest.mock import Mock

from runnel.pipeline.batch import Batch
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets


def batch(*ends):
    return Batch("pages", "id", Moment(3, 0, 0), {}, {end.input: end for end in ends}, Mock(), Mock())


def test_its_positions_are_those_of_all_inputs():
    clicks, users = Offsets(0, {("clicks", 0): 7, ("clicks", 1): 9}, {}), Offsets(1, {("users", 0): 3}, {})
    assert batch(clicks, users).positions == {"clicks": {"0": 7, "1": 9}, "users": {"0": 3}}


def test_who_waits_for_a_record_waits_for_both_inputs_that_read_it():
    behind, ahead = {("clicks", 0): 7}, {("clicks", 0): 10, ("clicks-more", 0): 1}
    for first, second in ((behind, ahead), (ahead, behind)):
        found = batch(Offsets(0, first, {}), Offsets(1, second, {})).positions
        assert found == {"clicks": {"0": 7}, "clicks-more": {"0": 1}}
