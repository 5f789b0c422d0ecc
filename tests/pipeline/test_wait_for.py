"""A write is waited for through a chain of derived streams: when `wait_for` returns, all that became of it is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import runnel
from runnel import Broker
from runnel.client import Token
from runnel.views.errors import NotSeen
from tests.pipeline import chained_app
from tests.pipeline.chained_app import chained
from tests.pipeline.scene import Scene
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

PROGRAM = "from runnel.cli import main; main()"
LIMIT = 600.0
ROUNDS = 2


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", 2, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


def sent(scene, chance, count):
    """Records, some of which the first or the second stream leaves out; their tokens."""
    events = [
        scene.send_one(
            "clicks", at=1_000, k=chance.randrange(4), n=chance.randrange(100), partition=chance.randrange(2)
        )
        for _ in range(count)
    ]
    return [Token(*event.place) for event in events]


def expected(scene):
    """The counts of `by_k`."""
    return Counter(event.k for event in scene.sent if event.n >= 50 and event.k < 2)


def test_what_became_of_a_record_is_there_when_it_was_waited_for(scene):
    chance = random.Random(11)
    app = chained()
    views = runnel.views(scene.data, bootstrap=scene.broker.bootstrap)

    def check(tokens):
        views["by_k"].wait_for(*tokens, timeout=LIMIT)
        assert {row["k"]: row["count"] for row in views["by_k"]} == expected(scene)
        views["both"].wait_for(*tokens, timeout=LIMIT)
        clicks = Counter(("clicks", event.k) for event in scene.sent)
        last = {("small_k", k): count for k, count in expected(scene).items()}
        assert {(row["source"], row["k"]): row["count"] for row in views["both"]} == clicks | last

    tokens = sent(scene, chance, 5)
    with scene.live(app):
        check(tokens)
        for _ in range(ROUNDS):
            check(sent(scene, chance, chance.randint(1, 3)))
        left_out = scene.send_one("clicks", at=1_000, k=3, n=99)  # by the second stream: nothing comes of it
        check([Token(*left_out.place)])
    tokens = sent(scene, chance, 3)
    with pytest.raises(NotSeen, match=r"large has read clicks-[01] up to"):
        views["by_k"].wait_for(*tokens, timeout=0)
    with scene.live(app):  # goes on where it was
        check(tokens)
    views.close()


@contextmanager
def own_process(scene, log):
    """The app as `runnel run` runs it, which is killed at the end."""
    command = [sys.executable, "-c", PROGRAM, "run", chained_app.__file__, "--bootstrap", scene.broker.bootstrap]
    with log.open("ab") as said:
        process = subprocess.Popen(
            [*command, "--data", str(scene.data), "--master", "local[2]"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Watcher:
    """Follows the view from position to position, with a new watch each time, as one that is itself started again."""

    def __init__(self, views):
        self.rows = {}
        self._views = views
        self._position = None

    def look(self, timeout):
        """Take the next step, if one comes in time; whether it did."""
        for step in self._views["by_k"].watch(self._position, timeout=timeout):
            for change in step:
                k = change.key["k"]
                assert self.rows.get(k) == change.before, f"{change} is told after {self.rows.get(k)}"
                self.rows[k] = change.after
            self._position = step.position
            return True
        return False

    def run(self, ended):
        while not ended.is_set():
            self.look(0.1)
        while self.look(0):
            pass


def seen(views, tokens):
    """The view, when it has seen them."""
    views["by_k"].wait_for(*tokens, timeout=LIMIT)
    return Counter({row["k"]: row["count"] for row in views["by_k"]})


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_who_waits_and_who_watches_misses_nothing_while_the_app_is_killed(tmp_path, kills):
    """By kill -9, in the middle of its work. Who waits asks before it dies, and is answered by its successor."""
    chance, ended = random.Random(5), threading.Event()
    with Broker() as broker, ThreadPoolExecutor(2) as threads:
        broker.create_topic("clicks", 2, configs={"retention.ms": "-1"})
        scene, log = Scene(broker, None, tmp_path / "data"), tmp_path / "log"
        views, others = (runnel.views(scene.data, bootstrap=broker.bootstrap) for _ in range(2))
        tokens = sent(scene, chance, 5)
        with own_process(scene, log) as process:
            wait_until(lambda: process.poll() is not None or "by_k" in views, log.read_text)
            assert seen(views, tokens) == expected(scene)
            watcher = Watcher(others)
            watching = threads.submit(watcher.run, ended)
            waiting, least = threads.submit(seen, views, sent(scene, chance, 30)), expected(scene)
        for _ in range(kills - 1):
            sent(scene, chance, 5)  # while nobody is there
            with own_process(scene, log):
                assert least <= waiting.result() <= expected(scene), log.read_text()
                waiting, least = threads.submit(seen, views, sent(scene, chance, 30)), expected(scene)
        sent(scene, chance, 5)
        with own_process(scene, log):
            assert least <= waiting.result() <= expected(scene), log.read_text()
            assert seen(views, sent(scene, chance, 5)) == expected(scene), log.read_text()
            ended.set()
            watching.result()
        assert {k: row["count"] for k, row in watcher.rows.items()} == expected(scene)
        for each in (views, others):
            each.close()
