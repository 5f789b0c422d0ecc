"""What a derived stream writes: the columns it offers come back as they were, and changes leave as records. One Spark
session for all.
"""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import runnel
from runnel import App, Broker, Writing
from runnel.app.trouble import QueryFailed
from runnel.client import Admin, Producer
from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.sinks.outgoing import check_columns, outgoing
from runnel.pipeline.sinks.written import written_columns
from runnel.pipeline.source.values import arrow_schema, parser
from runnel.start import LATEST
from tests.pipeline.scene import Scene

pytestmark = pytest.mark.servers

SMALL = 20_000  # bytes of a batch that a topic takes
ALL_TYPES = """
    SELECT
        true AS boolean, tinyint(-128) AS tiny, smallint(32767) AS small, int(-2147483648) AS whole,
        9223372036854775807L AS long, float('0.1') AS single, 1e-300D AS double,
        decimal(1.50) AS price, CAST('0.0000000001' AS decimal(38, 10)) AS tiny_price,
        CAST('-9999999999999999999999999999.9999999999' AS decimal(38, 10)) AS large_price,
        'ü"\\\\\\n😀' AS text, '' AS empty, X'00ff7f' AS bytes, X'' AS no_bytes,
        DATE'2024-02-29' AS day, DATE'0001-01-01' AS first_day,
        TIMESTAMP'2026-11-15 20:40:32.123456Z' AS at, TIMESTAMP'0001-01-01 00:00:00Z' AS first_moment,
        TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS local,
        CAST(struct(TIMESTAMP'2026-01-01 00:00:00Z', TIMESTAMP'2026-01-01 00:01:00Z')
             AS struct<start: timestamp, end: timestamp>) AS window,
        array(1, NULL, 3) AS numbers, CAST(array() AS array<string>) AS nothing_yet,
        CAST(array(struct(1, 'x')) AS array<struct<a: int, `b c`: string>>) AS parts,
        map('a', 1.5D, 'b', NULL) AS weights, map('k', array(DATE'2026-01-01')) AS days,
        CAST(struct(struct(X'01')) AS struct<deep: struct<er: binary>>) AS nested,
        CAST(NULL AS struct<a: int>) AS no_struct, 'dot' AS `a.b`, 'tick' AS `a``b`
    UNION ALL SELECT
        NULL, NULL, NULL, NULL, NULL, float('NaN'), double('-Infinity'), NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL,
        DATE'9999-12-31', NULL, TIMESTAMP'9999-12-31 23:59:59.999999Z', NULL, NULL, NULL, NULL, array(NULL), NULL,
        map(), NULL, struct(7), NULL, NULL
    UNION ALL SELECT
        false, 0, 0, 0, -9223372036854775808L, float('3.4028235E38'), double('NaN'), -0.01, -1, 0, 'null', 'NaN', X'41',
        NULL, DATE'1582-10-04', DATE'1970-01-01', TIMESTAMP'1900-01-01 00:00:00.1Z', TIMESTAMP'1582-10-10 00:00:00Z',
        TIMESTAMP_NTZ'0001-01-01 00:00:00', NULL, array(), array(), NULL, map('', -0.0D), NULL, NULL, NULL, '', ''
"""

REFUSED = [
    ("INTERVAL '1' DAY AS waited", "column waited is of type interval day", '.cast("long")'),
    ("INTERVAL '1' YEAR AS waited", "column waited is of type interval year", '.cast("long")'),
    ("make_interval(1) AS waited", "column waited is of type interval", '.cast("long")'),
    ("NULL AS nothing", "column nothing is of type void", 'F.lit(None).cast("string")'),
    ("array(NULL) AS nothing", "column nothing[] is of type void", 'F.lit(None).cast("string")'),
    ("map(1, 'a') AS names", "column names is of type map<int,string>", '.cast("map<string,string>")'),
    ("struct(map(1.5, 2) AS m) AS s", "column s.m is of type map<decimal(2,1),int>", '.cast("map<string,int>")'),
    ("parse_json('1') AS any", "column any is of type variant", '.cast("string")'),
    ("TIME'12:00:00' AS noon", "column noon is of type time", '.cast("string")'),
]


