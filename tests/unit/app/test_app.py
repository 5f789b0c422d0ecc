"""Declaring: what is taken, what is refused with which words, and that nothing is started."""

import subprocess
import sys

import pytest
from pyspark.sql import types as t

from runnel import App, Avro, Raw, Reading, Text, Writing
from runnel.graph import Cycle, EventTime, InvalidDeclaration, NameTaken
from runnel.graph.types import Field, Simple

CLICKS = "page string, customer_id long, at timestamp"


@pytest.fixture
def app():
    return App("shop")


@pytest.fixture
def clicks(app):
    return app.stream("clicks", schema=CLICKS, time="at", late="30 seconds")


def test_a_stream_has_columns_a_time_and_a_way_of_reading(app):
    clicks = app.stream(
        "clicks", schema=CLICKS, time="at", late="30 seconds", idle=None, ahead="5 minutes", read=Reading(start="2h")
    )
    assert clicks.topic == "clicks"
    assert clicks.columns.names == ["page", "customer_id", "at"]
    assert clicks.time == EventTime("at", late=30_000, idle=None, ahead=300_000)
    assert clicks.reading.start == "2h"


def test_a_silent_stream_goes_on_after_a_minute_and_clocks_may_be_an_hour_ahead(clicks):
    assert clicks.time == EventTime("at", late=30_000, idle=60_000, ahead=3_600_000)


def test_the_record_s_own_time_can_be_the_event_time(app):
    assert app.stream("lines", schema=Text(), time="_timestamp", late="1 second").time.column == "_timestamp"


def test_text_and_raw_have_one_column(app):
    assert app.stream("lines", schema=Text()).columns.fields == (Field("value", Simple("string"), nullable=False),)
    assert app.stream("blobs", schema=Raw()).columns.fields == (Field("value", Simple("binary"), nullable=False),)


def test_avro_has_the_columns_of_its_record(app):
    schema = Avro('{"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}')
    assert app.stream("clicks", schema=schema).columns.names == ["page"]


def test_a_schema_of_pyspark_is_taken_before_spark_has_started(app):
    place = t.StructType([t.StructField("x`y", t.IntegerType(), nullable=False)])
    schema = (
        t.StructType()
        .add("page", t.StringType(), nullable=False)
        .add("the price", t.DecimalType(10, 2))
        .add("n", t.LongType())
        .add("small", t.ArrayType(t.ShortType()))
        .add("places", t.MapType(t.StringType(), place))
        .add("at", t.TimestampType())
        .add("local", t.TimestampNTZType())
        .add("code", t.CharType(3))
    )
    expected = (
        "page string not null, `the price` decimal(10,2), n long, small array<smallint>, "
        "places map<string, struct<`x``y`: int not null>>, at timestamp, local timestamp_ntz, code string"
    )
    clicks = app.stream("clicks", schema=schema, time="at", late="1 second")
    assert clicks.columns.fields == app.stream("the-same", schema=expected).columns.fields


def test_a_type_of_pyspark_that_is_no_schema_here(app):
    variant = t.StructType([t.StructField("v", t.VariantType())])
    assert "variant is no type of a column here" in refused(lambda: app.stream("clicks", schema=variant))
    assert 'stream "clicks": schema' in refused(lambda: app.stream("clicks", schema=t.StringType()))


def test_a_body_stays_callable(app, clicks):
    @app.view(clicks, key="page")
    def pages(frame):
        """Pages."""
        return [frame]

    assert pages("frame") == ["frame"]
    assert (pages.name, pages.key, pages.__doc__, pages.__name__) == ("pages", ("page",), "Pages.", "pages")


def test_a_derived_stream_has_the_name_of_its_function(app, clicks):
    @app.stream(clicks, key="page", time="at", late="1 second", write=Writing(headers=("page",)))
    def short(frame):
        return frame

    assert (short.topic, short.key, short.time.late, short("x")) == ("short", ("page",), 1000, "x")
    assert app.graph.outputs == (short,)


def test_outputs_are_inputs_of_others(app, clicks):
    @app.stream(clicks)
    def short(frame):
        return frame

    @app.view(short, key="page")
    def pages(frame):
        return frame

    assert list(app.graph.sources(pages)) == [short]


