"""How many partitions a table has in a batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from runnel.client.errors import TopicReplaced
from runnel.client.metadata import Topic
from runnel.durable import VARIABLE
from runnel.pipeline.tables.partitions import LOOK_EVERY, Known, Lookout, Partitions

STEP = "table.partitions"
ROOT = Path(__file__).parents[4]
DRIVER = """
import sys
from pathlib import Path
from tests.unit.pipeline.tables.test_partitions import look
look(Path(sys.argv[1]), 2, 0, sys.argv[2])
"""


@dataclass
class Cluster:
    """As much of one as is asked for."""

    count: int = 1
    id: UUID | None = field(default=UUID(int=7))

    def topic(self, name: str, *, fresh: bool) -> Topic:
        assert fresh
        return Topic(name, self.id, dict.fromkeys(range(self.count)), False)


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lookout(tmp_path, cluster, clock):
    return Lookout(tmp_path / "2", "customers", cluster, clock=clock)


def counts(tmp_path, *batches):
    known = Partitions(tmp_path / "2").read()
    return [known.in_batch(batch) for batch in batches]


def test_those_that_are_there_count_from_the_first_batch_on(lookout, cluster, tmp_path):
    cluster.count = 3
    assert len(lookout.begin().places) == 3
    assert counts(tmp_path, 0, 100) == [3, 3]


def test_one_that_is_found_counts_from_the_next_batch_on(lookout, cluster, tmp_path):
    lookout.begin()
    cluster.count = 2
    lookout.look(5)
    assert counts(tmp_path, 5, 6) == [1, 2]


def test_one_that_came_while_nobody_ran_is_found_in_the_first_batch(lookout, cluster, tmp_path):
    lookout.begin()
    cluster.count = 2
    again = Lookout(tmp_path / "2", "customers", cluster, clock=Clock())
    again.begin()
    assert counts(tmp_path, 8) == [1]
    again.look(8)
    assert counts(tmp_path, 8, 9) == [1, 2]


def test_it_looks_now_and_then(lookout, cluster, clock, tmp_path):
    lookout.begin()
    lookout.look(0)
    cluster.count = 2
    lookout.look(1)
    assert counts(tmp_path, 2) == [1]
    clock.seconds += LOOK_EVERY
    lookout.look(2)
    assert counts(tmp_path, 2, 3) == [1, 2]


def test_what_is_found_in_a_batch_and_in_its_repeat_counts_once(lookout, cluster, clock, tmp_path):
    lookout.begin()
    cluster.count = 2
    lookout.look(4)
    clock.seconds += LOOK_EVERY
    lookout.look(4)
    assert Partitions(tmp_path / "2").read() == Known(str(UUID(int=7)), [(0, 1), (5, 2)])


def test_a_topic_that_was_made_anew_is_told(lookout, cluster):
    lookout.begin()
    cluster.id = UUID(int=8)
    with pytest.raises(TopicReplaced):
        lookout.look(0)
    with pytest.raises(TopicReplaced):
        lookout.begin()


def test_a_broker_without_ids_is_believed(lookout, cluster, tmp_path):
    cluster.id = None
    lookout.begin()
    lookout.look(0)
    assert counts(tmp_path, 0) == [1]


def look(directory: Path, count: int, batch: int | None, die_at: str) -> None:
    if die_at:
        os.environ[VARIABLE] = die_at
    lookout = Lookout(directory, "customers", Cluster(count), clock=Clock())
    lookout.begin()
    if batch is not None:
        lookout.look(batch)


@pytest.mark.parametrize("sides", [["before"], ["after"], ["before", "before"], ["before", "after"]])
@pytest.mark.parametrize("time", [1, 2])
def test_a_driver_that_dies_at_it_is_followed_by_one_that_goes_on(tmp_path, sides, time):
    """At its first note, or when a partition has come; once, twice, and while the first death is made good."""
    if time == 2:
        look(tmp_path / "2", 1, None, "")
    for side in sides:
        died = subprocess.run([sys.executable, "-c", DRIVER, tmp_path / "2", f"{STEP}:{side}:1"], cwd=ROOT, check=False)
        assert died.returncode == -signal.SIGKILL
    look(tmp_path / "2", 2, 1, "")
    assert counts(tmp_path, 2) == [2]
    assert counts(tmp_path, 0) == [1 if time == 2 else 2]
