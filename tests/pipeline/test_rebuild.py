"""A view is rebuilt beside itself, under load, and killed at every step: readers see the old one or the new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import runnel.app.rebuild
import runnel.durable
from runnel import App, Broker
from runnel.app.rebuild import NotRebuilt, Rebuild, discard
from runnel.app.rebuilds import RebuildRuns, Rebuilds
from runnel.app.runner import place_of
from runnel.client import Producer
from runnel.durable import VARIABLE
from runnel.errors import Permanent
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.errors import NoLongerFits
from runnel.pipeline.query import Query
from runnel.pipeline.steps.keep import Keep
from runnel.pipeline.swap import JOURNAL
from runnel.pipeline.view_query import ViewQuery
from runnel.views.opening import open_store
from tests.pipeline.scene import Scene, Sending
from tests.pipeline.stage import PROGRAM
from tests.pipeline.sums_app import SCHEMA, VIEW, named_app, sums_app
from tests.pipeline.waiting import LIMIT, wait_until

# What a swap does that lasts, in its order. That of the store is `view.exchange`, of `runnel.views`.
OF_SWAP = ("rebuild.decide", "rebuild.mark", "rebuild.away", "rebuild.in", "rebuild.keep", "rebuild.end")
OF_TABLES = ("table.told", "table.untold")  # of those that are joined, on the way there
STEPS = (*OF_SWAP, *OF_TABLES)


@pytest.fixture
def scene(spark, tmp_path) -> Iterator[Scene]:
    with Broker() as broker:
        found = Scene(broker, spark, tmp_path / "data")
        found.make("clicks", partitions=2)
        found.send(60, Sending(seed=1, back=0))
        yield found


def expected(scene: Scene, positions, times: int = 1, key: str = "k") -> dict[int, int]:
    """What follows from the records below the positions."""
    ends = {int(partition): end for partition, end in positions["clicks"].items()}
    found: dict[int, int] = {}
    for event in list(scene.sent):
        _, partition, offset = event.place
        if event.at is not None and offset < ends.get(partition, 0):
            found[getattr(event, key)] = found.get(getattr(event, key), 0) + event.n * times
    return found


def is_known(scene: Scene, positions) -> bool:
    """Whether all that was read is on the list of what was sent."""
    known = Counter(event.place[1] for event in list(scene.sent))
    return all(known[int(partition)] >= end for partition, end in positions["clicks"].items())


def snapshot(scene: Scene):
    with open_store(str(scene.data)).reader(VIEW) as reader:
        return reader.snapshot()


def shown(scene: Scene, times: int, key: str = "k") -> int:
    """The view is what follows from its own positions; how many records these are."""
    found = snapshot(scene)
    assert {row[key]: row["n"] for row in found.rows.to_pylist()} == expected(scene, found.marker.positions, times, key)
    return sum(found.marker.positions["clicks"].values())


@contextmanager
def sending(scene: Scene, every: float = 0.1) -> Iterator[None]:
    ended = threading.Event()

    def send() -> None:
        seed = 100
        while not ended.wait(every):
            seed += 1
            scene.send(5, Sending(seed=seed, back=0))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def reading(scene: Scene) -> Iterator[list[int]]:
    """All the while; which of the two somebody saw, in the order. Whoever watches folds what he is told."""
    ended, seen, failures = threading.Event(), [], []

    def read() -> None:
        wait_until(lambda: VIEW in open_store(str(scene.data)).names() and snapshot(scene).marker is not None)
        judged = None
        with open_store(str(scene.data)).reader(VIEW) as reader:
            while not ended.wait(0.02):
                found = reader.snapshot()
                rows = {row["k"]: row["n"] for row in found.rows.to_pylist()}
                if judged == (rows, found.marker.positions):
                    continue  # what was looked at before is as right as it was
                judged = rows, found.marker.positions
                wait_until(lambda found=found: is_known(scene, found.marker.positions))
                once = expected(scene, found.marker.positions)
                matching = [times for times in (1, 2) if rows == {key: n * times for key, n in once.items()}]
                if not matching:
                    failures.append((rows, found.marker))
                    return
                if seen[-1:] != matching:
                    seen.append(matching[0])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
    assert not failures


def watched(scene: Scene, position: int, view: dict[int, int]) -> tuple[int, dict[int, int]]:
    """What somebody has who was at a position, when he has folded all changes since."""
    with open_store(str(scene.data)).reader(VIEW) as reader:
        latest = reader.snapshot().next_position
        while position < latest:
            changes = reader.changes(position)
            for change in changes:
                assert view.get(change.key["k"]) == (change.before and change.before["n"])
                if change.after is None:
                    del view[change.key["k"]]
                else:
                    view[change.key["k"]] = change.after["n"]
            position = changes.next_position
    return position, view


def rebuild(scene: Scene, app: App, **how):
    return Rebuild(app, VIEW, scene.running(), **how).run()


@pytest.mark.servers
def test_a_changed_view_is_rebuilt_while_the_app_is_stopped_and_goes_on(scene):
    scene.run(sums_app())
    with pytest.raises(NoLongerFits):
        scene.run(sums_app(2))
    before = snapshot(scene)
    aside = scene.records("clicks.rejected")
    position, view = watched(scene, 0, {})
    scene.send(30, Sending(seed=2, back=0))  # which the view has not read, and the copy must not
    done = rebuild(scene, sums_app(2))
    assert done.in_time + done.rejected == 60
    assert shown(scene, 2) == 60
    assert snapshot(scene).marker.positions == before.marker.positions
    assert len(scene.records("clicks.rejected")) == len(aside)
    assert not done.is_kept
    assert done.old_bytes > 0
    scene.run(sums_app(2))
    assert shown(scene, 2) == 90
    assert watched(scene, position, view)[1] == expected(scene, snapshot(scene).marker.positions, 2)
    broken = [event for event in scene.sent if event.at is None]
    assert set(scene.aside("clicks.rejected", VIEW)) == {event.place for event in broken}


def die(*_: object) -> None:
    raise Permanent("it dies here")


@pytest.mark.servers
def test_what_the_last_batch_put_aside_before_it_died_is_not_told_again(scene, monkeypatch):
    scene.run(sums_app())
    scene.send_broken("clicks")
    with monkeypatch.context() as patch:
        patch.setattr(Keep, "__call__", die)
        with pytest.raises(Permanent, match="it dies here"):
            scene.run(sums_app())
    assert shown(scene, 1) == 60
    rebuild(scene, sums_app(2))
    assert shown(scene, 2) == 61
    scene.run(sums_app(2))
    broken = sorted(event.place for event in scene.sent if event.at is None)
    assert sorted(scene.aside("clicks.rejected", VIEW)) == broken


@pytest.mark.servers
def test_what_a_copy_had_planned_when_it_let_go_is_told_by_the_view_that_it_becomes_again(scene, monkeypatch):
    """Part of it was read by the view, which stands in the middle of that batch when they change places."""
    scene.run(sums_app())
    scene.send(10, Sending(seed=2, back=0, broken=0))
    scene.send_broken("clicks")
    with monkeypatch.context() as patch:
        patch.setattr(ViewQuery, "_run_batch", die)
        with pytest.raises(Permanent, match="it dies here"):
            scene.run(sums_app())
    rebuild(scene, sums_app(2), keep=True)

    def run_until_the_view_went_on(query: ViewQuery, *batch: Any) -> None:
        if shown_records(scene) > 60:
            die()
        Query._run_batch(query, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(ViewQuery, "_run_batch", run_until_the_view_went_on)
        with pytest.raises(Permanent, match="it dies here"):
            scene.run(sums_app(2, rows=4))
    rebuild(scene, sums_app(), back=True)
    assert 60 < shown(scene, 1) < 71
    scene.run(sums_app())
    assert shown(scene, 1) == 71
    broken = sorted(event.place for event in scene.sent if event.at is None)
    assert sorted(scene.aside("clicks.rejected", VIEW)) == broken


@pytest.mark.servers
def test_what_is_rejected_of_a_table_is_told_once_and_what_is_planned_anew_sees_the_table_anew(scene, monkeypatch):
    """Of the table, more is there than the view has read: nothing else has come since."""
    scene.make("names", partitions=1)
    name(scene, b"Ann")
    scene.run(named_app())
    name(scene, b"Anna")
    click = scene.send_one("clicks", 90_000)
    with monkeypatch.context() as patch:
        patch.setattr(Keep, "__call__", die)
        with pytest.raises(Permanent, match="it dies here"):
            scene.run(named_app())
    name(scene, b"Annabel", broken=True)
    for step in OF_TABLES:
        for side in ("before", "after"):
            with runnel.durable.watched(dies_at(f"{step}:{side}")), pytest.raises(Permanent, match="it dies here"):
                rebuild(scene, named_app(2), keep=True)
    rebuild(scene, named_app(2), keep=True)
    assert list(scene.aside("names.rejected", VIEW)) == [("names", 0, 3)]
    scene.run(named_app(2))
    name(scene, broken=True)
    rebuild(scene, named_app(), back=True)
    assert {row["name"] for row in scene.rows(VIEW) if row["id"] == click.id} == {"Annabel"}
    assert list(scene.aside("names.rejected", VIEW)) == [("names", 0, 3), ("names", 0, 4)]
    scene.send_one("clicks", 91_000)
    scene.run(named_app())
    assert list(scene.aside("names.rejected", VIEW)) == [("names", 0, 3), ("names", 0, 4)]


def dies_at(place: str) -> Callable[[str], None]:
    def reach(reached: str) -> None:
        if reached == place:
            die()

    return reach


def name(scene: Scene, *names: bytes, broken: bool = False) -> None:
    """What those are called that click with the k of 0; and, perhaps, a record that does not fit."""
    values = [b'{"k": 0, "name": "%s"}' % each for each in names] + [b"{"] * broken
    with Producer(scene.broker.bootstrap) as producer:
        for value in values:
            producer.submit("names", value, key=b"0", partition=0)


@pytest.mark.soak
def test_another_key_is_another_table_under_the_same_name(scene):
    scene.run(sums_app())
    rebuild(scene, sums_app(1, key="id"), keep=True)
    scene.send(10, Sending(seed=3, back=0))
    scene.run(sums_app(1, key="id"))
    assert shown(scene, 1, "id") == 70
    with pytest.raises(NotRebuilt, match="is of another file"):
        rebuild(scene, sums_app(1, key="id"), back=True)
    rebuild(scene, sums_app(), back=True)
    assert shown(scene, 1) == 70
    with pytest.raises(NoLongerFits):
        scene.run(sums_app(1, key="id"))
    scene.run(sums_app())
    assert shown(scene, 1) == 70


@pytest.mark.servers
def test_it_is_rebuilt_while_the_app_runs_under_load_and_the_app_goes_on_with_the_same_code(scene):
    app = sums_app()
    with sending(scene), reading(scene) as seen, scene.live(app) as queries:
        wait_until(lambda: queries[VIEW].done > 2)
        before = snapshot(scene).marker.checkpoint
        assert rebuild(scene, app, keep=True).is_kept
        assert snapshot(scene).marker.checkpoint != before
        at = shown_records(scene)
        wait_until(lambda: shown_records(scene) > at)
    assert seen == [1]
    scene.run(app)
    assert shown(scene, 1) == len(scene.sent)
    assert set(scene.aside("clicks.rejected", VIEW)) == {event.place for event in scene.sent if event.at is None}


SNAPSHOT_EVERY = "spark.sql.streaming.stateStore.minDeltasForSnapshot"  # versions
LOOK_AFTER_STATE_EVERY = "spark.sql.streaming.stateStore.maintenanceInterval"
# Spark stops what looks after its state with a lock in its hands that this may be waiting for, and then waits for it as
# long as these say: by Spark's own choice for six minutes.
STOP_WITHIN = "spark.sql.streaming.stateStore.maintenanceShutdownTimeout"
BREAK_OFF_WITHIN = "spark.sql.streaming.stateStore.maintenanceForceShutdownTimeout"


@contextmanager
def late_snapshots(spark) -> Iterator[Any]:
    """Spark makes a snapshot of each version, and does not come to write them. What looks after its state."""
    states = getattr(getattr(spark._jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$"), "MODULE$")
    changed = {STOP_WITHIN: "20s", BREAK_OFF_WITHIN: "1s"}
    before = {name: spark.conf.get(name) for name in (SNAPSHOT_EVERY, LOOK_AFTER_STATE_EVERY, *changed)}
    states.stopMaintenanceTaskWithoutLock()  # no query runs; it begins again with the next batch of any
    for name, value in changed.items():
        spark.conf.set(name, value)
    spark.conf.set(SNAPSHOT_EVERY, "1")
    spark.conf.set(LOOK_AFTER_STATE_EVERY, "1h")
    try:
        yield states
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
        states.stopMaintenanceTaskWithoutLock()


@pytest.mark.servers
def test_what_spark_still_holds_of_the_old_state_does_not_get_into_the_new_copy(scene):
    """It keeps the state of a query that has ended for a while, and writes its snapshots to where it was."""
    app = sums_app()
    with late_snapshots(scene.spark) as states, scene.live(app) as queries:
        for seed in range(4):
            send_and_wait(scene, seed)
        old = queries[VIEW].checkpoint.path
        last = queries[VIEW].checkpoint.last_done
        scene.spark.conf.set(SNAPSHOT_EVERY, "1000")
        scene.spark.conf.set(LOOK_AFTER_STATE_EVERY, "200ms")
        rebuild(scene, app)
        states.stopMaintenanceTask()
        send_and_wait(scene, seed := seed + 1)
        wait_until(lambda: list((old / "state").rglob("*.zip")), lambda: "Spark has written the old state's snapshot")
        checkpoint = checkpoint_of(scene)
        assert checkpoint.last_done < last, "its version is still to come"
        while checkpoint.last_done <= last:
            send_and_wait(scene, seed := seed + 1)
    scene.send(20, Sending(seed=0, back=0))
    scene.run(app)
    assert shown(scene, 1) == len(scene.sent)


def send_and_wait(scene: Scene, seed: int) -> None:
    """A batch of few records."""
    scene.send(2, Sending(seed=seed, back=0, broken=0))
    wait_until(lambda: VIEW in open_store(str(scene.data)).names() and snapshot(scene).marker is not None)
    wait_until(lambda: shown_records(scene) == len(scene.sent))


def checkpoint_of(scene: Scene) -> Checkpoint:
    return Checkpoint(place_of(sums_app(), scene.running()).checkpoint_of(VIEW))


def shown_records(scene: Scene) -> int:
    return sum(snapshot(scene).marker.positions["clicks"].values())


@pytest.mark.servers
def test_with_other_code_it_stands_still_until_the_app_is_started_again_and_can_be_rolled_back(scene):
    with sending(scene), reading(scene) as seen:
        with scene.live(sums_app()) as queries:
            wait_until(lambda: queries[VIEW].done > 2)
            rebuild(scene, sums_app(2), keep=True)
            wait_until(lambda: seen[-1] == 2)
            assert not queries[VIEW].is_active
            rebuild(scene, sums_app(), back=True)
            wait_until(lambda: seen[-1] == 1)
            at = shown_records(scene)
            wait_until(lambda: shown_records(scene) > at)
        rebuild(scene, sums_app(2), back=True)
        with scene.live(sums_app(2)):
            at = shown_records(scene)
            wait_until(lambda: shown_records(scene) > at)
    assert seen == [1, 2, 1, 2]
    assert discard(sums_app(2), VIEW, scene.running()) > 0
    with pytest.raises(NotRebuilt, match="has no copy to go back to"):
        rebuild(scene, sums_app(2), back=True)
    scene.run(sums_app(2))
    assert shown(scene, 2) == len(scene.sent)
    assert set(scene.aside("clicks.rejected", VIEW)) == {event.place for event in scene.sent if event.at is None}


@pytest.mark.soak
def test_stopped_on_the_way_it_goes_on_where_it_was_unless_the_code_has_changed(scene, monkeypatch):
    scene.run(sums_app())
    for times in (2, 3):
        made = Rebuild(sums_app(times), VIEW, scene.running())

        def never(copy, *_, made=made) -> bool:
            if copy is not None and copy.batch >= 1:
                made.stop()
            return False

        with monkeypatch.context() as patch:
            patch.setattr(runnel.app.rebuild, "_has_come_to", never)
            assert made.run() is None
        assert shown(scene, 1) == 60
    done = rebuild(scene, sums_app(3))
    assert 0 < done.in_time + done.rejected < 60
    assert shown(scene, 3) == 60


@pytest.mark.soak
def test_what_it_remembers_can_be_shared_by_more_tasks(scene):
    scene.run(sums_app())
    done = Rebuild(sums_app(), VIEW, scene.running(), partitions=3).run()
    assert done is not None
    scene.send(20, Sending(seed=4, back=0))
    scene.run(sums_app())
    assert shown(scene, 1) == len(scene.sent)
    state = checkpoint_of(scene).path / "state" / "0"
    assert sorted(path.name for path in state.iterdir() if path.name.isdigit()) == ["0", "1", "2"]
    assert scene.spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.servers
def test_what_cannot_be_rebuilt_says_so(scene):
    app = sums_app()
    with pytest.raises(NotRebuilt, match="no batch of it was ever done"):
        rebuild(scene, app)
    with pytest.raises(NotRebuilt, match="app \"shop\" has no view 'other'"):
        Rebuild(app, "other", scene.running())
    with Rebuilds(place_of(app, scene.running()), VIEW).owned(), pytest.raises(RebuildRuns, match="rebuilt or rolled"):
        rebuild(scene, app)
    derived = App("shop")
    clicks = derived.stream("clicks", schema=SCHEMA)

    @derived.stream(clicks)
    def stays(clicks):
        return clicks.select("id")

    with pytest.raises(NotRebuilt, match="cannot be rebuilt") as raised:
        Rebuild(derived, "stays", scene.running())
    assert "runnel replay stays" in raised.value.hint


# --- deaths


@contextmanager
def process(scene: Scene, tmp_path: Path, called: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`runnel rebuild` or `rollback`, as people call it."""
    command = [sys.executable, "-c", PROGRAM, called, VIEW, str(Path(__file__).with_name("sums_app.py"))]
    command += ["--bootstrap", scene.broker.bootstrap, "--data", str(scene.data), "--master", "local[1]"]
    command += ["--keep"] if called == "rebuild" else []
    more = {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(command, env=os.environ | more, stdout=log, stderr=log, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(
    "called",
    [pytest.param("rebuild", marks=pytest.mark.servers), pytest.param("rollback", marks=pytest.mark.soak)],
)
def test_killed_for_good_when_the_rows_are_exchanged_the_running_app_finishes_it(scene, tmp_path, called):
    app = sums_app()
    if called == "rollback":
        scene.run(sums_app(2))
        rebuild(scene, app, keep=True)
    # Batch after batch without a pause would take the processors from the process that is to start.
    with sending(scene, every=2.0), reading(scene) as seen, scene.live(app) as queries:
        wait_until(lambda: queries[VIEW].done > 2)
        before = snapshot(scene).marker.checkpoint
        with process(scene, tmp_path, called, **{VARIABLE: "view.exchange:after:1"}) as running:
            assert running.wait(LIMIT) == -signal.SIGKILL, (tmp_path / "log").read_text()
        assert snapshot(scene).marker.checkpoint != before
        wait_until(lambda: not (scene.data / "rebuilds" / VIEW / JOURNAL).exists())
        assert checkpoint_of(scene).id == snapshot(scene).marker.checkpoint
    assert seen == [1, 2]  # its code is other code: it stands still, and a start goes on
    scene.run(sums_app(2))
    assert shown(scene, 2) == len(scene.sent)
    assert set(scene.aside("clicks.rejected", VIEW)) == {event.place for event in scene.sent if event.at is None}


class Killed(BaseException):
    """In place of a death, in the one process that these tests have: nothing is done after it."""


@contextmanager
def dying(monkeypatch, step: str, side: str) -> Iterator[None]:
    def reach(name: str, at: str) -> None:
        if (name, at) == (step, side):
            raise Killed(f"{step}:{side}")

    with monkeypatch.context() as patch:
        patch.setattr(runnel.durable, "_reach", reach)
        with pytest.raises(Killed):
            yield


EVERY = [(step, side) for step in (*OF_SWAP, "view.exchange") for side in ("before", "after")]
SOME = [
    ("rebuild.decide", "before"),
    ("view.exchange", "before"),
    ("rebuild.mark", "before"),
    ("rebuild.away", "after"),
]


@pytest.mark.parametrize(
    "deaths",
    [pytest.param(SOME, marks=pytest.mark.servers), pytest.param(EVERY, marks=pytest.mark.soak)],
    ids=["some", "every one"],
)
def test_killed_at_a_step_of_the_swap_the_next_one_finishes_it(scene, monkeypatch, deaths):
    """In turns, the app's start and another rebuild find what the dead one left."""
    times = 1
    scene.run(sums_app(times))
    for number, (step, side) in enumerate(deaths):
        scene.send(5, Sending(seed=number, back=0))
        following = 3 - times
        with reading(scene) as seen, dying(monkeypatch, step, side):
            rebuild(scene, sums_app(following), keep=True)
        assert set(seen) <= {1, 2}, (step, side)
        is_decided = (step, side) != ("rebuild.decide", "before")
        if is_decided and number % 2:
            rebuild(scene, sums_app(following), keep=True)
        times = following if is_decided else times
        scene.run(sums_app(times))
        assert shown(scene, times) == len(scene.sent), (step, side)
    assert sorted(scene.aside("clicks.rejected", VIEW)) == sorted(e.place for e in scene.sent if e.at is None)
