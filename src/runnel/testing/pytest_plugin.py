"""A broker for your tests: the fixtures `runnel_broker` and `runnel_topic`. pytest finds them when Runnel is installed.

def test_orders_are_shipped(runnel_broker, runnel_topic):
    producer = Producer({"bootstrap.servers": runnel_broker.bootstrap})
    producer.produce(runnel_topic, b"tea")

One broker serves the whole run, in the process of the tests; each test gets a topic of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from runnel.broker.embedded import Broker

MARKER = "runnel_topic(partitions=1, configs=None): the partitions and the configuration of the test's own topic"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


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
    marker = request.node.get_closest_marker("runnel_topic")
    wanted: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    legal = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name).strip("-")[:200]
    name = f"{legal}-{next(_numbers)}"
    runnel_broker.create_topic(name, **wanted)
    yield name
    runnel_broker.delete_topic(name)
