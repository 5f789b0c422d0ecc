"""What a death in the middle leaves of a checkpoint that is shared anew, and what the next one makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runnel import App
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import another_in, let_count
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import Place
from runnel.pipeline.repartition import Repartition, shared_by


@pytest.fixture
def output():
    app = App("shop")
    clicks = app.stream("clicks", schema="k long")

    @app.view(clicks, key="k")
    def counts(clicks):
        return clicks

    return app.graph.outputs[0]


@pytest.fixture
def place(tmp_path):
    return Place("shop", Kafka("127.0.0.1:1", {}, 1.0), tmp_path, str(tmp_path))


@pytest.fixture
def path(place, output):
    found = place.checkpoint_of(output.name)
    found.parent.mkdir(parents=True)
    return found


def write(path: Path, *, partitions: int, last: int = 3, identity: str = "one") -> None:
    (path / "offsets").mkdir(parents=True)
    (path / "metadata").write_text(json.dumps({"id": identity}))
    about = json.dumps({"conf": {"spark.sql.shuffle.partitions": str(partitions)}})
    for batch in range(last + 1):
        (path / "offsets" / str(batch)).write_text(f"v1\n{about}\n-")


def left(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


def test_before_its_first_batch_a_checkpoint_has_no_number(path):
    assert shared_by(Checkpoint(path)) is None


def test_before_the_first_batch_nothing_is_removed(path, output):
    path.mkdir()
    Repartition(output, path.parent).settle()
    assert left(path) == ["checkpoint"]


def test_a_copy_by_half_is_removed(path, output):
    write(path, partitions=2)
    write(path.with_name("checkpoint-1"), partitions=5, last=0)
    write(path.with_name("checkpoint-2"), partitions=5)
    Repartition(output, path.parent).settle()
    assert (left(path), shared_by(Checkpoint(path))) == (["checkpoint"], 2)


def test_what_does_not_count_any_more_is_removed(path, output, place):
    write(path, partitions=2)
    copy = another_in(path.parent)
    write(copy, partitions=5)
    let_count(copy)
    assert place.checkpoint_of(output.name) == copy
    Repartition(output, path.parent).settle()
    assert left(path) == sorted(["checkpoint-name", copy.name])
    assert shared_by(Checkpoint(place.checkpoint_of(output.name))) == 5


def test_one_that_was_named_and_not_yet_moved_is_not_removed(path, output):
    write(path, partitions=2)
    let_count(another_in(path.parent))
    Repartition(output, path.parent).settle()
    assert "checkpoint" in left(path)
