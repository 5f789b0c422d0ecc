"""Fixtures for your tests, which pytest finds when Runnel is installed.

def test_clicks_are_counted(runnel_play):
    played = runnel_play(app, row(clicks, page="tea", at="12:00:10"))
    assert played.view("clicks_per_minute") == [...]

def test_orders_are_shipped(runnel_broker, runnel_topic):
    producer = Producer({"bootstrap.servers": runnel_broker.bootstrap})
    producer.produce(runnel_topic, b"tea")

One Spark session serves the whole run, and so does the broker, in the process of the tests; each test gets a topic of
its own, or an app that has never run.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from runnel.errors import InvalidSetting, UnknownTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runnel.broker.embedded import Broker
    from runnel.testing.player import Player

MARKER = "runnel_topic(partitions=1, configs=None): the partitions and the configuration of the test's own topic"
ARGUMENTS = ("partitions", "configs")
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Of two plays, what differs: all that they hold are pages."""
    module = sys.modules.get("runnel.testing.played")  # whoever has played has loaded it
    if op != "==" or module is None or not all(isinstance(each, module.Played) for each in (left, right)):
        return None
    return ["both told the same", *module.differences(left, right)]


@pytest.fixture(scope="session")
def runnel_settings() -> Mapping[str, str | int | bool]:
    """The settings of `runnel_broker`, under Kafka's names. Override it for your own."""
    return {}


@pytest.fixture(scope="session")
def runnel_broker(runnel_settings: Mapping[str, str | int | bool]) -> Iterator[Broker]:
    """A running broker with a temporary data directory: `runnel_broker.bootstrap` is its address."""
    from runnel.broker.embedded import Broker  # noqa: PLC0415  # whoever has no such test does not pay for it

    with Broker(settings=runnel_settings) as broker:
        yield broker


@pytest.fixture
def runnel_topic(runnel_broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic for this test alone, deleted afterwards."""
    wanted = _wanted(request.node.get_closest_marker("runnel_topic"))
    legal = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name).strip("-")[:200]
    name = f"{legal}-{next(_numbers)}"
    try:
        runnel_broker.create_topic(name, **wanted)
    except InvalidSetting as error:
        raise pytest.fail.Exception(f"@pytest.mark.runnel_topic: {error}", pytrace=False) from None
    yield name
    with suppress(UnknownTopic):  # the test may have deleted it
        runnel_broker.delete_topic(name)


def _wanted(marker: pytest.Mark | None) -> dict[str, Any]:
    """What the marker says of the topic, by name or one after the other."""
    if marker is None:
        return {}
    given: dict[str, Any] = dict(zip(ARGUMENTS, marker.args, strict=False))
    if len(marker.args) > len(ARGUMENTS) or not marker.kwargs.keys() <= {*ARGUMENTS} - {*given}:
        each = [*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())]
        pytest.fail(f"@pytest.mark.runnel_topic({', '.join(each)}): a topic is asked for by {MARKER}", pytrace=False)
    return {**given, **marker.kwargs}


@pytest.fixture(scope="session")
def runnel_spark() -> Iterator[SparkSession]:
    """A Spark session for the whole run. Override it for your own."""
    from runnel.testing.spark import spark_for_tests  # noqa: PLC0415  # whoever has no such test does not pay for it

    spark = spark_for_tests()
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def runnel_play(runnel_spark: SparkSession) -> Player:
    """Plays rows into an app: `runnel_play(app, row(...), ...)` gives what its outputs held."""
    from runnel.testing.player import Player  # noqa: PLC0415

    return Player(runnel_spark)