def derived(body=None, **declared):
    """A derived stream of an app that nobody runs."""
    app = App("shop")
    clicks = app.stream("clicks", schema="id int")

    @app.stream(clicks, **declared)
    def out(clicks):
        return clicks

    return out


def read_back(columns, values):
    parsed = parser(columns.format, arrow_schema(columns.fields)).parse(values)
    assert not parsed.rejected, parsed.rejected
    return parsed.rows


@pytest.mark.parametrize("copies", [1, 20])
def test_what_is_written_comes_back_as_it_was(spark, copies):
    """Alone, value by value, and in a block."""
    union = spark.sql(ALL_TYPES)
    frame = spark.createDataFrame(union.toArrow(), union.schema)
    stream = derived()
    check_columns(frame, stream)
    columns = written_columns(frame.schema, stream)
    values = outgoing(frame, stream).toArrow()["value"].combine_chunks()
    rows = read_back(columns, pa.concat_arrays([values] * copies))
    assert columns.names == frame.columns
    expected = frame.toArrow()
    for name in columns.names:
        found = rows.column(name).cast(expected[name].type)
        assert [repr(each) for each in found.to_pylist()] == [
            repr(each) for each in expected[name].to_pylist()
        ] * copies
    declared = ", ".join(field.ddl for field in columns.fields)
    assert spark.createDataFrame([], declared).schema == frame.schema.toNullable()


def test_what_is_written_does_not_depend_on_the_zone_of_the_session(spark):
    frame = spark.sql("SELECT TIMESTAMP'1800-01-01 00:00:00Z' AS at")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        written = outgoing(frame, derived()).toArrow()["value"].to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert written == [b'{"at":"1800-01-01T00:00:00.000000Z"}']


@pytest.mark.parametrize(("column", "what", "remedy"), REFUSED)
def test_a_type_that_does_not_come_back_is_refused_with_what_to_cast_it_to(spark, column, what, remedy):
    frame = spark.sql(f"SELECT 1 AS id, {column}")
    with pytest.raises(InvalidBody) as caught:
        check_columns(frame, derived())
    assert what in caught.value.what
    assert remedy in caught.value.hint


def test_what_is_not_written_is_not_offered(spark):
    frame = spark.sql("SELECT 1 AS id, 'a' AS page, 'x' AS trace, 'insert' AS _change")
    headers = derived(key="id", write=Writing(headers=("trace",)))
    assert written_columns(frame.schema, headers).names == ["id", "page"]
    chosen = derived(key="id", write=Writing(headers=("trace",), columns=("page",)))
    assert written_columns(frame.schema, chosen).names == ["page"]
    assert json.loads(outgoing(frame, chosen).toArrow()["value"][0].as_py()) == {"page": "a"}


@pytest.mark.parametrize(
    ("columns", "declared", "what"),
    [
        ("1 AS id, 2 AS ID", {}, "the body returns 2 columns called id"),
        ("struct(1 AS a, 2 AS A) AS s", {}, "s has 2 columns called a"),
        ("1 AS ``", {}, "a column without a name"),
        ("1 AS id, true AS _Runnel_beat", {}, "the body returns a column _Runnel_beat"),
        ("1 AS id", {"write": Writing(headers=("id",))}, "no column is left for the value"),
        ("1 AS id", {"write": Writing(columns=("page",))}, "write.columns names page, which the body does not return"),
        ("1 AS id, 'insert' AS _change", {}, "the body returns _change, and the stream has no key"),
        (
            "1 AS id, 'insert' AS _change",
            {"key": "id", "write": Writing(columns=("_change",))},
            "write.columns names _change, which is not written",
        ),
        ("1 AS id", {"time": "at", "late": "1 second"}, "time names at, which is not written"),
        ("DATE'2026-01-01' AS at", {"time": "at", "late": "1 second"}, "time names at, which is of type date"),
    ],
)
def test_what_cannot_be_written_is_told_when_the_query_is_built(spark, columns, declared, what):
    with pytest.raises(InvalidBody) as caught:
        check_columns(spark.sql(f"SELECT {columns}"), derived(**declared))
    assert what in caught.value.what


