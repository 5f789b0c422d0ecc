"""Rows on which the body raises: the query stops and names one, or rejects exactly those, each once, and goes on."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading, Writing
from runnel.app.runner import QueryFailed
from runnel.client import Producer
from runnel.pipeline.failing import bad_rows
from tests.pipeline.crash_driver import STREAM, UNLUCKY, VIEW, Life
from tests.pipeline.crash_engine import engine
from tests.pipeline.operators import LATE, OPERATORS, SCHEMA, renamed
from tests.pipeline.scene import SECOND, Scene
from tests.pipeline.stage import PARTITIONS, Stage
from tests.pipeline.test_sums import check_answer, check_sums, late_by_the_rule, lived, put_aside

HERE = str(Path(__file__))
STEPS = ("body.left out",)
WRONG = 33  # an n on which functions raise

# As the functions of an app do, those of this file travel to the workers as they are. A worker would import the file,
# with pytest and a broker, and do so again each time that a function has raised.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def scene(tmp_path, spark):
    with Broker() as broker:
        yield Scene(broker, spark, tmp_path / "data")


def line_of(text):
    """The number of the first line of this file that has it."""
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def steady(n):
    if n > 30 and n % 10 == 3:  # below, a filter of the body may spare it
        raise ValueError(f"no {n}")  # here it raises
    return True


RAISING = f"({HERE}, line {line_of('# here it raises')})"


def app_of(body, kind="stream", *, topics=("clicks",), key="id", rows=1000, on_error="stop"):
    app = App("sums")
    streams = [
        app.stream(topic, schema=SCHEMA, time="at", late=f"{LATE} seconds", read=Reading(rows=rows), idle=None)
        for topic in topics
    ]
    if kind == "view":
        app.view(*streams, key=key, on_error=on_error)(renamed(body))
    else:
        app.stream(*streams, write=Writing(on_error=on_error))(renamed(body))
    return app


def raises(event):
    return event.at is not None and event.n > 30 and event.n % 10 == 3


# --- rejected


@pytest.mark.servers
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tumbling window", "view"),
        ("inner join", "stream"),
        ("stateless", "stream"),
    ],
)
def test_exactly_the_rows_that_raise_are_rejected_and_the_answer_is_that_of_the_rest(scene, seed, name, kind):
    live_through(scene, OPERATORS[name], kind, random.Random(f"{seed} {name} {kind} raises"), parts=2)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in OPERATORS for kind in ("stream", "view")])
def test_exactly_the_rows_that_raise_are_rejected_for_a_long_time(tmp_path, spark, seed, rounds, told, name, kind):
    for number in told(range(max(1, rounds // 20))):
        chance = random.Random(f"{seed} {name} {kind} {number} raises")
        with Broker() as broker:
            scene = Scene(broker, spark, tmp_path / str(number))
            live_through(scene, OPERATORS[name], kind, chance, parts=chance.randint(1, 4))


def live_through(scene, operator, kind, chance, *, parts):
    """As in test_sums; each input passes a function that raises on some of its rows."""

    def body(*frames):
        passes = F.udf(steady, "boolean")
        return operator.body(*(frame.where(passes("n")) for frame in frames))

    def make_app(rows):
        return app_of(body, kind, topics=operator.inputs, key=list(operator.key), rows=rows, on_error="reject")

    runs = lived(scene, operator, chance, parts=parts, make_app=make_app)
    check_sums(scene, runs)
    late, rejected = put_aside(scene, operator)
    assert sum(run.rejected for run in runs) == len(rejected)
    expected = late_by_the_rule(scene, operator, runs, raises)
    assert {place: int(headers["runnel.watermark"]) for place, headers in late.items()} == expected
    raising = {event.place: event for event in scene.sent if raises(event) and event.place not in late}
    assert set(rejected) == {event.place for event in scene.sent if event.at is None} | raising.keys()
    for place, event in raising.items():
        assert rejected[place]["runnel.reason"] == f"ValueError: no {event.n} {RAISING}"
    check_answer(scene, operator, kind)


@pytest.mark.servers
def test_what_spark_itself_cannot_compute_is_rejected_with_the_line_that_asked_for_it(scene):
    scene.make("clicks", partitions=1)
    for n in (1, 0, 4):
        scene.send_one("clicks", SECOND, n=n)

    def body(clicks):
        return clicks.select("k", (F.lit(100) / F.col("n")).alias("share"))  # here it is divided

    told = scene.run(app_of(body, on_error="reject"))["result"]
    assert (told.in_time, told.rejected) == (2, 1)
    (headers,) = scene.aside("clicks.rejected", "result").values()
    assert headers["runnel.offset"] == "1"
    assert headers["runnel.reason"].startswith("[DIVIDE_BY_ZERO] Division by zero.")
    assert headers["runnel.reason"].endswith(f"({HERE}, line {line_of('# here it is divided')})")
    assert sorted(value["share"] for value in scene.values("result")) == [25.0, 100.0]


@pytest.mark.servers
def test_the_rows_that_raise_are_found_by_their_place_whatever_their_columns_are_called(scene):
    scene.make("numbered", partitions=1)
    with Producer(scene.broker.bootstrap) as producer:
        for number in range(20):
            producer.submit("numbered", json.dumps({"_offset": 19 - number}).encode())
    app = App("sums")
    numbered = app.stream("numbered", schema="_offset long")

    @app.stream(numbered, write=Writing(on_error="reject"))
    def kept(numbered):
        return numbered.where(F.udf(steady, "boolean")((F.col("_offset") * 10 + 3).cast("int")))

    scene.run(app)
    assert {json.loads(record["value"])["_offset"] for record in scene.records("kept")} == {0, 1, 2}
    told = {json.loads(record["value"])["_offset"] for record in scene.records("numbered.rejected")}
    assert told == set(range(3, 20))


@pytest.mark.servers
@pytest.mark.parametrize("wrong", [1, 8])
def test_rows_that_raise_when_spark_has_carried_them_elsewhere_are_read_anew_without_them(scene, wrong):
    """What Spark has written for another task it would use again: the batch is begun anew. Also if all raise."""
    scene.make("clicks", partitions=2)
    for number in range(8):
        scene.send_one("clicks", number * SECOND, n=WRONG if number < wrong else 1, partition=number % 2)

    def body(clicks):
        return clicks.repartition(2, "k").where(F.udf(steady, "boolean")("n")).groupBy("k").count()

    told = scene.run(app_of(body, "view", key="k", on_error="reject"))["result"]
    assert (told.in_time, told.late, told.rejected) == (8 - wrong, 0, wrong)
    assert [row["count"] for row in scene.rows("result")] == ([8 - wrong] if wrong < 8 else [])
    assert len(scene.aside("clicks.rejected", "result")) == wrong


@pytest.mark.servers
def test_rows_that_fail_with_the_rows_of_a_table_are_rejected_however_many_they_are(scene):
    scene.make("clicks", "rates", partitions=1)
    with Producer(scene.broker.bootstrap) as producer:
        for k, rate in ((0, 0), (1, 5)):
            producer.submit("rates", json.dumps({"k": k, "rate": rate}).encode(), key=str(k).encode())
    for number in range(12):
        scene.send_one("clicks", SECOND, k=number % 2, n=number)
    app = App("sums")
    clicks = app.stream("clicks", schema=SCHEMA, time="at", late=f"{LATE} seconds", idle=None)
    rates = app.table("rates", key="k", schema="k long, rate long")

    def body(clicks, rates):
        return clicks.join(rates, "k").select("id", (F.col("n") / F.col("rate")).alias("share"))

    app.stream(clicks, rates, write=Writing(on_error="reject"))(renamed(body))
    told = scene.run(app)["result"]
    assert told.rejected == 6
    assert {place[2] for place in scene.aside("clicks.rejected", "result")} == {0, 2, 4, 6, 8, 10}
    assert sorted(value["share"] for value in scene.values("result")) == [0.2, 0.6, 1.0, 1.4, 1.8, 2.2]


# --- stopped


@pytest.mark.parametrize(
    "kind", [pytest.param("view", marks=pytest.mark.servers), pytest.param("stream", marks=pytest.mark.soak)]
)
def test_a_query_stops_and_names_the_row_and_goes_on_when_the_function_is_mended(scene, kind):
    scene.make("clicks", "payments", partitions=2)
    for number in range(40):
        scene.send_one("clicks", number * SECOND, n=1, partition=number % 2)
        scene.send_one("payments", number * SECOND, n=1, partition=number % 2)
    bad = scene.send_one("payments", 40 * SECOND, k=5, n=WRONG, partition=1)
    mended = []

    def body(clicks, payments):
        if not mended:
            payments = payments.where(F.udf(steady, "boolean")("n"))
        return clicks.join(payments, "id", "inner").select(clicks.id)

    for _ in range(2):
        with pytest.raises(QueryFailed) as stopped:
            scene.run(app_of(body, kind, topics=("clicks", "payments")))
        text = f'{{"id": {bad.id}, "k": 5, "n": 33, "at": "2026-01-01T00:00:40.000+00:00"}}'
        where = f"with the record at offset {bad.place[2]} of payments-1: {text}"
        assert stopped.value.what == f"result has stopped: ValueError: no 33 {RAISING}, {where}"
        assert "payments.rejected" in stopped.value.hint
    assert scene.records("payments.rejected") == []
    mended.append(True)
    told = scene.run(app_of(body, kind, topics=("clicks", "payments")))["result"]
    assert (told.in_time, told.rejected) == (81, 0)


@pytest.mark.servers
def test_rows_that_fail_only_together_are_named_together_and_none_is_rejected(scene):
    scene.make("clicks", partitions=1)
    for n in (5, 2**62, 7, 2**62, 1):
        scene.send_one("clicks", SECOND, n=n)
    with pytest.raises(QueryFailed) as stopped:
        scene.run(
            app_of(lambda clicks: clicks.groupBy("k").agg(F.sum("n").alias("n")), "view", key="k", on_error="reject")
        )
    assert "ARITHMETIC_OVERFLOW" in stopped.value.what
    assert "on these together: offset 1 of clicks-0, offset 3 of clicks-0" in stopped.value.what
    assert scene.records("clicks.rejected") == []


@pytest.mark.servers
def test_a_row_that_passes_among_others_of_its_group_is_not_rejected_for_one_that_is_alone_in_its_own(scene):
    """Each of these rows fails by itself; of the batch, only the group of one does. Rows on which the function raises
    before they are aggregated are rejected all the same.
    """
    scene.make("clicks", partitions=1)
    for number, n in enumerate((2, 0, 4, 6, 8, 1, 3)):
        scene.send_one("clicks", SECOND, k=number % 3, n=n)  # 2, 6, 3; 0, 8; 4, 1

    def body(clicks):
        return clicks.groupBy("k").agg((F.sum(F.lit(100) / F.col("n")) / (F.count("n") - 1)).alias("share"))

    with pytest.raises(QueryFailed) as stopped:
        scene.run(app_of(body, "view", key="k", on_error="reject"))
    assert "DIVIDE_BY_ZERO" in stopped.value.what
    assert "no row is to blame by itself" in stopped.value.what
    (left_out,) = (scene.data / "queries/result/left-out").glob("0.json")
    assert [each[3] for each in json.loads(left_out.read_text())] == [1]  # and its group has one row now
    assert scene.rows("result") == []


@pytest.mark.servers
def test_what_fails_only_with_what_was_remembered_stops_the_query(scene):
    app = app_of(lambda clicks: clicks.groupBy("k").agg(F.sum("n").alias("n")), "view", key="k", on_error="reject")
    scene.make("clicks", partitions=1)
    scene.send_one("clicks", SECOND, n=2**62)
    scene.run(app)
    scene.send_one("clicks", SECOND, n=2**62)
    with pytest.raises(QueryFailed, match=r"ARITHMETIC_OVERFLOW.* no row can be named: none fails when it is tried"):
        scene.run(app)
    assert scene.rows("result") == [{"k": 0, "n": 2**62}]
    assert scene.records("clicks.rejected") == []


# --- by chance


def failing_at_first(times, path):
    """A function that raises on some calls, and never again, whichever process calls it."""

    def fails(n):
        for number in range(times):
            try:
                (path / str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            raise OSError("the line is busy")
        return n

    return fails


@pytest.mark.servers
def test_a_row_that_fails_once_is_not_rejected(scene, tmp_path):
    scene.make("clicks", partitions=1)
    for _ in range(5):
        scene.send_one("clicks", SECOND, n=1)
    fails = failing_at_first(1, tmp_path)
    body = lambda clicks: clicks.select("id", F.udf(fails, "long")("n").alias("n"), "k")  # noqa: E731
    told = scene.run(app_of(body, on_error="reject"))["result"]
    assert (told.in_time, told.rejected) == (5, 0)
    assert len(scene.values("result")) == 5


# --- while it is looked for


@pytest.mark.servers
def test_what_was_found_before_a_stop_is_not_looked_for_again(scene, monkeypatch):
    scene.make("clicks", partitions=1)
    for number in range(16):
        scene.send_one("clicks", SECOND, n=WRONG if number in (2, 9) else 1)
    app = app_of(lambda clicks: clicks.where(F.udf(steady, "boolean")("n")).select("id", "k"), on_error="reject")
    tried = []

    class Interrupted(bad_rows.Trial):
        calls_are_rows = False  # all would be found at once

        def fails(self, part, **how):
            tried.append(part)
            if len(tried) == 8:  # it has found the first
                raise RuntimeError("somebody pulled the plug")
            return super().fails(part, **how)

    with monkeypatch.context() as patch:
        patch.setattr(bad_rows, "Trial", Interrupted)
        with pytest.raises(QueryFailed, match="pulled the plug"):
            scene.run(app)
    assert scene.records("clicks.rejected") == []
    assert scene.records("result") == []
    (left_out,) = (scene.data / "queries/result/left-out").glob("0.json")
    assert left_out.read_text().count("ValueError") == 1
    told = scene.run(app)["result"]
    assert (told.in_time, told.rejected) == (14, 2)
    assert {place[2] for place in scene.aside("clicks.rejected", "result")} == {2, 9}


# --- deaths


@pytest.fixture(scope="module")
def mortal(tmp_path_factory):
    with engine(tmp_path_factory.mktemp("spark")) as found:
        yield found


CHAINS = {
    STREAM: ("body.left out:before:1", "body.left out:after:1", "publish.commit:before:1", "publish.commit:after:1"),
    VIEW: ("body.left out:after:2", "publish.commit:after:1", "view.commit:before:1", "view.commit:after:1"),
}


@pytest.mark.servers
@pytest.mark.parametrize("output", CHAINS)
def test_whoever_dies_between_rejecting_and_committing_rejects_the_same(mortal, tmp_path, output):
    with Broker() as broker:
        stage = Stage(broker, tmp_path / "data")
        broker.create_topic("clicks", PARTITIONS, configs={"retention.ms": "-1"})
        stage.send(200)
        life = Life(output, broker.bootstrap, stage.data, raises=True)
        for point in CHAINS[output]:
            mortal.die(life, point)
        mortal.run(life)
        scene = Scene(broker, None, stage.data)
        long = [each for each in stage.good if each["seconds"] > 50]
        wrong = {each["number"] for each in long if each["seconds"] % 10 == UNLUCKY}
        rejected = scene.aside("clicks.rejected", output)
        assert {offset * PARTITIONS + partition for _, partition, offset in rejected} == wrong
        stage.good = [each for each in stage.good if each["number"] not in wrong]
        if output == VIEW:
            assert stage.counts() == stage.expected_counts()
        else:
            found = sorted(value["_offset"] * PARTITIONS + value["_partition"] for value in scene.values(output))
            assert found == [each["number"] for each in stage.good if each["seconds"] > 50]
