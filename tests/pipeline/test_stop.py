"""A stop lets the batch under way take effect, begins no other one, and the next start goes on behind it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runnel import Broker
from runnel.app.runner import Runner
from runnel.durable import watched
from tests.pipeline.scene import Scene, Sending
from tests.pipeline.sums_app import VIEW, sums_app
from tests.pipeline.waiting import LIMIT, wait_until

ROWS = 20


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        found = Scene(broker, spark, tmp_path / "data")
        found.make("clicks", partitions=1)
        found.send(3 * ROWS, Sending(seed=1, partitions=1, back=0, broken=0.0))
        yield found


def sums(events):
    found: dict[int, int] = {}
    for event in events:
        found[event.k] = found.get(event.k, 0) + event.n
    return found


@pytest.mark.servers
def test_the_batch_under_way_takes_effect_and_the_next_start_goes_on_behind_it(scene):
    is_there, may_go_on = threading.Event(), threading.Event()

    def hold(place: str) -> None:
        if place == "view.commit:before":
            is_there.set()
            assert may_go_on.wait(LIMIT)

    runner = Runner(sums_app(rows=ROWS), scene.running())
    with watched(hold), ThreadPoolExecutor(1) as thread:
        done = thread.submit(runner.run)
        try:
            wait_until(lambda: is_there.is_set() or done.done())
            runner.stop()
            wait_until(lambda: done.done() or runner.queries[0]._is_stopping.is_set())
            assert not done.done(), "it did not wait for its batch"
        finally:
            may_go_on.set()
        done.result()
    assert {row["k"]: row["n"] for row in scene.rows(VIEW)} == sums(scene.sent[:ROWS])
    scene.run(sums_app(rows=ROWS))
    assert {row["k"]: row["n"] for row in scene.rows(VIEW)} == sums(scene.sent)