# --- in a run


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        broker.create_topic("edits", 1, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


def send(scene, *edits):
    with Producer(scene.broker.bootstrap) as producer:
        for id, text, change in edits:
            producer.submit("edits", json.dumps({"id": id, "text": text, "change": change}).encode())


def texts_app():
    app = App("shop")
    edits = app.stream("edits", schema="id string, text string, change string")

    @app.stream(edits, key="id")
    def texts(edits):
        return edits.withColumnRenamed("change", "_change")

    return app, edits


def edits_app():
    app, edits = texts_app()

    @app.view(edits, key="id")
    def latest(edits):
        return edits.withColumnRenamed("change", "_change")

    return app


def texts(scene):
    """The texts of each key, in their order; None is a record without a value."""
    found: dict[str, list[str | None]] = {}
    for record in scene.records("texts"):
        value = json.loads(record["value"]) if record["value"] is not None else None
        assert value is None or value.keys() == {"id", "text"}
        found.setdefault(record["key"].decode(), []).append(value and value["text"])
    return found


def latest(scene):
    return {row["id"]: row["text"] for row in scene.rows("latest")}


WAYS = pytest.mark.parametrize("parallel_from", [1, 1_000_000], ids=["by tasks", "by the driver"])


@WAYS
def test_changes_leave_as_records_and_a_view_follows_them(scene, parallel_from):
    send(
        scene,
        ("a", "1", "insert"), ("b", "1", "insert"), ("c", "1", "insert"), ("d", "1", "insert"),
        ("a", "1", "update_before"), ("a", "2", "update_after"),
        ("b", "1", "delete"),
        ("d", "2", "update_after"), ("d", "1", "update_before"),
    )  # fmt: skip
    scene.run(edits_app(), parallel_from=parallel_from)
    assert texts(scene) == {"a": ["1", "2"], "b": ["1", None], "c": ["1"], "d": ["2"]}
    assert latest(scene) == {"a": "2", "c": "1", "d": "2"}
    send(scene, ("a", "2", "update_before"), ("c", "1", "update_before"), ("c", "3", "update_after"))
    scene.run(edits_app(), parallel_from=parallel_from)
    assert texts(scene) == {"a": ["1", "2", None], "b": ["1", None], "c": ["1", "3"], "d": ["2"]}
    assert latest(scene) == {"c": "3", "d": "2"}


@WAYS
def test_a_change_that_is_none_stops_the_stream_and_nothing_is_written(scene, parallel_from):
    send(scene, ("a", "1", "insert"), ("a", "1", "upsert"))
    with pytest.raises(QueryFailed) as caught:
        scene.run(texts_app()[0], parallel_from=parallel_from)
    assert "texts: _change is 'upsert', which is no change" in caught.value.what
    assert texts(scene) == {}


@WAYS
def test_batches_are_as_small_as_the_topics_take_them(scene, parallel_from):
    """Those of changes, those of plain rows, and those of what is put aside."""
    app, edits = texts_app()

    @app.stream(edits, write=Writing(partitions=1))
    def plain(edits):
        return edits.select("id", "text")

    for topic in ("texts", "plain", "edits.rejected"):
        scene.broker.create_topic(topic, 1, configs={"max.message.bytes": SMALL})
    chance = random.Random(1)
    long = {str(number): chance.randbytes(300).hex() for number in range(200)}
    broken = [chance.randbytes(300) for _ in range(200)]
    send(scene, *((id, text, "insert") for id, text in long.items()))
    with Producer(scene.broker.bootstrap) as producer:
        for value in broken:
            producer.submit("edits", value)
    scene.run(app, parallel_from=parallel_from)
    assert texts(scene) == {id: [text] for id, text in long.items()}
    assert {row["id"]: row["text"] for row in scene.values("plain")} == long
    for query in ("texts", "plain"):
        assert len(scene.aside("edits.rejected", query)) == len(broken)
    assert {record["value"] for record in scene.records("edits.rejected")} == {*broken}


def test_a_record_that_its_topic_does_not_take_stops_the_stream_and_leaves_no_transaction_open(scene):
    scene.broker.create_topic("texts", 1, configs={"max.message.bytes": SMALL})
    send(scene, ("a", "1", "insert"), ("b", random.Random(1).randbytes(SMALL).hex(), "insert"))
    with pytest.raises(QueryFailed, match=r'a record for topic "texts" is too large') as caught:
        scene.run(texts_app()[0])
    assert "max.message.bytes" in caught.value.hint
    with Admin(scene.broker.bootstrap) as admin:
        assert admin.stable_offsets([("texts", 0)]) == admin.offsets([("texts", 0)], LATEST)
        admin.alter("texts", configs={"max.message.bytes": str(100 * SMALL)})
    scene.run(texts_app()[0])
    assert texts(scene).keys() == {"a", "b"}


def test_a_query_that_died_while_spark_wrote_its_first_entry_begins_again(scene):
    checkpoint = scene.data / "queries" / "texts" / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "4b1a4f3c-0a8f-4f7e-9d57-3f6c3d3f8c11"}))
    (checkpoint / "offsets" / ".0.18971ef0-1cfd-4f9f-8c6a-fea5a2a8b017.tmp").write_text("v1")
    send(scene, ("a", "1", "insert"))
    scene.run(texts_app()[0])
    assert texts(scene) == {"a": ["1"]}


