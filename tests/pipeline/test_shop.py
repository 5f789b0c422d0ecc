"""An app from topic through Spark to topic and view: exact, whatever dies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runnel import Broker
from tests.pipeline.stage import PARTITIONS, Stage

PIPELINE = Path(__file__).parents[2] / "src" / "runnel" / "pipeline"
# Each step, and how often it is done before the process dies at it.
POINTS = {
    "source.start": 1,
    "source.aside": 3,
    "publish.open": 2,
    "publish.begin": 2,
    "publish.write": 2,
    "publish.commit": 2,
}
BY_TASKS = {"publish.begin": 2, "publish.write in a task": 1, "publish.commit": 2}
OF_THE_STORE = {"view.commit": 2}


# A start of Spark takes its time: these are tried with every change, the others in the long runs.
ALWAYS = ("publish.commit:before:2", "publish.commit:after:2", "view.commit:after:2")
ALWAYS_BY_TASKS = ("publish.write in a task:after:1",)


def points(always, *chosen):
    every = [f"{name}:{side}:{time}" for each in chosen for name, time in each.items() for side in ("before", "after")]
    return [pytest.param(point, marks=pytest.mark.servers if point in always else pytest.mark.soak) for point in every]


@pytest.fixture
def stage(tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", PARTITIONS, configs={"retention.ms": "-1"})
        yield Stage(broker, tmp_path / "data")


def assert_exact(stage):
    assert stage.counts() == stage.expected_counts()
    assert stage.stays() == stage.expected_stays()
    assert len(stage.read("clicks.rejected")) == 2 * stage.broken  # by each of the two queries


def test_every_durable_step_of_the_pipeline_is_tried():
    sources = [path.read_text() for path in PIPELINE.rglob("*.py")]
    names = {name for source in sources for name in re.findall(r'durable\("([^"]+)"\)', source)}
    assert names == {*POINTS, *BY_TASKS}


@pytest.mark.servers
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


@pytest.mark.parametrize("point", points(ALWAYS, POINTS, OF_THE_STORE))
def test_a_run_that_dies_is_made_good_by_the_next(stage, point):
    stage.send(400, broken=0.02)
    died = stage.run(die_at=point)
    assert died.code != 0, died.log
    again = stage.run()
    assert again.code == 0, again.log
    assert_exact(stage)


@pytest.mark.parametrize("point", points(ALWAYS_BY_TASKS, BY_TASKS))
def test_a_run_that_dies_while_tasks_write_is_made_good_by_the_next(stage, point):
    stage.send(400, broken=0.02)
    died = stage.run(die_at=point, by_tasks=True)
    assert died.code != 0, died.log
    again = stage.run(by_tasks=True)
    assert again.code == 0, again.log
    assert_exact(stage)
