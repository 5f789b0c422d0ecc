"""What is late is told by us, before Spark sees it: Spark drops no row in silence, whatever the operator.

Spark drops rows at its watermark, too, and not only those below: each operator by the watermark of the batch before.
"""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager

import pytest
from pyspark import cloudpickle

from runnel import App, Broker, Reading
from runnel.client import Producer
from runnel.pipeline import query
from runnel.pipeline.source import reader
from runnel.pipeline.source.reader import Reader
from tests.pipeline.operators import LATE, OPERATORS, SCHEMA
from tests.pipeline.scene import SECOND, START, Scene, dropped
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

NEWEST = 100 * SECOND
WATERMARK = NEWEST - LATE * SECOND
# Those that compare the event time itself with the watermark; the others, the end of a window.
BY_MOMENT = [
    "moment",
    "inner join",
    "left join",
    "join with itself",
    "duplicates",
    "duplicates within the watermark",
    "left join, then a window",
]
BY_WINDOW = ["tumbling window", "session window"]


def app_of(names):
    """One app with an output for each of them."""
    app = App("lateness")
    streams = {
        topic: app.stream(topic, schema=SCHEMA, time="at", late=f"{LATE} seconds", idle=None, read=Reading())
        for topic in ("clicks", "payments")
    }
    for name in names:
        body = OPERATORS[name].body
        app.stream(*(streams[topic] for topic in OPERATORS[name].inputs))(body)
    return app


def lived_through(scene, names):
    """Three batches: up to NEWEST; then, twice, a row right at the watermark, one below it, and one far below."""
    scene.make("clicks", "payments", partitions=1)
    with scene.live(app_of(names)) as queries:
        for times in ([NEWEST], *[[WATERMARK, WATERMARK - 1, WATERMARK - 50 * SECOND]] * 2):
            for topic in ("clicks", "payments"):
                scene.send_many(topic, times)
            wait_until(lambda: all(counted(each) == sent_to(scene, each) for each in queries.values()))
        return {each.name: (each, dropped(each)) for each in queries.values()}


def counted(query):
    return query.totals.in_time + query.totals.late + query.totals.rejected


def sent_to(scene, query):
    topics = {spec.topic for spec in query.specs}
    return sum(event.topic in topics for event in scene.sent)


@contextmanager
def by_value(*modules):
    """Let what is changed in the modules here be changed in Spark's processes, too."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="module")
def judged(tmp_path_factory, spark):
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path_factory.mktemp("judged"))
        yield scene, lived_through(scene, BY_MOMENT + BY_WINDOW)


@pytest.mark.parametrize("name", BY_MOMENT + BY_WINDOW)
def test_spark_drops_nothing_that_we_let_pass_and_a_row_at_the_watermark_is_in_time(judged, name):
    scene, queries = judged
    query, gone = queries[OPERATORS[name].body.__name__]
    assert set(gone.values()) == {0}
    late = scene.aside(query.late, query.name)
    below = [each for each in scene.sent if each.topic in OPERATORS[name].inputs and each.at < WATERMARK]
    assert sorted(late) == sorted(each.place for each in below)
    assert {headers["runnel.watermark"] for headers in late.values()} == {str(START + WATERMARK)}


def test_without_our_judging_spark_drops_rows_and_those_at_its_watermark_among_them(tmp_path, spark, monkeypatch):
    """Tasks know of no watermark, and Spark gets the lateness that was declared."""
    names = ["moment", "duplicates", "inner join", "tumbling window"]
    moment_of = Reader._moment

    def blind(reader):
        moment = moment_of(reader)
        return None if moment is None else moment._replace(watermark=0)

    monkeypatch.setattr(Reader, "_moment", blind)
    monkeypatch.setattr(query, "HELD_BACK", 0)
    with by_value(reader, sys.modules[__name__]), Broker() as broker:
        queries = lived_through(Scene(broker, spark, tmp_path), names)
    lost = {name: sum(gone.values()) for name, (_, gone) in queries.items()}
    assert lost["tumbling"], "those whose window has ended"
    for name in ("by_moment", "distinct", "inner_join"):
        assert lost[name], name
        assert lost[name] % 3 == 0, "all of a batch, and so the one at the watermark"


def test_the_time_of_a_stream_may_have_a_dot_in_its_name(tmp_path, spark):
    app = App("lateness")
    schema = "`event.at` timestamp, n int"
    clicks = app.stream("clicks", schema=schema, time="event.at", late="1 second", idle=None)
    mended = app.stream(clicks, key="n", time="event.at", late="1 second", idle=None)(with_the_same_rows)
    app.view(mended, key="n", name="seen")(with_the_same_rows)
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path / "data")
        scene.make("clicks", partitions=1)
        for number, second in enumerate((9, 3)):
            with Producer(broker.bootstrap) as producer:
                producer.produce("clicks", b'{"n": %d, "event.at": "2026-01-01T00:00:0%dZ"}' % (number, second))
            scene.run(app)
        assert [row["n"] for row in scene.rows("seen")] == [0]
        assert [row["n"] for row in scene.values("with_the_same_rows.late")] == [1]


def with_the_same_rows(rows):
    return rows


def test_a_record_as_large_as_its_topic_takes_is_put_aside_with_what_is_said_of_it(tmp_path, spark):
    large = random.Random(1).randbytes(1_048_400)  # of 1,048,588 that a batch may have, and nothing to compress
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path / "data")
        scene.make("clicks", partitions=1)
        with Producer(broker.bootstrap, settings={"message.max.bytes": "2000000"}) as producer:
            producer.produce("clicks", large)
        scene.run(app_of(["stateless"]))
        assert [record["value"] for record in scene.records("clicks.rejected")] == [large]