def test_who_reads_comes_in_a_later_generation_than_all_that_feed_it(app, clicks):
    def declared(kind, name, *inputs, **more):
        def body(*frames):
            return frames

        body.__name__ = name
        return kind(*inputs, **more)(body)

    short = declared(app.stream, "short", clicks)
    pages = declared(app.view, "pages", clicks, key="page")
    both = declared(app.view, "both", short, pages, key="page")
    last = declared(app.stream, "last", both.changes(), short, clicks)
    again = app.stream("last", schema="page string")
    end = declared(app.view, "end", again, key="page")
    assert app.graph.generations() == [[short, pages], [both], [last], [end]]


def test_changes_and_metadata_are_asked_for(app):
    customers = app.table("customers", key="id", schema="id long, name string")
    assert customers.changes().changes
    assert customers.changes().with_metadata().metadata
    assert not customers.with_metadata().changes


def test_declaring_imports_neither_pyspark_nor_pyarrow_and_opens_nothing():
    program = f"""
import sys
from runnel import App
app = App("shop")
clicks = app.stream("clicks", schema="{CLICKS}", time="at", late="30 seconds")
@app.view(clicks, key=["page"])
def pages(clicks): return clicks
print(sorted({{"pyspark", "pyarrow", "pandas", "confluent_kafka", "py4j"}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# --- refused


def refused(declare, kind=InvalidDeclaration):
    with pytest.raises(kind) as error:
        declare()
    return str(error.value)


def test_a_table_is_read_whole(app):
    declared = {"key": "id", "schema": "id long"}
    assert refused(lambda: app.table("customers", **declared, read=Reading(start="latest"))) == (
        "table \"customers\": read.start is 'latest', and a table is read whole "
        "(leave it out: the latest row of a key may be its first one)"
    )
    assert refused(lambda: app.table("customers", **declared, read=Reading(topics="customers-.*"))) == (
        'table "customers": read.topics is given, and a table is one topic (declare a table for each topic)'
    )


@pytest.mark.parametrize("column", ["_change", "_Change"])
def test_a_table_has_no_column_that_says_what_became_of_a_row(app, column):
    assert refused(lambda: app.table("customers", key="id", schema=f"id long, {column} string")) == (
        f'table "customers": schema has a column {column} '
        "(call it something else: _change says what became of a row, where a body asks for changes)"
    )


@pytest.mark.parametrize("column", ["_offset", "_Key"])
def test_a_column_that_is_called_as_metadata_is_read_unless_the_metadata_are(app, column):
    clicks = app.stream("clicks", schema=f"page string, {column} string")
    names = app.table("names", key="page", schema=f"page string, {column} string")
    app.view(clicks, names, key="page", name="plain")(lambda clicks, names: clicks)
    says = f"with metadata, and its schema has a column {column} as well (leave with_metadata() out, or that column)"
    assert refused(lambda: app.view(clicks.with_metadata(), key="page", name="own")(lambda clicks: clicks)) == (
        f'view "own": input 1 is stream "clicks" {says}'
    )
    assert refused(lambda: app.stream(clicks, names.with_metadata())(lambda clicks, names: clicks)).endswith(
        f'input 2 is table "names" {says}'
    )


def test_a_schema_has_no_columns_of_our_own(app):
    assert refused(lambda: app.stream("clicks", schema="_runnel_beat boolean")) == (
        'stream "clicks": schema has a column _runnel_beat (leave it out: names that begin with _runnel_ are taken)'
    )


def test_a_body_of_tables_only(app):
    customers = app.table("customers", key="id", schema="id long")
    app.view(customers.changes(), key="id", name="copy")(lambda frame: frame)
    said = "inputs are none that rows come from (read a stream as well, or the changes: customers.changes())"
    assert refused(lambda: app.view(customers, key="id", name="same")(lambda frame: frame)) == f'view "same": {said}'
    assert refused(lambda: app.stream(customers, customers.with_metadata())(lambda a, b: a)) == (
        f'stream "<lambda>": {said}'
    )


def test_a_schema_that_does_not_parse(app):
    assert refused(lambda: app.stream("clicks", schema="page strin")) == (
        "stream \"clicks\": schema 'page strin': strin is no type of a column here (character 6) "
        '(write a name and a type for each column, such as "page string, amount decimal(10,2), at timestamp")'
    )


def test_a_schema_of_another_kind(app):
    assert refused(lambda: app.stream("clicks", schema=3)) == (
        'stream "clicks": schema is a int (give columns such as "page string, at timestamp", '
        "or Json, Avro, Debezium, Text or Raw of runnel)"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"time": "att", "late": "1 second"},
            "time 'att' is no column of the schema (the columns are page, customer_id, at; ",
        ),
        (
            {"time": "page", "late": "1 second"},
            "time 'page' is of type string (declare it as a timestamp: page timestamp)",
        ),
        ({"time": "at"}, 'late is missing (say how long to wait for stragglers, such as late="30 seconds")'),
        ({"late": "1 second"}, 'late is given without time (say which column is the event time, such as time="at")'),
        ({"time": "at", "late": "soon"}, "late 'soon' is no duration"),
        ({"read": Reading(start="noon")}, "read.start 'noon' is no place to start from"),
        ({"read": Reading(start={0: -1})}, "read.start is {0: -1} (give partitions and their offsets"),
        ({"read": Reading(rows=0)}, "read.rows is 0 (give a whole number above 0)"),
        ({"read": Reading(start={0: True})}, "read.start is {0: True} (give partitions and their offsets"),
        ({"read": Reading(strict="no")}, "read.strict is 'no' (give True or False)"),
        ({"read": Reading(topics="(")}, "read.topics '(' is no regular expression"),
        ({"read": Reading(topics="")}, "read.topics is empty, which no topic fits"),
        ({"read": "latest"}, 'read is a str (pass a Reading of runnel, such as read=Reading(start="latest"))'),
        (
            {"time": "at", "late": "1 second", "ahead": "999999999 days"},
            "ahead '999999999 days' is too long a time (give one of ten thousand years at most)",
        ),
        ({"key": "page"}, "key is for a derived stream (leave it out)"),
    ],
)
def test_what_is_wrong_with_a_stream_is_named_with_its_argument(app, arguments, says):
    declared = {"schema": CLICKS, **arguments}
    assert refused(lambda: app.stream("clicks", **declared)).startswith(f'stream "clicks": {says}')


@pytest.mark.parametrize(
    ("write", "says"),
    [
        ({"headers": ["trace"]}, "write is a dict (pass a Writing of runnel, such as write=Writing(partitions=8))"),
        (Writing(headers="trace"), "write.headers is 'trace' (name columns, such as headers=(\"page\",))"),
        (Writing(headers=None), "write.headers is None (name columns"),
        (Writing(headers=("trace", "trace")), "write.headers ('trace', 'trace') names a column twice"),
        (Writing(columns="page"), "write.columns is 'page' (name columns, such as columns=(\"page\",))"),
        (Writing(timestamp=5), "write.timestamp is 5 (name a timestamp column that the body returns"),
        (Writing(partitions=0), "write.partitions is 0 (give a number above 0)"),
        (Writing(partitions=True), "write.partitions is True (give a number above 0)"),
    ],
)
def test_what_is_wrong_with_how_records_leave_is_named_with_its_argument(app, clicks, write, says):
    def short(frame):
        return frame

    assert refused(lambda: app.stream(clicks, write=write)(short)).startswith(f'stream "short": {says}')
    assert app.graph.outputs == ()


def test_a_table_is_read_as_a_reading_says(app):
    assert refused(lambda: app.table("customers", key="id", schema="id long", read={"rows": 5})).startswith(
        'table "customers": read is a dict (pass a Reading of runnel'
    )


def test_names_that_no_topic_can_have(app):
    hint = "(use up to 240 of the characters a-z A-Z 0-9 . _ -)"
    assert refused(lambda: App("my shop")) == f"app: name 'my shop' cannot be a topic's name {hint}"
    assert refused(lambda: app.stream("a/b", schema=CLICKS)).startswith('stream "a/b": topic ')


def test_names_that_are_too_long_together_for_the_topic_of_the_markers():
    app = App("a" * 192)
    clicks = app.stream("clicks", schema=CLICKS)
    app.view(clicks, key="page", name="v" * 34)(lambda frame: frame)

    def orders_of_each_page_and_customer(frame):
        return frame

    app.stream(clicks)(orders_of_each_page_and_customer)
    says = "name has 227 characters together with that of the app, and 226 is the most"
    hint = "(give the app or the output a shorter one)"
    assert refused(lambda: app.view(clicks, key="page", name="w" * 35)(lambda frame: frame)) == (
        f'view "{"w" * 35}": {says} {hint}'
    )
    orders_of_each_page_and_customer.__name__ += "_day"
    assert refused(lambda: app.stream(clicks)(orders_of_each_page_and_customer)).endswith(
        f": {says.replace('227', '228')} {hint}"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("v" * 64, "name has 64 characters, and 63 is the most (choose a shorter one: it is the name of a table)"),
        ("Runnel_views", "name begins with runnel_ or sqlite_, which is taken (choose another name)"),
        ("sqlite_pages", "name begins with runnel_ or sqlite_, which is taken (choose another name)"),
    ],
)
def test_names_that_no_table_can_have(app, clicks, name, says):
    assert refused(lambda: app.view(clicks, key="page", name=name)(lambda frame: frame)) == f'view "{name}": {says}'


def test_a_name_that_rows_are_put_aside_under(app, clicks):
    says = refused(lambda: app.view(clicks, key="page", name="clicks.late")(lambda frame: frame))
    assert says == (
        "view \"clicks.late\": name 'clicks.late' ends with .late, which is where rows of clicks are put aside "
        "(choose another name)"
    )


def test_a_name_that_is_there_already(app, clicks):
    assert refused(lambda: app.stream("clicks", schema=CLICKS), NameTaken) == (
        'stream "clicks": the app has declared the name clicks already (give one of the two another name)'
    )


def test_views_whose_names_differ_by_their_case_alone(app, clicks):
    app.view(clicks, key="page", name="pages")(lambda frame: frame)
    assert refused(lambda: app.view(clicks, key="page", name="Pages")(lambda frame: frame)) == (
        'view "Pages": name differs from that of view "pages" by its case alone, and a store may not tell their tables '
        "apart (give one of the two another name)"
    )
    app.view(clicks, key="page", name="Pages2")(lambda frame: frame)


def test_a_view_without_a_key(app, clicks):
    assert refused(lambda: app.view(clicks, key=[], name="pages")(lambda frame: frame)).startswith(
        'view "pages": key is []'
    )


def test_a_table_s_key_is_among_its_columns(app):
    assert refused(lambda: app.table("customers", key="nr", schema="id long")) == (
        "table \"customers\": key 'nr' is no column of the schema (the columns are id)"
    )


def test_a_body_that_takes_other_inputs(app, clicks):
    def pages(one, two):
        return one

    assert refused(lambda: app.view(clicks, key="page")(pages)) == (
        "view \"pages\": the body does not take the input of the decorator: missing a required argument: 'two' "
        "(one parameter for each input, in the same order)"
    )


def test_an_input_that_is_none(app):
    assert refused(lambda: app.view(3, key="page")(lambda frame: frame)).endswith(
        "input 1 is a int (pass what app.stream, app.table or app.view returned)"
    )


def test_a_decorator_without_its_inputs_is_told_at_once(app, clicks):
    def pages(clicks):
        return clicks

    assert refused(lambda: app.view(pages)) == (
        'view "pages": inputs are missing (pass the streams and tables that it reads: @app.view(clicks, ...))'
    )
    assert refused(lambda: app.stream(pages)).startswith('stream "pages": inputs are missing')
    assert app.stream(app.stream(clicks)(pages)) is not None  # what was derived can be called, and read


def test_inputs_are_not_forgotten(app):
    def pages():
        return None

    assert refused(lambda: app.view(key="page")(pages)).startswith('view "pages": inputs are missing')


def test_an_input_of_another_app(clicks):
    other = App("other")
    assert 'inputs name stream "clicks", which another app declared' in refused(
        lambda: other.view(clicks, key="page", name="pages")(lambda frame: frame)
    )


@pytest.mark.parametrize(
    "schema", ["a map<int,string>", "a array<struct<b:map<date,int>>>", "a map<string,map<int,int>>"]
)
def test_a_map_of_json_has_strings_as_keys(app, schema):
    assert "has keys of type" in refused(lambda: app.stream("maps", schema=schema))


def test_a_circle_of_topics(app):
    back = app.stream("second", schema=CLICKS)

    @app.stream(back)
    def first(frame):
        return frame

    def second(frame):
        return frame

    assert refused(lambda: app.stream(first)(second), Cycle) == (
        "a circle of inputs: first -> second -> first "
        "(let one of them read or write another topic; what feeds itself has no first answer)"
    )
    assert app.graph.outputs == (first,)


def test_a_circle_by_a_pattern(app):
    every = app.stream("orders", schema=CLICKS, read=Reading(topics=r"orders-.*|orders_.*"))

    def orders_mended(frame):
        return frame

    assert refused(lambda: app.stream(every)(orders_mended), Cycle).startswith(
        "a circle of inputs: orders_mended -> orders_mended "
    )
    assert app.graph.outputs == ()


def test_late_rows_that_would_be_late_again_are_a_circle(app, clicks):
    late = app.stream("pages.late", schema=CLICKS, time="at", late="1 second")

    def pages(clicks, late):
        return clicks.unionByName(late)

    assert refused(lambda: app.view(clicks, late, key="page")(pages), Cycle).startswith(
        "a circle of inputs: pages.late -> pages.late "
    )
    assert app.graph.outputs == ()


def test_rejected_rows_that_come_back_are_a_circle(app):
    raw = app.stream("orders", schema=CLICKS)
    rejected = app.stream("orders.rejected", schema=Text())
    app.view(raw, key="page", name="pages")(lambda raw: raw)

    def orders(rejected):
        return rejected

    assert refused(lambda: app.stream(rejected)(orders), Cycle).startswith("a circle of inputs: orders")


def test_what_outputs_put_aside_is_read_behind_them(app, clicks):
    late = app.stream("pages.late", schema=CLICKS)  # without a time: no row of it is late
    rejected = app.stream("clicks.rejected", schema=Text())
    twice = app.stream("clicks.rejected.rejected", schema=Text())

    @app.view(twice, key="value")
    def broken_twice(frame):
        return frame

    @app.view(rejected, key="value")
    def broken(frame):
        return frame

    @app.view(clicks, late, key="page")
    def pages(clicks, late):
        return clicks.unionByName(late)

    @app.view(clicks, rejected, key="page")
    def with_what_was_broken(clicks, rejected):
        return clicks

    assert app.graph.generations() == [[pages], [with_what_was_broken], [broken], [broken_twice]]


def test_what_a_pattern_reads_of_the_app_comes_before_it(app, clicks):
    every = app.stream("orders", schema=CLICKS, read=Reading(topics=r"orders_.*"))

    @app.view(every, key="page")
    def pages(frame):
        return frame

    @app.stream(clicks)
    def orders_made(frame):
        return frame

    assert app.graph.generations() == [[orders_made], [pages]]


# --- rows on which a body raises


def test_a_row_on_which_the_body_raises_stops_a_query_unless_it_is_to_be_rejected(app, clicks):
    @app.view(clicks, key="page")
    def stopping(clicks):
        return clicks

    @app.view(clicks, key="page", on_error="reject")
    def rejecting(clicks):
        return clicks

    @app.stream(clicks, write=Writing(on_error="reject"))
    def rejecting_stream(clicks):
        return clicks

    @app.stream(clicks)
    def stopping_stream(clicks):
        return clicks

    outputs = (stopping, rejecting, rejecting_stream, stopping_stream)
    assert [each.on_error for each in outputs] == ["stop", "reject", "reject", "stop"]


def test_no_other_way_is_known_for_a_row_on_which_the_body_raises(app, clicks):
    with pytest.raises(InvalidDeclaration, match=r"on_error is 'ignore' \(expected \"stop\" or \"reject\"\)"):
        app.view(clicks, key="page", on_error="ignore")(lambda clicks: clicks)
    with pytest.raises(InvalidDeclaration, match=r"write.on_error is None"):
        app.stream(clicks, write=Writing(on_error=None))(lambda clicks: clicks)


def test_changes_cannot_be_rejected_one_by_one(app):
    customers = app.table("customers", key="id", schema="id long, city string")
    with pytest.raises(InvalidDeclaration, match=r"on_error is \"reject\", and the changes of customers"):
        app.view(customers.changes(), key="city", on_error="reject")(lambda changes: changes)
