"""Killed at any durable step, and again, and while it recovers, an app comes to what an undisturbed run gives.

Who looks in between, or reads all the while, sees whole batches. With every change each way of writing dies along a
chain: at its steps, on either side of each, twice in a row where it is done twice, and at the next one always while the
last death is made good. The long runs try every step of every way by itself.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

import runnel.pipeline
import runnel.views
from runnel import Broker
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in
from runnel.pipeline.repartition import shared_by
from tests.contract.views import test_exchange
from tests.contract.views.postgres_server import Postgres, postgres_server
from tests.pipeline import test_bad_rows, test_rebuild, test_repartition, test_tables, test_views_as_inputs
from tests.pipeline.crash_driver import NAIVE, NO_MARKER, STREAM, VIEW, WINDOWS, Life
from tests.pipeline.crash_engine import Engine, engine
from tests.pipeline.crash_scene import ALL_AT_ONCE, Scene, check_stays
from tests.unit.pipeline import test_kafka

# The steps of each way of writing, in the order in which a run does them.
SOURCE = ("source.start", "checkpoint.sync", "source.aside")
BY_DRIVER = ("query.declared", "publish.open", *SOURCE, "publish.begin", "publish.write", "publish.commit")
BY_TASKS = ("query.declared", "publish.open", *SOURCE, "publish.begin", "publish.write in a task", "publish.commit")
KEPT = ("view.store", "view.create", "view.claim", *BY_DRIVER[1:], "view.commit", "view.trim", "view.migrate")
POSTGRES = ("query.declared", *KEPT)
SQLITE = ("query.declared", "view.file", *KEPT)

ONLY_ONCE = {"query.declared", "view.file", "view.store", "view.create", "view.migrate"}
ONCE_A_RUN = {"publish.open", "view.claim"}
IN_SPARK = {"source.aside", "publish.write in a task"}  # steps of its processes, which the driver replaces
WIDER = "view.migrate"  # is a step of a run whose view has a column more than before
FULL = "view.trim"  # is a step of each batch only when the change log of the view is full

BOTH = ("before", "after")
# Nothing that lasts happens between these two: to die after the one is to die before the other.
AT_ONCE = {
    ("query.declared", "view.file"),
    ("view.file", "view.store"),
    ("view.store", "view.create"),
    ("view.create", "view.claim"),
    ("view.claim", "publish.open"),
    ("publish.begin", "publish.write"),
}

WAYS = {
    "a stream by the driver": BY_DRIVER,
    "a stream by tasks": BY_TASKS,
    "a view in SQLite": SQLITE,
    "a view in PostgreSQL": POSTGRES,
}
# Without those that are the same, in the same order, in another chain.
CHAINS = {
    "a stream by the driver": BY_DRIVER,
    "a stream by tasks": ("source.aside", "publish.begin", "publish.write in a task", "publish.commit"),
    "a view in SQLite": SQLITE,
    "a view in PostgreSQL": tuple(step for step in POSTGRES if step.startswith("view.") or step == "publish.commit"),
}


def points_of(step: str, sides: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Where a run dies, and the next, and so on; a driver's death ends its run. First in a batch after the one that is
    made good, and then in the one that is.
    """
    if step == "source.start":  # of Spark's, and done only once
        points = (f"{step}:before:1", f"{step}:before:2", f"{step}:after:1")
        return [tuple(point for point in points if point.split(":")[1] in sides)]
    if step in ONLY_ONCE:
        return [(f"{step}:{side}:1",) for side in sides for _ in range(2 if side == "before" else 1)]
    if step in IN_SPARK:
        return [(f"{step}:{side}:1", f"{step}:{side}:3") for side in sides]
    first = 1 if step in ONCE_A_RUN else 2
    return [(f"{step}:{side}:{time}",) for side in sides for time in (first, 1)]


def test_every_durable_step_is_tried():
    sources = [path for each in (runnel.pipeline, runnel.views) for path in Path(each.__file__).parent.rglob("*.py")]
    names = {name for path in sources for name in re.findall(r'durable\("([^"]+)"\)', path.read_text())}
    # These try theirs by themselves.
    of_inputs, of_outputs = (test_kafka, test_tables, test_views_as_inputs), (test_exchange, test_rebuild)
    for other in (*of_inputs, *of_outputs, test_bad_rows, test_repartition):
        names -= set(other.STEPS)
    here = {step for steps in CHAINS.values() for step in steps}
    assert here == {step for steps in WAYS.values() for step in steps}
    assert names == here


