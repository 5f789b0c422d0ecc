"""What a query remembers is shared by another number of tasks, and its answers stay what they were."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading
from runnel.client import Producer
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in
from runnel.pipeline.errors import NotShared
from runnel.pipeline.repartition import PARTITIONS, shared_by
from runnel.views.errors import UnknownView
from tests.pipeline.operators import LATE, OPERATORS, SCHEMA, tumbling
from tests.pipeline.scene import SECOND, Scene, Sending
from tests.pipeline.stage import APP, PROGRAM, Stage
from tests.pipeline.test_sums import ALL, check_answer, check_late, check_sums
from tests.pipeline.waiting import wait_until

STEPS = ("repartition.state", "repartition.name")  # in test_crash_points
WINDOW = OPERATORS["tumbling window"]
OUTPUTS = ("told", "shown", "total")


@pytest.fixture
def scene(tmp_path, spark):
    with Broker() as broker:
        found = Scene(broker, spark, tmp_path / "data")
        found.make("clicks", partitions=2)
        yield found


def every() -> App:
    """Windows as a stream, which tells them when they close, and as a view; and a sum of everything, without a key."""
    app = App("sums")
    clicks = app.stream("clicks", schema=SCHEMA, time="at", late=f"{LATE} seconds", read=Reading(rows=1000), idle=None)

    def told(clicks):
        return tumbling(clicks)

    def shown(clicks):
        return tumbling(clicks)

    def total(clicks):
        return clicks.groupBy().agg(F.sum("n").alias("n")).select(F.lit(1).alias("k"), "n")

    app.stream(clicks)(told)
    app.view(clicks, key=["start", "k"])(shown)
    app.view(clicks, key="k")(total)
    return app


def checkpoint_of(scene: Scene, output: str) -> Checkpoint:
    return Checkpoint(checkpoint_in(scene.data / "queries" / output))


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.servers
def test_a_stream_and_a_view_go_on_with_the_same_answers_by_more_tasks_and_by_fewer(scene, caplog):
    caplog.set_level(logging.INFO)
    counts = dict.fromkeys(OUTPUTS, 0)
    for part, partitions in enumerate((None, 5, 3)):
        scene.send(40, Sending(seed=part, back=2 * LATE))
        if part == 2:
            scene.close_windows(["clicks"])
        before = {output: checkpoint_of(scene, output).last_done for output in OUTPUTS}
        for output, told in scene.run(every(), partitions=partitions).items():
            assert told.dropped == 0
            counts[output] += told.in_time + told.late + told.rejected
            assert checkpoint_of(scene, output).last_done > before[output]
    assert counts == dict.fromkeys(OUTPUTS, len(scene.sent))
    for output in OUTPUTS:
        aside = {*scene.aside(f"{output}.late", output), *scene.aside("clicks.rejected", output)}
        rest = [event for event in scene.sent if event.place not in aside]
        if output == "total":
            assert scene.rows(output) == [{"k": 1, "n": sum(event.n for event in rest)}]
        else:
            found = scene.values(output) if output == "told" else scene.rows(output)
            assert WINDOW.found(found) == WINDOW.expected(rest), output
        assert shared_by(checkpoint_of(scene, output)) == 3
        assert tasks_of(scene, output) == (["0"] if output == "total" else ["0", "1", "2"])
        left = {path for path in (scene.data / "queries" / output).glob("checkpoint*") if (path / "metadata").exists()}
        assert left == {checkpoint_of(scene, output).path}
        assert f"{output}: what it remembers is shared by 2 tasks, and from now on by 5" in caplog.messages
        assert f"{output}: what it remembers is shared by 5 tasks, and from now on by 3" in caplog.messages
        assert sum(message.startswith(f"{output}: that took ") for message in caplog.messages) == 2
    assert scene.spark.conf.get(PARTITIONS) == "2"


def tasks_of(scene: Scene, output: str) -> list[str]:
    state = checkpoint_of(scene, output).path / "state" / "0"
    return sorted(path.name for path in state.iterdir() if path.name.isdigit())


def per_key() -> App:
    """What each key has sent: record by record, as they were summed up, and their number and last one."""
    app = App("keys")
    clicks = app.stream("clicks", schema="k int, n int")

    @app.stream(clicks, key="k")
    def passed(clicks):
        return clicks

    @app.view(clicks, key="k")
    def counted(clicks):
        return clicks.groupBy("k").agg(F.count("n").alias("count"), F.sum("n").alias("sum"), F.max("n").alias("last"))

    @app.view(clicks, key="k")
    def unlike(clicks):
        return clicks.dropDuplicates(["k", "n"]).groupBy("k").agg(F.count("n").alias("count"))

    return app


class Sender:
    """Sends all the while: of each key the numbers from 0 on, in their order, each key to a partition of its own."""

    KEYS = 5

    def __init__(self, bootstrap: str) -> None:
        self.sent = 0  # of each key
        self._bootstrap = bootstrap
        self._ended = threading.Event()

    def run(self) -> None:
        with Producer(self._bootstrap) as producer:
            while not self._ended.is_set():
                for k in range(self.KEYS):
                    producer.submit("clicks", json.dumps({"k": k, "n": self.sent}).encode(), partition=k % 2)
                self.sent += 1
                self._ended.wait(0.02)

    def end(self) -> None:
        self._ended.set()


@pytest.mark.servers
def test_while_somebody_sends_each_record_counts_once_and_those_of_a_key_stay_in_order(scene):
    """By other numbers of tasks, which remember, and by those that write, or the driver."""
    sender = Sender(scene.broker.bootstrap)
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(sender.run)
        try:
            for partitions, parallel_from in ((2, 10**9), (5, 1), (3, 10**9)):
                before = sender.sent
                with scene.live(per_key(), partitions=partitions, parallel_from=parallel_from):
                    wait_until(lambda before=before: sending.done() or _last_counted(scene) > before)
        finally:
            sender.end()
        sending.result()
    scene.run(per_key(), partitions=4)
    assert all(shared_by(checkpoint_of(scene, output)) == 4 for output in ("counted", "unlike"))
    passed: dict[int, list[int]] = {}
    for row in scene.values("passed"):
        passed.setdefault(row["k"], []).append(row["n"])
    numbers = list(range(sender.sent))
    assert passed == dict.fromkeys(range(Sender.KEYS), numbers)
    counted = {row["k"]: (row["count"], row["sum"], row["last"]) for row in scene.rows("counted")}
    assert counted == dict.fromkeys(range(Sender.KEYS), (len(numbers), sum(numbers), numbers[-1]))
    assert {row["k"]: row["count"] for row in scene.rows("unlike")} == dict.fromkeys(range(Sender.KEYS), len(numbers))


def _last_counted(scene: Scene) -> int:
    """The least of the last numbers that the view has of each key; -1 before there is one."""
    try:
        rows = scene.rows("counted")
    except UnknownView:
        return -1
    return min(row["last"] for row in rows) if len(rows) == Sender.KEYS else -1


@pytest.mark.servers
def test_a_new_app_begins_with_the_number_and_what_spark_cannot_share_is_left_as_it_is(scene):
    """One that keeps its state in another way, as a session may that somebody brings."""
    provider = "spark.sql.streaming.stateStore.providerClass"
    ours = scene.spark.conf.get(provider)
    other = ours.replace("RocksDB", "HDFSBacked")
    scene.send(20, Sending(seed=1, broken=0.0, back=0))
    try:
        scene.spark.conf.set(provider, other)
        scene.run(WINDOW.app("view", rows=100), partitions=4)
        assert shared_by(checkpoint_of(scene, "result")) == 4
        directory = scene.data / "queries" / "result" / "checkpoint"
        before = files_of(directory)
        with pytest.raises(NotShared) as refused:
            scene.run(WINDOW.app("view", rows=100), partitions=3)
        assert refused.value.what == (
            f"result: what it remembers is shared by 4 tasks, and cannot be shared by 3: {other} is not supported"
        )
        assert refused.value.hint == (
            "without --partitions it goes on as it is; "
            "`runnel rebuild result APP.py --partitions 3` reads the log again into a new copy"
        )
        assert files_of(directory) == before
        assert [path.name for path in directory.parent.glob("checkpoint*")] == ["checkpoint"]
        scene.close_windows(["clicks"])
        scene.run(WINDOW.app("view", rows=100))
    finally:
        scene.spark.conf.set(provider, ours)
    check_answer(scene, WINDOW, "view")


# --- for a long time


@pytest.mark.soak
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_every_operator_can_be_shared_again_and_again(scene, seed, name, kind):
    operator, chance = OPERATORS[name], random.Random(f"{seed} {name} {kind}")
    scene.make(*(topic for topic in operator.inputs if topic != "clicks"), partitions=2)
    runs = []
    for part in range(5):
        how = Sending(seed=chance.randrange(2**32), step=SECOND, back=2 * LATE, broken=0.05, repeated=operator.repeated)
        scene.send(chance.randint(25, 40), how, operator.inputs)
        if part == 4:
            scene.close_windows(operator.inputs)
        app = operator.app(kind, rows=chance.choice([20, 1000]))
        runs.append(scene.run(app, partitions=chance.choice([None, 1, 2, 3, 5, 8]) if part else None)["result"])
    check_sums(scene, runs)
    check_late(scene, operator, runs)
    check_answer(scene, operator, kind)


@pytest.mark.soak
def test_killed_at_any_moment_while_it_is_shared_anew(tmp_path, seed, rounds, told):
    """The whole process. Its Java goes on for a moment, beside the next one."""
    chance = random.Random(seed)
    with Broker() as broker:
        stage = Stage(broker, tmp_path / "data")
        broker.create_topic("clicks", 2, configs={"retention.ms": "-1"})
        for number in told(range(max(2, rounds // 10))):
            stage.send(150, seed=number)
            if not number:
                assert stage.run().code == 0
                continue
            # Another number than they have: who was killed early has changed nothing, and would not share it anew.
            others = sorted({1, 2, 3, 5} - {shared_by(checkpoint) for checkpoint in checkpoints_of(stage)})
            kill_while_sharing(stage, partitions=chance.choice(others), after=chance.random() * 1.5)
            done = stage.run()
            assert done.code == 0, done.log
            assert stage.counts() == stage.expected_counts()
            assert stage.stays() == stage.expected_stays()


def checkpoints_of(stage: Stage) -> list[Checkpoint]:
    return [Checkpoint(checkpoint_in(query)) for query in (stage.data / "queries").iterdir()]


def kill_while_sharing(stage: Stage, *, partitions: int, after: float) -> None:
    command = [sys.executable, "-c", PROGRAM, "run", str(APP), "--bootstrap", stage.broker.bootstrap]
    command += ["--data", str(stage.data), "--master", stage.master, "--partitions", str(partitions)]
    where = {"PYTHONPATH": str(Path(__file__).parents[2]), "SHOP_ROWS": "100"}
    with subprocess.Popen(command, env=os.environ | where, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if f"from now on by {partitions}" in line:
                break
        try:
            running.wait(after)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL
