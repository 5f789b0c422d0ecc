"""An app that runs, as others see it: its positions as groups, its metrics, its alerts, and its screen."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import Alert, App, Broker
from runnel.app.progress import State
from runnel.app.runner import Runner
from runnel.client import Admin, lag
from tests.pipeline.scene import SECOND, Scene, Sending
from tests.pipeline.stage import APP, PARTITIONS, PROGRAM, Stage
from tests.pipeline.waiting import wait_until
from tests.ports import HOST, free_port

pytestmark = pytest.mark.servers

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        yield Scene(broker, spark, tmp_path / "data")


def shop():
    app = App("shop")
    clicks = app.stream("clicks", schema="id long, k int, n int, at timestamp", time="at", late="5 seconds", idle=None)

    @app.view(clicks, key=["window", "k"])
    def per_window(clicks):
        return clicks.groupBy(F.window("at", "10 seconds"), "k").count()

    @app.stream(clicks)
    def large(clicks):
        return clicks.where("n > 50")

    app.alert(Alert.rejected(), of="per_window", topic="alerts")
    return app


@contextmanager
def running(scene, app, **how):
    runner = Runner(app, scene.running(**how))
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(runner.run)
        try:
            wait_until(lambda: done.done() or (runner.queries and all(query.is_active for query in runner.queries)))
            yield runner
        finally:
            runner.stop()
        done.result()


def progress_of(runner, name):
    return next(query for query in runner.progress.queries if query.name == name)


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read().decode()


def free_address():
    return f"{HOST}:{free_port()}"


def described(scene, group):
    """As a person asks for it."""
    command = [sys.executable, "-c", PROGRAM, "groups", "describe", group, "--bootstrap", scene.broker.bootstrap]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)[0]


def test_an_app_that_runs_is_seen_from_everywhere(scene, caplog):
    caplog.set_level(logging.INFO)
    scene.make("clicks", partitions=2)
    scene.send(200, Sending(seed=1, broken=0.0, back=2))
    for _ in range(3):
        scene.send_broken("clicks")
    address = free_address()
    with running(scene, shop(), metrics=address, report_every=1.0) as runner:
        scene.send_one("clicks", 1_000 * SECOND)  # a batch of its own brings the watermark
        scene.send_one("clicks", 1_001 * SECOND, partition=1)
        names = ("per_window", "large")
        wait_until(lambda: all(progress_of(runner, name).rows == 205 for name in names))
        wait_until(lambda: all(progress_of(runner, name).lag == {"clicks": 0} for name in names))

        view = progress_of(runner, "per_window")
        assert (view.state, view.in_time, view.late, view.rejected) == (State.RUNS, 202, 0, 3)
        assert {"plan", "body", "account", "keep"} <= set(view.steps)
        assert sum(view.steps.values()) <= view.seconds
        assert view.state_bytes > 0
        assert view.open_windows > 0
        assert "publish" in progress_of(runner, "large").steps

        scraped = get(address, "/metrics")
        assert 'runnel_query_rows_total{app="shop",kind="rejected",query="per_window"} 3.0' in scraped
        assert 'runnel_query_lag_records{app="shop",input="clicks",query="large"} 0.0' in scraped
        assert (get(address, "/health"), get(address, "/ready")) == ("healthy\n", "ready\n")

        for name in names:
            wait_until(lambda group=f"runnel.shop.{name}": described(scene, group)["lag"] == 0)
        group = described(scene, "runnel.shop.large")
        assert (group["state"], group["members"]) == ("empty", [])
        assert sum(each["committed"] for each in group["partitions"]) == 205

        def logged():
            found = [record.progress for record in caplog.records if hasattr(record, "progress")]
            return {(each["name"], each["state"], each["rejected"]) for each in found}

        wait_until(lambda: ("large", "runs", 3) in logged())

        wait_until(lambda: "alerts" in {topic.name for topic in Admin(scene.broker.bootstrap).topics()})
        wait_until(lambda: scene.values("alerts"))
        (alert,) = scene.values("alerts")
        assert (alert["query"], alert["alert"], alert["state"]) == ("per_window", "rejected", "begins")
    with Admin(scene.broker.bootstrap) as admin:
        assert sum(each.lag for each in lag(admin, "runnel.shop.per_window")) == 0


def test_a_restart_knows_how_far_it_is_before_its_first_batch(scene):
    scene.make("clicks", partitions=1)
    scene.send(20, Sending(seed=2, partitions=1, broken=0.0))
    scene.run(shop())
    with running(scene, shop()) as runner:
        wait_until(lambda: progress_of(runner, "large").lag == {"clicks": 0})
        assert progress_of(runner, "large").batches == 0


def test_on_a_terminal_a_run_shows_one_screen(tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", PARTITIONS)
        stage = Stage(broker, tmp_path / "data")
        stage.send(60, broken=0.1)
        assert stage.broken
        where = ["--bootstrap", broker.bootstrap, "--data", str(tmp_path / "data")]
        how = ["--master", "local[2]", "--until-caught-up"]
        code, said = on_terminal([sys.executable, "-c", PROGRAM, "run", str(APP), *where, *how])
    assert code == 0, said
    assert "clicks_per_minute is running" in said  # the log, above
    _, titles, *rows = said[said.rindex("shop  runs for") :].splitlines()
    apart = re.compile(r"\s{2,}").split
    found = {cells[0]: dict(zip(apart(titles), cells, strict=False)) for cells in map(apart, rows)}
    for name in ("clicks_per_minute", "long_stays"):
        assert (found[name]["state"], found[name]["lag"], found[name]["rejected"]) == ("ended", "0", str(stage.broken))
    assert re.search(r"body \d", said)


def on_terminal(command):
    """The exit code, and what was written to a terminal of 120 columns, line by line, without colours."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm", "PYTHONPATH": str(APP.parents[2]), "SHOP_ROWS": "1000"}
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=child, stderr=child, env=environment)
    said = b""
    while program.poll() is None or select.select([parent], [], [], 0)[0]:  # our end of `child` keeps it open
        if select.select([parent], [], [], 0.2)[0]:
            said += os.read(parent, 65_536)
    os.close(child)
    os.close(parent)
    return program.returncode, re.sub(r"[\r\n]+", "\n", COLOURS.sub("", said.decode(errors="replace")))
