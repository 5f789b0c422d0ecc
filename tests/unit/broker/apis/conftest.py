from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.apis.group_stage import GroupStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[GroupStage]:
    stage = GroupStage(tmp_path / "data")
    yield stage
    stage.close()
