from collections.abc import Iterator

import pytest

from tests.unit.broker.transactions.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A node with a topic of two partitions."""
    stage = Stage()
    stage.create("orders", 2)
    yield stage
    stage.close()
