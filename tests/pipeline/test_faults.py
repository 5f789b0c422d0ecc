"""An app lives through the deaths around it, and what it makes stays exact.

The tests of the first part share one app, which runs all the while: each does something to it and waits until all is
well again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from random import Random

import pytest

from tests.contract.views.postgres_server import postgres_server
from tests.pipeline.life import APP, ROOT, Life, RunningApp, life

WAITS = "waits, and goes on by itself"
GOES_ON = "goes on, after"
QUERIES = 2
RUNNEL = [sys.executable, "-c", "from runnel.cli import main; main()"]


def runnel(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUNNEL, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with life(tmp_path_factory.mktemp("life")) as made:
        made.stage.send(200, broken=0.05)
        made.start_app()
        made.wait_until_exact()
        yield made


@pytest.fixture
def alive(shared) -> Life:
    """It runs, and is well: each test leaves it so, or ends it."""
    if not shared.app.is_running:
        shared.start_app()
        shared.wait_until_exact()
    return shared


def count(alive: Life, text: str) -> int:
    return alive.app.log.count(text)


@pytest.mark.servers
def test_two_copies_cannot_share_a_directory(alive):
    second = runnel("run", APP, "--bootstrap", alive.broker.bootstrap, "--data", alive.data)
    assert second.returncode == 1
    assert f"error: data directory {alive.data} is in use by process {alive.app.pid}" in second.stderr
    assert "hint: stop that process" in second.stderr


@pytest.mark.servers
def test_a_copy_with_another_directory_is_refused_and_leaves_the_first_alone(alive, tmp_path):
    second = runnel("run", APP, "--bootstrap", alive.broker.bootstrap, "--data", tmp_path)
    assert second.returncode == 1
    assert "error: clicks_per_minute cannot go on: its output was made by checkpoint" in second.stderr
    assert "Spark starts" not in second.stderr
    alive.stage.send(60, seed=2, broken=0.05)
    alive.wait_until_exact()
    assert alive.app.is_running


@pytest.mark.servers
def test_a_worker_that_dies_is_replaced(alive):
    before = count(alive, GOES_ON)
    alive.send_signal_at("source.aside:before", signal.SIGKILL)
    alive.stage.send(60, seed=3, broken=0.05)
    alive.app.wait_for_log(GOES_ON, before + 1)
    assert "a Python worker of Spark's died" in alive.app.log
    alive.wait_until_exact()


@pytest.mark.servers
def test_the_process_that_plans_is_replaced(alive):
    before = count(alive, GOES_ON)
    os.kill(alive.app.planners[0], signal.SIGKILL)
    alive.stage.send(60, seed=4, broken=0.05)
    alive.app.wait_for_log(GOES_ON, before + 1)
    alive.wait_until_exact()


@pytest.mark.servers
def test_a_full_disk_is_waited_for(alive):
    before = count(alive, WAITS), count(alive, GOES_ON)
    alive.full.touch()
    alive.stage.send(60, seed=5, broken=0.05)
    alive.app.wait_for_log(WAITS, before[0] + QUERIES)
    assert "full: " in alive.app.log
    alive.full.unlink()
    alive.app.wait_for_log(GOES_ON, before[1] + QUERIES)
    alive.wait_until_exact()


@pytest.mark.servers
def test_a_broker_that_is_away_is_waited_for(alive):
    before = count(alive, WAITS), count(alive, GOES_ON)
    alive.stage.send(60, seed=6, broken=0.05)
    alive.broker.kill()
    alive.app.wait_for_log(WAITS, before[0] + QUERIES)
    assert "no broker answers" in alive.app.log
    alive.broker.start()
    alive.app.wait_for_log(GOES_ON, before[1] + QUERIES)
    assert alive.app.log.count(WAITS) == before[0] + QUERIES  # told once
    alive.stage.send(60, seed=7, broken=0.05)
    alive.wait_until_exact()


@pytest.mark.soak
def test_a_broker_that_is_away_for_a_minute_is_waited_for(alive):
    before = count(alive, WAITS), count(alive, GOES_ON)
    alive.stage.send(60, seed=10, broken=0.05)
    alive.broker.kill()
    time.sleep(60)  # the minute
    alive.broker.start()
    alive.app.wait_for_log(GOES_ON, before[1] + QUERIES)
    alive.wait_until_exact()
    assert count(alive, WAITS) == before[0] + QUERIES  # told once


@pytest.mark.servers
def test_a_driver_that_is_killed_is_made_good_by_the_next(alive):
    alive.stage.send(200, seed=8, broken=0.05)
    alive.app.kill()
    alive.start_app()
    alive.wait_until_exact()


@pytest.mark.servers
def test_it_can_be_stopped_while_it_waits_for_a_broker(alive):
    before = count(alive, WAITS)
    alive.broker.kill()
    alive.app.wait_for_log(WAITS, before + QUERIES)
    assert alive.app.end(signal.SIGINT) == 0
    alive.broker.start()


@pytest.mark.soak
def test_java_that_is_killed_ends_the_app_and_is_told(alive):
    (java,) = alive.app.java
    os.kill(java, signal.SIGKILL)
    assert alive.app.end() == 1
    assert "error: Spark's Java process ended, with code -9" in alive.app.log


@pytest.mark.soak
def test_a_worker_that_dies_again_and_again_ends_the_app(alive):
    """Something in the body may do it."""
    alive.send_signal_at("source.aside:before", signal.SIGKILL, times=20)
    alive.stage.send(60, seed=9, broken=0.05)
    assert alive.app.end() == 1
    assert "3 times in the same batch" in alive.app.log
    for left in alive.dying.iterdir():
        left.unlink()


# --- a driver that is thought dead, and wakes up


def wake_up_beside_a_successor(made: Life, place: str) -> RunningApp:
    """The first one is stopped in the middle of a batch, the next one does all, then the first one goes on. As on
    another machine, the next one has a copy of the directory: whoever is stopped still holds the lock of its own.
    """
    made.stage.send(300, broken=0.05)
    made.send_signal_at(place, signal.SIGSTOP, after=2)
    made.start_app(until_caught_up=True)
    made.app.wait_until_stopped()
    copied = made.data.with_name("copied")
    shutil.copytree(made.data, copied)
    successor = made.run(data=copied, until_caught_up=True, dying=False)
    assert successor.end() == 0, successor.log
    made.stage.data = copied
    made.wait_until_exact()
    made.app.send_signal(signal.SIGCONT)
    return made.app


def assert_fenced(woken: RunningApp) -> None:
    assert woken.end() == 1
    error = [line for line in woken.log.splitlines() if line.startswith("error: ")][-1]
    assert "is fenced" in error or "has taken the view" in error


@pytest.mark.soak  # with every change a driver wakes up so in test_crash_points
def test_a_driver_that_wakes_up_beside_its_successor_stops(tmp_path):
    with postgres_server() as postgres, life(tmp_path, views=postgres.url) as made:
        assert_fenced(wake_up_beside_a_successor(made, "publish.commit:before"))
        made.wait_until_exact()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("outputs", "place"),
    [
        ("stream", "publish.commit:before"),
        ("stream", "publish.commit:after"),
        ("stream", "publish.write:before"),
        ("view", "publish.commit:before"),  # of what was rejected
        ("view", "view.commit:after"),
    ],
)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_driver_that_wakes_up_at_any_step_stops(tmp_path, outputs, place, store):
    with postgres_server() as postgres:
        views = postgres.url if store == "postgres" else f"sqlite:{tmp_path / 'shared.sqlite'}"
        with life(tmp_path, views=views, outputs=outputs) as made:
            assert_fenced(wake_up_beside_a_successor(made, place))
            made.wait_until_exact()


@pytest.mark.soak
def test_a_driver_that_is_stopped_inside_of_its_database_transaction_is_in_nobodys_way(tmp_path):
    with postgres_server() as postgres, life(tmp_path, views=postgres.url, outputs="view") as made:
        assert_fenced(wake_up_beside_a_successor(made, "view.commit:before"))
        made.wait_until_exact()


# --- at random


def kill_one(made: Life, chance: Random) -> None:
    """Any process that belongs to it. Whoever is not started again by the app is started here."""
    victim = chance.choice(["driver", "java", "worker", "planner", "broker"])
    if victim == "driver":
        made.app.kill()
    elif victim == "broker":
        before = count(made, WAITS)
        made.broker.kill()
        if chance.random() < 0.5:
            made.app.wait_for_log(WAITS, before + 1)
        made.broker.start()
    else:
        found = {"java": made.app.java, "worker": made.app.workers, "planner": made.app.planners}[victim]
        for pid in found[:1]:
            os.kill(pid, signal.SIGKILL)
        if victim == "java":
            assert made.app.end() == 1
    if not made.app.is_running:
        made.start_app()


@pytest.mark.soak
def test_whoever_is_killed_at_random_the_output_stays_exact(tmp_path, rounds, seed, told):
    chance = Random(seed)
    with life(tmp_path) as made:
        made.stage.send(100, broken=0.05)
        made.start_app()
        made.wait_until_exact()
        with made.producing(chance):
            for _ in told(range(min(rounds, 20))):  # of half a minute each
                time.sleep(chance.uniform(0, 5))  # at any moment
                kill_one(made, chance)
                made.wait_for_batches()
        made.wait_until_exact()
        assert made.app.end(signal.SIGTERM) == 0


# --- signals


@pytest.mark.servers
@pytest.mark.parametrize(
    ("number", "until_caught_up", "code"), [(signal.SIGTERM, False, 0), (signal.SIGINT, True, 130)]
)
def test_a_signal_ends_the_start(tmp_path, number, until_caught_up, code):
    with life(tmp_path) as made:
        made.start_app(until_caught_up=until_caught_up)
        made.app.wait_for_log("Spark starts")
        assert made.app.end(number) == code, made.app.log
        assert "Traceback" not in made.app.log
