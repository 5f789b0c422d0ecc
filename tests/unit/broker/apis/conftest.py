from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.apis.group_stage import GroupStage
from tests.unit.broker.transactions.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[GroupStage]:
    stage = GroupStage(tmp_path / "data")
    yield stage
    stage.close()


@pytest.fixture
def transactional() -> Iterator[Stage]:
    """A node for transactions, with a topic of two partitions."""
    stage = Stage()
    stage.create("orders", 2)
    yield stage
    stage.close()
