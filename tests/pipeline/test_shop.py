"""An app from topic through Spark to topic and view: exact, whatever dies."""

from __future__ import annotations

import pytest

from runnel import Broker
from tests.pipeline.stage import PARTITIONS, Stage

pytestmark = pytest.mark.servers


@pytest.fixture
def stage(tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", PARTITIONS, configs={"retention.ms": "-1"})
        yield Stage(broker, tmp_path / "data")


def assert_exact(stage):
    assert stage.counts() == stage.expected_counts()
    assert stage.stays() == stage.expected_stays()


def test_views_and_streams_are_right_and_a_second_run_goes_on(stage):
    stage.send(400, broken=0.02)
    first = stage.run()
    assert first.code == 0, first.log
    assert_exact(stage)
    assert len(stage.read("clicks.rejected")) == 2 * stage.broken  # by each of the two queries
    stage.send(200, seed=2)
    second = stage.run()
    assert second.code == 0, second.log
    assert_exact(stage)


@pytest.mark.parametrize(
    "point",
    [
        "source.start:before:1",
        "source.aside:after:3",
        "publish.open:after:2",
        "publish.commit:before:2",
        "publish.commit:after:2",
        "view.commit:before:2",
        "view.commit:after:2",
    ],
)
def test_a_run_that_dies_is_made_good_by_the_next(stage, point):
    stage.send(400, broken=0.02)
    died = stage.run(die_at=point)
    assert died.code != 0, died.log
    again = stage.run()
    assert again.code == 0, again.log
    assert_exact(stage)
    assert len(stage.read("clicks.rejected")) == 2 * stage.broken