@WAYS
def test_a_column_of_the_body_is_the_time_of_its_record(scene, parallel_from):
    """Also one of long ago, or before 1970; a row without one has the time of writing."""
    app = App("shop")
    visits = app.stream("edits", schema="id string, at timestamp")

    @app.stream(visits, time="_timestamp", late="0 seconds", write=Writing(timestamp="at", columns=("id",)))
    def timed(visits):
        return visits

    @app.view(timed.with_metadata(), key="id")
    def times(timed):
        return timed.select("id", "_timestamp")

    at = {"a": "2026-01-01T00:00:00.123Z", "b": "2001-02-03T04:05:06Z", "c": "1969-12-31T23:59:59.999Z"}
    before = datetime.now(UTC).replace(microsecond=0)
    with Producer(scene.broker.bootstrap) as producer:
        for id, moment in {**at, "now": None}.items():
            producer.submit("edits", json.dumps({"id": id, "at": moment}).encode(), timestamp=1_000)
    scene.run(app, parallel_from=parallel_from)
    found = {json.loads(each["value"])["id"]: each["timestamp"] for each in scene.records("timed")}
    assert before.timestamp() * 1_000 <= found.pop("now") <= time.time() * 1_000
    assert found == {id: int(datetime.fromisoformat(each).timestamp() * 1_000) for id, each in at.items()}


@WAYS
def test_several_columns_are_the_key_of_records_tables_and_views(scene, parallel_from):
    """Rows that differ in one of them are different ones, and one that is taken back is gone everywhere."""
    app = App("shop")
    edits = app.stream("edits", schema="id string, text string, change string")

    @app.stream(edits, key=["id", "part"])
    def parts(edits):
        part, text = (F.split("text", ":")[place] for place in (0, 1))
        return edits.select("id", part.cast("int").alias("part"), text.alias("text"), F.col("change").alias("_change"))

    by_part = app.table("parts", key=["id", "part"], schema="id string, part int, text string")

    @app.view(by_part.changes(), key=["part", "id"])
    def latest(parts):
        return parts

    @app.view(edits, by_part, key=["id", "part"])
    def joined(edits, parts):
        return edits.where("change = 'insert'").select("id").join(parts, "id")

    send(scene, ("a", "1:x", "insert"), ("a", "2:y", "insert"), ("b", "1:z", "insert"))
    scene.run(app, parallel_from=parallel_from)
    assert {record["key"] for record in scene.records("parts")} == {
        b'{"id":"a","part":1}', b'{"id":"a","part":2}', b'{"id":"b","part":1}'
    }  # fmt: skip
    rows = {(row["id"], row["part"]): row["text"] for row in scene.rows("latest")}
    assert rows == {("a", 1): "x", ("a", 2): "y", ("b", 1): "z"}
    assert {(row["id"], row["part"]): row["text"] for row in scene.rows("joined")} == rows
    send(scene, ("a", "1:x", "delete"), ("a", "2:y", "update_before"), ("a", "2:w", "update_after"))
    scene.run(app, parallel_from=parallel_from)
    rows = {(row["id"], row["part"]): row["text"] for row in scene.rows("latest")}
    assert rows == {("a", 2): "w", ("b", 1): "z"}
    assert runnel.views(str(scene.data))["latest"].get(part=2, id="a")["text"] == "w"


