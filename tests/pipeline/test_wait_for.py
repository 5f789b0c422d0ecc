"""A write is waited for through a chain of derived streams: when `wait_for` returns, all that became of it is there."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

import runnel
from runnel import App, Broker
from runnel.client import Token
from runnel.views.errors import NotSeen
from tests.pipeline.scene import Scene

pytestmark = pytest.mark.servers

SCHEMA = "id long, k long, n long, at timestamp"
LIMIT = 600.0
ROUNDS = 2


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", 2, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


def chained():
    """clicks -> large -> small_k -> a view; and a view that reads both the first and the last of them."""
    app = App("shop")
    clicks = app.stream("clicks", schema=SCHEMA)

    @app.stream(clicks, key="k")
    def large(clicks):
        return clicks.where("n >= 50").select("k", "n")

    @app.stream(large, key="k")
    def small_k(large):
        return large.where("k < 2").select("k")

    @app.view(small_k, key="k")
    def by_k(small_k):
        return small_k.groupBy("k").count()

    @app.view(clicks, small_k, key=["source", "k"])
    def both(clicks, small_k):
        first = clicks.select(F.lit("clicks").alias("source"), "k")
        last = small_k.select(F.lit("small_k").alias("source"), "k")
        return first.unionByName(last).groupBy("source", "k").count()

    return app


def sent(scene, chance, count):
    """Records, some of which the first or the second stream leaves out; their tokens."""
    events = [
        scene.send_one(
            "clicks", at=1_000, k=chance.randrange(4), n=chance.randrange(100), partition=chance.randrange(2)
        )
        for _ in range(count)
    ]
    return [Token(*event.place) for event in events]


def test_what_became_of_a_record_is_there_when_it_was_waited_for(scene):
    chance = random.Random(11)
    app = chained()
    views = runnel.views(scene.data, bootstrap=scene.broker.bootstrap)

    def expected():
        return Counter(event.k for event in scene.sent if event.n >= 50 and event.k < 2)

    def check(tokens):
        views["by_k"].wait_for(*tokens, timeout=LIMIT)
        assert {row["k"]: row["count"] for row in views["by_k"]} == expected()
        views["both"].wait_for(*tokens, timeout=LIMIT)
        clicks = Counter(("clicks", event.k) for event in scene.sent)
        last = {("small_k", k): count for k, count in expected().items()}
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
