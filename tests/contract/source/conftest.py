"""A source without Spark: what its planner plans and its tasks read, on our broker and on Apache Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.client import Admin
from tests.contract.source.bench import Bench


@pytest.fixture
def make_topic(admin: Admin, name: str) -> Callable[..., str]:
    """Makes topics with so many partitions, which keep records however old they are."""
    numbers = itertools.count()

    def make(partitions: int, **configs: str) -> str:
        made = f"{name}-source-{next(numbers)}"
        chosen = {each.replace("_", "."): value for each, value in configs.items()}
        admin.create(made, partitions=partitions, configs={"retention.ms": "-1", **chosen})
        return made

    return make


@pytest.fixture
def bench(bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(topic: str, **declared: Any) -> Bench:
        made.append(Bench(bootstrap, tmp_path / f"source-{len(made)}", topic, **declared))
        return made[-1]

    yield make
    for each in made:
        each.cluster.close()
