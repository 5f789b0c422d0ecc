"""The steps of a row add up to the whole of it, and every row is counted with the batch that it was in."""

import pytest

from benchmarks import daily_steps as steps
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_load import Rows


def batch(start, ends, **more):
    """One that plans for 100 ms, runs its tasks for 200, and keeps for 50."""
    return {
        "rows": 1,
        "start": start,
        "began": start + 0.1,
        "ended": start + 0.4,
        "spark": {"latestOffset": 20, "walCommit": 30},
        "stages": [(start + 0.12, start + 0.22), (start + 0.22, start + 0.32)],
        "steps": {"body": 0.25, "disk": 0.01, "account": 0.02, "keep": 0.05},
        "ends": {str(partition): ends for partition in range(PARTITIONS)},
        **more,
    }


def one_of_each(sent, seen):
    return Rows([sent] * PARTITIONS, [seen] * PARTITIONS, warm=0)


def test_the_steps_of_a_row_add_up_to_its_time():
    for row in steps.steps_of(one_of_each(9.0, 10.39), [batch(10.0, ends=1)]):
        assert sum(row.values()) == pytest.approx(1390)
        assert set(row) == set(steps.STEPS)
        assert row[steps.WAITS] == pytest.approx(1000)
        assert row[steps.LOOKS] == pytest.approx(20)
        assert row[steps.WRITES] == pytest.approx(30)
        assert row[steps.PLANS] == pytest.approx(50)
        assert row[steps.READS] == pytest.approx(100)
        assert row[steps.STATE] == pytest.approx(100)
        assert row[steps.ACCOUNT] == pytest.approx(30)
        assert row[steps.KEEP] == pytest.approx(40)
        assert row[steps.SPARK] == pytest.approx(20)


def test_a_row_that_came_while_the_source_was_looking_has_waited_for_a_part_of_the_look():
    row = steps.steps_of(one_of_each(10.015, 10.39), [batch(10.0, ends=1)])[0]
    assert row[steps.WAITS] == 0
    assert row[steps.LOOKS] == pytest.approx(5)
    assert sum(row.values()) == pytest.approx(375)


def test_a_row_belongs_to_the_batch_whose_offsets_have_it():
    rows = Rows([9.0] * 2 * PARTITIONS, [10.39] * PARTITIONS + [20.39] * PARTITIONS, warm=0)
    found = steps.steps_of(rows, [batch(10.0, ends=1), batch(20.0, ends=2)])
    assert sorted(round(row[steps.WAITS]) for row in found) == [1_000] * PARTITIONS + [11_000] * PARTITIONS


def test_batches_without_rows_and_rows_that_are_not_counted_are_left_out():
    rows = Rows([9.0] * 2 * PARTITIONS, [10.39] * 2 * PARTITIONS, warm=PARTITIONS)
    found = steps.steps_of(rows, [batch(8.0, ends=1, rows=0), batch(10.0, ends=2)])
    assert len(found) == PARTITIONS
    assert all(row[steps.WAITS] == pytest.approx(1000) for row in found)


def test_rows_of_batches_that_nobody_told_of_cannot_be_cut():
    with pytest.raises(RuntimeError, match="only 0 are in a batch"):
        steps.steps_of(one_of_each(9.0, 10.0), [{**batch(10.0, ends=1), "start": None}])


def test_the_steps_around_a_percentile_are_those_of_the_rows_there():
    rows = [dict.fromkeys(steps.STEPS, 0.0) | {steps.WAITS: float(number)} for number in range(1_000)]
    assert steps.around(rows, 0.5)[steps.WAITS] == pytest.approx(499.5, abs=1)
    assert steps.around(rows, 0.99)[steps.WAITS] == pytest.approx(989.5, abs=1)
