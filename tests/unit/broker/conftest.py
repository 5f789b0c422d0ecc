"""A connection to the broker of the run, and a topic of the test's own."""

from collections.abc import Iterator

import pytest

from runnel import Broker
from tests.broker_wire import Wire


@pytest.fixture
def wire(runnel_broker: Broker) -> Iterator[Wire]:
    with Wire(runnel_broker.bootstrap) as wire:
        yield wire


@pytest.fixture
def other(runnel_broker: Broker) -> Iterator[Wire]:
    """Another client."""
    with Wire(runnel_broker.bootstrap, "other") as wire:
        yield wire


@pytest.fixture
def topic(runnel_topic: str) -> str:
    return runnel_topic