# --- what the tests stand on


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engine(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture(scope="module")
def other_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """That of another machine."""
    with engine(tmp_path_factory.mktemp("other-spark")) as found:
        yield found


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as found:
        yield found


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as found:
        yield found


@pytest.fixture
def stream(broker: Broker, spark: Engine, tmp_path: Path) -> Scene:
    return Scene(broker, spark, Life(STREAM, broker.bootstrap, tmp_path / "data"))


@pytest.fixture
def scene(way: str, broker: Broker, spark: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Scene:
    return Scene(broker, spark, life_of(way, broker, tmp_path / "data", request))


def life_of(way: str, broker: Broker, data: Path, request: pytest.FixtureRequest) -> Life:
    if way == "a view in PostgreSQL":
        postgres = request.getfixturevalue("postgres")
        database = f"views_{abs(hash(str(data)))}"
        postgres.run(f"CREATE DATABASE {database}")
        return Life(VIEW, broker.bootstrap, data, views=postgres.url_of("runnel", database))
    if way == "a view in SQLite":
        return Life(VIEW, broker.bootstrap, data)
    return Life(STREAM, broker.bootstrap, data, by_tasks=way == "a stream by tasks")


# --- deaths


@pytest.mark.servers
@pytest.mark.parametrize("way", CHAINS)
def test_it_dies_along_a_chain_and_each_death_is_made_good(scene, way):
    chain = CHAINS[way]
    with scene.watched():
        for step, following in zip_longest(chain, chain[1:]):
            scene.life = replace(scene.life, wider=scene.life.wider or step == WIDER)
            for points in points_of(step, ("before",) if (step, following) in AT_ONCE else BOTH):
                scene.die(*points)
        scene.end()


STEPS = [(way, step) for way, steps in WAYS.items() for step in steps]


@pytest.mark.soak
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("deaths", ["once", "twice", "and during recovery"])
@pytest.mark.parametrize(("way", "step"), STEPS, ids=lambda each: each)
def test_it_dies_at_a_step_and_comes_back(scene, way, step, deaths, side):
    first, *others = points_of(step, (side,))
    if step in (WIDER, FULL):
        scene.feed()
        scene.spark.run(scene.life)
        scene.life = replace(scene.life, wider=step == WIDER)
    with scene.watched():
        scene.die(*(first[:1] if deaths == "once" else first))
        if deaths != "once":
            for points in others:
                scene.die(*points)
        if deaths == "and during recovery":
            for again in ("publish.open:after:1", "checkpoint.sync:after:1", "publish.commit:before:1"):
                scene.die(again)
        scene.feed()
        scene.end()
    if step not in ONLY_ONCE and step != "source.start":
        scene.die(*first)  # now that clicks come late
    scene.feed()
    scene.end()


@pytest.mark.servers
def test_what_a_window_remembers_survives_a_death_after_the_commit(broker, spark, tmp_path):
    scene = Scene(broker, spark, Life(WINDOWS, broker.bootstrap, tmp_path / "data"))
    scene.die("publish.commit:after:2")
    scene.die("publish.commit:after:1")
    scene.life = replace(scene.life, rows=ALL_AT_ONCE)  # so that there are late clicks in the next one
    scene.die("publish.commit:before:1")
    scene.end()


@pytest.mark.servers
def test_killed_while_what_a_window_remembers_is_shared_anew_the_next_run_goes_on_from_there(broker, spark, tmp_path):
    """Each time with a batch that has taken effect, and of which the checkpoint does not know that."""
    scene = Scene(broker, spark, Life(WINDOWS, broker.bootstrap, tmp_path / "data"))
    scene.die("publish.commit:after:2")
    scene.life = replace(scene.life, partitions=5)
    for point in ("state:after", "name:before", "name:after"):
        scene.die(f"repartition.{point}:1")
    scene.die("publish.commit:after:2")
    scene.life = replace(scene.life, partitions=3)
    scene.die("repartition.name:after:1")
    scene.life = replace(scene.life, partitions=None)  # what was decided is done, although nobody asks any more
    scene.end()
    assert shared_by(Checkpoint(checkpoint_in(scene.life.data / "queries" / WINDOWS))) == 3


SHARING = [f"{step}:{side}:1" for step in test_repartition.STEPS for side in BOTH]


@pytest.mark.soak
@pytest.mark.parametrize("output", [WINDOWS, VIEW])
@pytest.mark.parametrize("last", ["publish.commit:before:2", "publish.commit:after:2", "checkpoint.sync:before:3", ""])
def test_killed_anywhere_while_it_is_shared_anew(broker, spark, tmp_path, output, last):
    scene = Scene(broker, spark, Life(output, broker.bootstrap, tmp_path / "data"))
    scene.feed()
    spark.run(scene.life)
    for number, point in enumerate(SHARING):
        scene.life = replace(scene.life, partitions=None)
        if last:
            scene.die(last)
        else:
            scene.feed()
            spark.run(scene.life)
        scene.life = replace(scene.life, partitions=(5, 3, 1, 4)[number % 4])
        scene.die(point)
        if number % 2:
            scene.life = replace(scene.life, partitions=None)  # the number was not asked for again
        scene.end()


@pytest.mark.servers
def test_where_a_stream_began_is_kept(stream):
    stream.life = replace(stream.life, begin="latest")
    stream.send(100)
    stream.first = stream.sent
    # Who plans has kept the place, and told nobody; the driver dies while it makes that good.
    stream.spark.die(stream.life, "source.start:after:1", "publish.open:before:2")
    stream.send(100)
    stream.spark.die(stream.life, "publish.commit:before:1")
    stream.end()


@pytest.mark.servers
@pytest.mark.parametrize("way", ["a stream by the driver", "a view in SQLite"])
def test_an_entry_of_the_checkpoint_is_on_the_disk_before_its_batch_takes_effect(scene, tmp_path):
    trace = tmp_path / "trace"
    scene.feed()
    scene.spark.run(replace(scene.life, traced=trace))
    offsets = scene.life.data / "queries" / scene.life.output / "checkpoint" / "offsets"
    before, *batches = trace.read_text().split("checkpoint.sync:before\n")
    assert not re.search("publish.begin|view.commit", before)
    for number, lines in enumerate(batches):
        syncs, after, effects = lines.partition("checkpoint.sync:after\n")
        assert after
        assert not re.search("publish.begin|view.commit", syncs)
        assert syncs.count(f"sync {offsets / str(number)}\n") == 1
        assert syncs.count(f"sync {offsets}\n") == 1
        assert effects.count("view.commit:after" if scene.is_view else "publish.commit:after") == 1
        assert not re.search(f"sync {offsets}", effects)
    assert len(batches) > 2


@pytest.mark.servers
def test_a_checkpoint_that_is_not_that_of_its_output_is_refused(stream):
    """As after a power cut on a disk that lies, or with an older copy of the directory."""
    stream.die("publish.commit:after:2")
    offsets = stream.life.data / "queries" / STREAM / "checkpoint" / "offsets"
    last = max((path for path in offsets.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    entry = last.read_text()
    (offsets / f".{last.name}.crc").unlink()
    last.write_text(re.sub(r'"next": *{"0": *(\d+)', lambda found: found[0].replace(found[1], "1"), entry))
    assert last.read_text() != entry
    assert "its output has read other records in batch" in stream.spark.fail(stream.life)
    last.unlink()
    assert "its output is at batch" in stream.spark.fail(stream.life)
    stream.check_whole()


# --- one that is not dead


@pytest.mark.parametrize(
    ("way", "point"),
    [
        pytest.param("a stream by the driver", "publish.commit:before:2", marks=pytest.mark.servers),
        pytest.param("a stream by tasks", "publish.commit:before:2", marks=pytest.mark.soak),
        pytest.param("a view in SQLite", "publish.commit:after:2", marks=pytest.mark.servers),
        pytest.param("a view in PostgreSQL", "publish.commit:before:2", marks=pytest.mark.servers),
        pytest.param("a view in PostgreSQL", "view.commit:before:2", marks=pytest.mark.soak),  # in a lock
    ],
)
def test_a_driver_that_wakes_up_beside_its_successor_is_fenced_and_says_so(scene, way, point, other_spark):
    scene.life = replace(scene.life, locks=False)
    scene.feed()
    with scene.watched():
        sleeper = scene.spark.pause(scene.life, point)
        other_spark.run(scene.life)
        scene.check_exact()
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.join()
        assert sleeper.exitcode == 1, scene.spark.log()
        assert "has taken" in scene.spark.log()
        scene.check_exact()
        scene.feed()
        other_spark.run(scene.life)
        scene.check_exact()


@pytest.mark.servers
def test_a_commit_that_comes_just_before_its_successor_opens_counts(stream, other_spark):
    stream.life = replace(stream.life, locks=False)
    stream.feed()
    last = stream.spark.pause(stream.life, "publish.commit:before:2")
    successor = other_spark.pause(stream.life, "publish.open:before:1")
    stream.spark.put("publish.commit:after:1")
    os.kill(last.pid, signal.SIGCONT)
    last.join()
    os.kill(successor.pid, signal.SIGCONT)
    successor.join()
    assert successor.exitcode == 0, other_spark.log()
    stream.check_exact()


# --- it can fail


@pytest.mark.servers
def test_plain_produce_is_right_until_it_dies(stream):
    stream.life = replace(stream.life, otherwise=NAIVE, rows=ALL_AT_ONCE)
    stream.send(60)
    stream.spark.run(stream.life)
    check_stays(stream.read()[STREAM], list(range(60)))
    stream.send(60)
    stream.spark.die(stream.life, "publish.commit:after:1")
    stream.spark.run(stream.life)
    with pytest.raises(AssertionError, match="there twice"):
        check_stays(stream.read()[STREAM], list(range(120)))


@pytest.mark.servers
def test_without_a_look_at_the_marker_a_death_after_the_commit_is_found(stream):
    stream.life = replace(stream.life, otherwise=NO_MARKER)
    stream.die("publish.commit:after:1")
    with pytest.raises(AssertionError, match="published twice"):
        stream.end()
