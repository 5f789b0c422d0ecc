"""An app from topic through Spark to topic and view, in a process of its own: exact, also when that is killed.

Every durable step is tried in test_crash_points, where Java lives on when the driver dies. Here both die.
"""

from __future__ import annotations

import pytest

from runnel import Broker
from tests.pipeline.stage import PARTITIONS, Stage

# A start of Spark takes its time, so these belong to the long runs. With every change an app dies with its Java in
# test_faults, in test_wait_for, and by tasks in test_outgrown.
pytestmark = pytest.mark.soak

POINTS = [
    "view.commit:after:2",
    "publish.commit:after:2",
    "publish.commit:before:2",
    "view.commit:before:2",
    "checkpoint.sync:before:1",
    "publish.open:after:2",
]
POINTS_OF_TASKS = ["publish.write in a task:after:1", "publish.commit:after:2"]


@pytest.fixture
def stage(tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", PARTITIONS, configs={"retention.ms": "-1"})
        yield Stage(broker, tmp_path / "data")


def assert_exact(stage):
    assert stage.counts() == stage.expected_counts()
    assert stage.stays() == stage.expected_stays()
    assert len(stage.read("clicks.rejected")) == 2 * stage.broken  # by each of the two queries


@pytest.mark.parametrize("by_tasks", [False, True])
def test_views_and_streams_are_right_and_a_second_run_goes_on(stage, by_tasks):
    stage.send(400, broken=0.02)
    first = stage.run(by_tasks=by_tasks)
    assert first.code == 0, first.log
    assert_exact(stage)
    stage.send(200, seed=2)
    second = stage.run(by_tasks=by_tasks)
    assert second.code == 0, second.log
    assert_exact(stage)


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_dies_is_made_good_by_the_next_and_a_third_goes_on(stage, point):
    stage.send(400, broken=0.02)
    died = stage.run(die_at=point)
    assert died.code != 0, died.log
    again = stage.run()
    assert again.code == 0, again.log
    assert_exact(stage)
    stage.send(200, seed=2)
    third = stage.run()
    assert third.code == 0, third.log
    assert_exact(stage)


@pytest.mark.parametrize("point", POINTS_OF_TASKS)
def test_a_run_that_dies_while_tasks_write_is_made_good_by_the_next(stage, point):
    stage.send(400, broken=0.02)
    stage.run(die_at=point, by_tasks=True)  # it may get over the death of a worker
    again = stage.run(by_tasks=True)
    assert again.code == 0, again.log
    assert_exact(stage)