def visits_app():
    app = App("shop")
    visits = app.stream("edits", schema="id string, at timestamp, price decimal(6,2)", time="at", late="0 seconds")

    @app.stream(visits, key="id", time="at", late="0 seconds", write=Writing(headers=("trace",), partitions=1))
    def priced(visits):
        window = F.window("at", "1 minute")
        price = (F.col("price") * 2).alias("price")
        return visits.select("id", "at", price, window.alias("window"), F.lit("x").alias("trace"))

    @app.view(priced, key="id")
    def totals(priced):
        assert priced.columns == ["id", "at", "price", "window"]
        return priced.groupBy("id").agg(F.sum("price").alias("total"), F.max("window.end").alias("until"))

    return app


def test_a_derived_stream_is_the_input_of_another_query(scene):
    """In one run, which ends: who reads comes after who writes."""
    with Producer(scene.broker.bootstrap) as producer:
        for number in range(4):
            at = f"2026-01-01T00:0{number}:30Z"
            producer.submit("edits", json.dumps({"id": "ab"[number % 2], "at": at, "price": f"1.0{number}"}).encode())
    scene.run(visits_app())
    found = {row["id"]: (str(row["total"]), row["until"].isoformat()) for row in scene.rows("totals")}
    assert found == {"a": ("4.04", "2026-01-01T00:03:00+00:00"), "b": ("4.08", "2026-01-01T00:04:00+00:00")}
    assert {record["headers"][0]["value"] for record in scene.records("priced")} == {b"x"}


def test_a_table_over_a_derived_stream_follows_its_changes(scene):
    """By its records: what one query takes back, the other removes."""

    def texts_again_app():
        app, _ = texts_app()
        texts = app.table("texts", key="id", schema="id string, text string")

        @app.view(texts.changes(), key="text")
        def holders(texts):
            return texts.where("text <> 'no'")

        return app

    send(scene, ("a", "x", "insert"), ("b", "y", "insert"), ("c", "no", "insert"), ("d", "z", "insert"))
    scene.run(texts_again_app())
    assert {row["text"]: row["id"] for row in scene.rows("holders")} == {"x": "a", "y": "b", "z": "d"}
    send(scene, ("a", "x", "delete"), ("b", "y", "update_before"), ("b", "no", "update_after"))
    send(scene, ("c", "no", "update_before"), ("c", "x", "update_after"), ("d", "z", "update_before"))
    scene.run(texts_again_app())
    assert {row["text"]: row["id"] for row in scene.rows("holders")} == {"x": "c"}


def copied_app(*, with_metadata=False):
    app = App("shop")
    edits = app.stream("edits", schema="id int")

    @app.stream(edits.with_metadata())
    def copied(edits):
        return edits.withColumn("_key", F.concat(F.lit("k"), "id")).drop("_headers")

    @app.view(copied.with_metadata() if with_metadata else copied, key="id")
    def known(copied):
        return copied

    return app


def test_metadata_that_was_written_is_that_of_the_record_it_was_written_of(scene):
    with Producer(scene.broker.bootstrap) as producer:
        for number in range(3):
            producer.submit("edits", json.dumps({"id": number}).encode(), timestamp=1_767_225_600_000 + number)
    scene.run(copied_app())
    found = [(row["id"], row["_topic"], row["_offset"], row["_key"]) for row in scene.rows("known")]
    assert found == [(number, "edits", number, f"k{number}") for number in range(3)]
    assert {row["_timestamp"].isoformat(timespec="seconds") for row in scene.rows("known")} == {
        "2026-01-01T00:00:00+00:00"
    }


def test_metadata_is_not_told_for_two_records_by_one_name(scene):
    with pytest.raises(InvalidBody, match=r"copied. has a column _topic of its own") as caught:
        scene.run(copied_app(with_metadata=True))
    assert "leave with_metadata() out" in caught.value.hint
