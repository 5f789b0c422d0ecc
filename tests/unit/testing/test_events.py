"""What a test plays: events, the steps that they make, and the records that rows become."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import fastavro
import pytest

from runnel import App, Avro, Raw, Reading, Text
from runnel.graph.errors import InvalidDeclaration
from runnel.testing import CRASH, CRASH_AFTER_COMMIT, PAUSE, RESTART, Mistake, at, delete, idle, raw, row
from runnel.testing.records import record_of
from runnel.testing.steps import Step, steps_of
from runnel.testing.topics import Topics

MIDNIGHT = 1_767_225_600_000
AVRO = json.dumps(
    {"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}, {"name": "n", "type": "int"}]}
)


@pytest.fixture
def app():
    return App("shop")


@pytest.fixture
def clicks(app):
    columns = "page string, n int, price decimal(10,2), day date, at timestamp, body binary, place struct<x:int,y:int>"
    return app.stream("clicks", schema=columns, time="at", late="0 seconds")


@pytest.fixture
def customers(app):
    return app.table("customers", key="id", schema="id long, name string")


# --- times


def test_a_short_time_is_of_one_day_in_utc():
    assert at("12:00") == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert at("12:00:10.5") == datetime(2026, 1, 1, 12, 0, 10, 500_000, UTC)


def test_a_whole_time_is_that_time_in_utc():
    assert at("2027-02-03T04:05:06Z") == datetime(2027, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert at("2027-02-03 04:05:06") == datetime(2027, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert at("2027-02-03T04:05:06+02:00").utcoffset() == timedelta(0)


@pytest.mark.parametrize("text", ["noon", "", "25:00", "2026-13-01"])
def test_what_is_no_time_is_told(text):
    with pytest.raises(Mistake, match=f"^{text!r} is no time"):
        at(text)


def test_what_is_no_duration_is_told():
    with pytest.raises(InvalidDeclaration, match="'soon' is no duration"):
        idle("soon")


# --- steps


def test_rows_between_two_pauses_are_one_step():
    a, b, c = (row("clicks", n=number) for number in range(3))
    assert steps_of([a, b, PAUSE, c]) == [Step((a, b)), Step((c,))]
    assert steps_of([PAUSE, a, PAUSE, PAUSE]) == [Step((a,))]
    assert steps_of([]) == []


@pytest.mark.parametrize("end", [RESTART, CRASH, CRASH_AFTER_COMMIT])
def test_a_crash_belongs_to_what_came_before_it(end):
    a = row("clicks", n=1)
    minute = idle("1 minute")
    assert steps_of([a, end]) == [Step((a,), end=end)]
    assert steps_of([a, minute, end]) == [Step((a,)), Step(passed=60_000, end=end)]
    assert steps_of([end, end]) == [Step(end=end), Step(end=end)]
    assert steps_of([a, PAUSE, end]) == [Step((a,)), Step(end=end)]
    assert steps_of([minute, end, end]) == [Step(passed=60_000, end=end), Step(end=end)]


def test_something_else_cannot_be_played():
    with pytest.raises(Mistake, match=r"^\{'page': 'tea'\} cannot be played \(give rows made with row"):
        steps_of([{"page": "tea"}])


# --- records


def test_a_row_becomes_json_and_its_record_has_its_time(clicks):
    sent = row(
        clicks,
        page="tea",
        n=None,
        price=Decimal("10000000.10"),
        day=date(2026, 1, 2),
        at="12:00",
        body=b"\xff",
        place={"x": 1, "y": None},
    )
    record = record_of(sent, clicks)
    assert record.value == (
        b'{"page": "tea", "n": null, "price": 10000000.10, "day": "2026-01-02", '
        b'"at": "2026-01-01T12:00:00+00:00", "body": "/w==", "place": {"x": 1, "y": null}}'
    )
    assert record.topic == "clicks"
    assert record.about == {"key": None, "timestamp": MIDNIGHT + 12 * 3_600_000, "headers": [], "partition": None}


def test_a_record_has_what_is_said_of_it(clicks):
    sent = row(clicks, at="12:00", _key="k", _timestamp="00:01", _headers={"a": "b", "c": None}, _partition=3)
    record = record_of(sent, clicks)
    assert json.loads(record.value) == {"at": "2026-01-01T12:00:00+00:00"}
    headers = [("a", b"b"), ("c", None)]
    assert record.about == {"key": b"k", "timestamp": MIDNIGHT + 60_000, "headers": headers, "partition": 3}


@pytest.mark.parametrize(("value", "written"), [(b"\x00{", b"\x00{"), ("{", b"{"), (None, None)])
def test_a_raw_value_is_written_as_it_is(clicks, value, written):
    record = record_of(raw(clicks, value, _key=b"k"), clicks)
    assert record.value == written
    assert (record.about["key"], record.about["timestamp"]) == (b"k", MIDNIGHT)


def test_a_time_of_another_zone_is_written_with_it(clicks):
    when = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    record = record_of(row(clicks, at=when), clicks)
    assert json.loads(record.value)["at"] == "2026-01-01T14:00:00+02:00"
    assert record.about["timestamp"] == MIDNIGHT + 12 * 3_600_000


def test_a_time_without_a_zone_is_written_without_one(app):
    local = app.stream("local", schema="at timestamp_ntz, n int")
    for given in ("12:00", "2026-01-01 12:00", datetime(2026, 1, 1, 12)):
        assert record_of(row(local, at=given), local).value == b'{"at": "2026-01-01T12:00:00"}'
    assert record_of(row(local, at="2026-01-01T12:00Z"), local).value == b'{"at": "2026-01-01T12:00Z"}'
    with pytest.raises(Mistake, match=r"^'noon' is no time"):
        record_of(row(local, at="noon"), local)


def test_a_row_of_a_table_and_its_end_have_the_same_key(app, customers):
    orders = app.table("orders", key=["shop", "id"], schema="shop string, id long, what string")

    def key(sent, table):
        return record_of(sent, table).about["key"]

    assert key(row(customers, id=7, name="Ann"), customers) == key(delete(customers, id=7), customers) == b"7"
    assert record_of(delete(customers, id=7), customers).value is None
    kept, gone = row(orders, what="tea", id=1, shop="here"), delete(orders, id=1, shop="here")
    assert key(kept, orders) == key(gone, orders) == b'{"shop":"here","id":1}'
    assert key(row(customers, id=7, _key=b"other"), customers) == b"other"
    minutes = app.table("minutes", key="at", schema="at timestamp, n long")
    assert key(row(minutes, at="12:00:10", n=1), minutes) == key(delete(minutes, at=at("12:00:10")), minutes)
    assert key(raw(customers, b"{"), customers) is None


def test_a_key_is_written_as_that_of_a_derived_stream(app):
    schema = "ok boolean, at timestamp, local timestamp_ntz, name string, body binary"
    given = {"ok": True, "at": "12:00:10.5", "local": "12:00", "name": "Zoë", "body": b"\xff"}

    def key(*columns):
        table = app.table(f"by_{'_'.join(columns)}", key=columns, schema=schema)
        return record_of(row(table, **given), table).about["key"]

    assert [key(each) for each in given] == [
        *(b"true", b"2026-01-01 12:00:10.5", b"2026-01-01 12:00:00", "Zoë".encode(), b"\xff"),
    ]
    times = '"at":"2026-01-01T12:00:10.500000Z","local":"2026-01-01T12:00:00.000000"'
    assert key(*given) == f'{{"ok":true,{times},"name":"Zoë","body":"/w=="}}'.encode()


@pytest.mark.parametrize(
    ("type", "given", "alone", "among"),
    [  # what Spark makes of it as a string, and in a JSON object
        ("double", 5, b"5.0", b"5.0"),
        ("double", 0.1, b"0.1", b"0.1"),
        ("double", 0.001, b"0.001", b"0.001"),
        ("double", 1e-4, b"1.0E-4", b"1.0E-4"),
        ("double", 9_999_999, b"9999999.0", b"9999999.0"),
        ("double", -12_345_678.9, b"-1.23456789E7", b"-1.23456789E7"),
        ("double", 123_456_789_012_345_680, b"1.2345678901234568E17", b"1.2345678901234568E17"),
        ("double", float("-inf"), b"-Infinity", b'"-Infinity"'),
        ("double", float("nan"), b"NaN", b'"NaN"'),
        ("float", 0.1, b"0.1", b"0.1"),
        ("float", 2**24, b"1.6777216E7", b"1.6777216E7"),
        ("decimal(10,2)", 2, b"2.00", b"2.00"),
        ("decimal(10,2)", 1.5, b"1.50", b"1.50"),
        ("decimal(20,10)", Decimal("0.0000001"), b"0.0000001000", b"1.000E-7"),
        ("decimal(20,10)", Decimal(0), b"0.0000000000", b"0E-10"),
        ("decimal(38,0)", Decimal("1E20"), b"100000000000000000000", b"100000000000000000000"),
        ("date", date(2026, 1, 2), b"2026-01-02", b'"2026-01-02"'),
    ],
)
def test_a_number_in_a_key_is_written_as_one_of_its_columns_type(app, type, given, alone, among):
    one = app.table("one", key="k", schema=f"k {type}")
    assert record_of(row(one, k=given), one).about["key"] == alone
    two = app.table("two", key=["k", "n"], schema=f"k {type}, n int")
    assert record_of(delete(two, k=given, n=1), two).about["key"] == b'{"k":%b,"n":1}' % among


def test_values_of_other_formats(app):
    lines, blobs = app.stream("lines", schema=Text()), app.stream("blobs", schema=Raw())
    assert record_of(row(lines, value="tea"), lines).value == b"tea"
    assert record_of(row(blobs, value=b"\x00"), blobs).value == b"\x00"
    plain, framed = app.stream("plain", schema=Avro(AVRO)), app.stream("framed", schema=Avro(AVRO, "confluent"))
    value = record_of(row(plain, page="tea", n=3), plain).value
    assert fastavro.schemaless_reader(io.BytesIO(value), json.loads(AVRO)) == {"page": "tea", "n": 3}
    assert record_of(row(framed, page="tea", n=3), framed).value == bytes(5) + value


def test_mistakes_of_rows_name_what_is_wrong(app, clicks, customers):
    timed = app.stream("timed", schema="n int", time="_timestamp", late="0 seconds")
    avro = app.stream("plain", schema=Avro(AVRO))
    for sent, noun, said in (
        (row(clicks, pgae="tea"), clicks, 'stream "clicks" has no column pgae (its columns are page, n, '),
        (row(customers, name="Ann"), customers, 'table "customers": a row has no id (it is the key'),
        (delete(customers), customers, 'table "customers": a row has no id (it is the key'),
        (delete(customers, id=1, name="Ann"), customers, 'table "customers" is not keyed by name (give the key'),
        (delete("clicks", page="tea"), clicks, 'stream "clicks" has no rows that can be deleted (delete() is'),
        (row(timed, n=1), timed, 'stream "timed" has its event times from its records, and a row has none (say when'),
        (
            row(clicks, _timestamp=MIDNIGHT),
            clicks,
            f'stream "clicks": the _timestamp of a record is {MIDNIGHT} (write ',
        ),
        (row(timed, n=1, _timestamp=None), timed, 'stream "timed": the _timestamp of a record is None (write one such'),
        (row(avro, page="tea"), avro, 'stream "plain": a row does not fit its Avro schema: '),
    ):
        with pytest.raises(Mistake) as told:
            record_of(sent, noun)
        assert str(told.value).startswith(said)
    with pytest.raises(Mistake, match=r"raw\(\) takes a value and _key, .*, not page \(row\(\) takes columns\)"):
        raw(clicks, b"", page="tea")


# --- topics


def test_rows_are_played_into_what_the_app_reads(app, clicks, customers):
    many = app.stream("many", schema="n int", read=Reading(topics="sites-.*"))

    @app.view(clicks, many, customers, key="page")
    def counted(clicks, many, customers):
        return clicks

    @app.stream(clicks)
    def copied(clicks):
        return clicks

    sent = [row(clicks, page="tea"), row("sites-eu", n=1), delete("customers", id=1)]
    topics = Topics(app, sent)
    assert [topics.record_of(each).topic for each in sent] == ["clicks", "sites-eu", "customers"]
    assert topics.columns["sites-eu"] is many.columns
    with pytest.raises(Mistake) as told:
        Topics(app, [row("clics", page="tea")])
    assert str(told.value) == "the app does not read clics (it reads clicks, customers, topics like sites-.*)"
    with pytest.raises(Mistake, match='no rows can be played into stream "copied"'):
        row(copied, page="tea")
