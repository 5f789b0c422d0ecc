"""A derived stream over the past, into another topic: exactly once, also if it dies on the way."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F  # noqa: N812

import runnel.durable
from runnel import App, Broker, Reading
from runnel.app.loading import load_app
from runnel.app.replay import NotReplayed, Replay
from runnel.app.trouble import QueryFailed
from runnel.durable import VARIABLE
from tests.pipeline.scene import START, Scene, Sending
from tests.pipeline.stage import PROGRAM
from tests.pipeline.test_rebuild import sending
from tests.pipeline.waiting import LIMIT

SCHEMA = "id long, k int, n int, at timestamp"
TO = "stays-again"
IMPORTS = "from pyspark.sql import functions as F\n\nfrom runnel import App, Reading\n"


@pytest.fixture
def scene(spark, tmp_path) -> Iterator[Scene]:
    with Broker() as broker:
        found = Scene(broker, spark, tmp_path / "data")
        found.make("clicks", partitions=2)
        found.send(120, Sending(seed=1, back=0))
        yield found


def shop(times: int = 1) -> App:
    app = App("shop")
    clicks = app.stream("clicks", schema=SCHEMA, time="at", late="1 hour", read=Reading(rows=20))

    @app.stream(clicks, key="k")
    def stays(clicks):
        return clicks.where("n > 20").select("id", "k", (F.col("n") * times).alias("n"))

    @app.view(stays, key="id")
    def seen(stays):
        return stays.select("id")

    return app


def time_of(scene: Scene, number: int) -> str:
    """When the record of this number was sent: one a second, in event time and as the record's own."""
    at = scene.sent[number].at
    assert at is not None
    return datetime.fromtimestamp((START + at) / 1000, UTC).isoformat()


def expected(scene: Scene, since: int, times: int) -> list[tuple[int, int]]:
    sent = [event for event in scene.sent if event.at is not None and event.at >= since and event.n > 20]
    return sorted((event.id, event.n * times) for event in sent)


def found(scene: Scene, topic: str) -> list[tuple[int, int]]:
    return sorted((value["id"], value["n"]) for value in scene.values(topic))


def middle(scene: Scene) -> int:
    return next(number for number in range(60, 120) if scene.sent[number].at is not None)


def replay(scene: Scene, app: App, **how):
    return Replay(app, "stays", scene.running(), **{"start": "earliest", "to": TO, **how}).run()


@pytest.mark.servers
def test_a_changed_body_over_records_from_a_time_on(scene):
    scene.run(shop())
    own, aside = found(scene, "stays"), scene.records("clicks.rejected")
    number = middle(scene)
    done = replay(scene, shop(3), start=time_of(scene, number))
    assert found(scene, TO) == expected(scene, scene.sent[number].at, 3)
    assert done.in_time + done.rejected == 120 - number
    assert found(scene, "stays") == own == expected(scene, 0, 1)
    assert scene.records("clicks.rejected") == aside
    with pytest.raises(NotReplayed, match="to its end"):
        replay(scene, shop(3), start=time_of(scene, number))
    scene.run(shop())


@pytest.mark.servers
def test_killed_for_good_under_load_the_same_call_goes_on_and_nothing_is_there_twice(scene, tmp_path):
    """What comes while it goes on may be in, or not."""
    file = tmp_path / "stays_again.py"
    file.write_text(f"{IMPORTS}\nSCHEMA = {SCHEMA!r}\n\n\n{inspect.getsource(shop)}\n\napp = shop(2)\n")
    command = [sys.executable, "-c", PROGRAM, "replay", "stays", str(file), "--from", "earliest", "--to-topic", TO]
    command += ["--bootstrap", scene.broker.bootstrap, "--data", str(scene.data), "--master", "local[1]"]
    # Batch after batch without a pause would take the processors from the process that is to start.
    with sending(scene, every=0.5):
        environment = os.environ | {VARIABLE: "publish.commit:after:3"}
        died = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr
        least = expected(scene, 0, 2)
        assert 0 < len(found(scene, TO)) < len(least)
        replay(scene, load_app(file))
    again = found(scene, TO)
    assert len(again) == len(set(again))
    assert set(least) <= set(again) <= set(expected(scene, 0, 2))


@pytest.mark.soak
@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_on_the_way_the_same_call_goes_on_and_nothing_is_there_twice(scene, monkeypatch, side):
    reached = 0

    def reach(name: str, at: str) -> None:
        nonlocal reached
        reached += (name, at) == ("publish.commit", side)
        if reached == 3:
            raise RuntimeError("it dies")

    with monkeypatch.context() as patch:
        patch.setattr(runnel.durable, "_reach", reach)
        with pytest.raises(QueryFailed, match="it dies"):
            replay(scene, shop(2))
    assert 0 < len(found(scene, TO)) < len(expected(scene, 0, 2))
    with pytest.raises(NotReplayed, match="of other code"):
        replay(scene, shop(3))
    replay(scene, shop(2))
    assert found(scene, TO) == expected(scene, 0, 2)


@pytest.mark.servers
def test_what_cannot_be_replayed_says_so(scene):
    with pytest.raises(NotReplayed, match="is a view") as raised:
        Replay(shop(), "seen", scene.running(), start="1d", to=TO)
    assert "runnel rebuild seen" in raised.value.hint
    with pytest.raises(NotReplayed, match="derives no stream 'other'"):
        Replay(shop(), "other", scene.running(), start="1d", to=TO)
    for topic in ("clicks", "stays"):
        with pytest.raises(NotReplayed, match="is a topic of the app itself"):
            Replay(shop(), "stays", scene.running(), start="1d", to=topic)
    scene.make("full", partitions=1)
    scene.send(1, Sending(seed=9, partitions=1), ("full",))
    with pytest.raises(NotReplayed, match="full has records already"):
        replay(scene, shop(), to="full")
