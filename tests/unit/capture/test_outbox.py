"""Rows of an outbox as records, as Debezium's event router lays them out."""

import logging

import pytest

from runnel.capture.envelope import Envelope
from runnel.capture.errors import InvalidChoice
from runnel.capture.events import Change, Truncated
from runnel.capture.forms import BYTES, INT64, JSON, MICRO_TIMESTAMP, STRING, ZONED_TIMESTAMP, Decimals, decimal
from runnel.capture.outbox import Outbox, OutboxColumns, Placed
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Masked, Selection
from runnel.capture.tables import Column, Table, TableId
from tests.unit.capture.customers import NoSource

NAMES = ("id", "aggregatetype", "aggregateid", "type", "payload", "at", "tenant")
FORMS = (STRING, STRING, STRING, STRING, JSON, MICRO_TIMESTAMP, INT64)
OUTBOX = Table(
    TableId("public", "outbox"), tuple(Column(name, form) for name, form in zip(NAMES, FORMS, strict=True)), (0,)
)
ROW = ("e1", "order", "o7", "OrderPlaced", '{"total": 7}', 1_700_000_000_123_456, 42)
MICROS = 1_600_000_000_000_999


def other(**values):
    return tuple(values.get(name, value) for name, value in zip(NAMES, ROW, strict=True))


def sent(row=ROW, op="c", table=OUTBOX, selection=None, **options):
    outbox = Outbox(r"public\.outbox", **options)
    envelope, out = Envelope("p", NoSource(), selection or Selection(), outbox=outbox), Outgoing()
    before, after = (None, row) if op in "cr" else (row, row) if op == "u" else (row, None)
    envelope.change(Change(table, op, before, after, "", MICROS), out, 0)
    return {
        topic: list(zip(page.keys, page.values, page.times, page.headers, strict=True))
        for topic, page in out.pages.items()
    }


@pytest.mark.parametrize("op", ["c", "r"])
def test_an_event_goes_to_the_topic_of_its_aggregate(op):
    headers = (("id", "e1"), ("eventType", "OrderPlaced"))
    assert sent(op=op) == {"outbox.event.order": [("o7", '{"total": 7}', MICROS // 1000, headers)]}


def test_other_tables_are_captured_as_ever():
    assert list(sent(table=Table(TableId("public", "orders"), OUTBOX.columns, (0,)))) == ["p.public.orders"]


def test_updates_and_deletes_and_truncates_send_nothing_and_an_update_is_said_once(caplog):
    envelope = Envelope("p", NoSource(), Selection(), outbox=Outbox(r"public\.outbox"))
    out = Outgoing()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            envelope.change(Change(OUTBOX, "u", ROW, ROW, "", 0), out, 0)
            envelope.change(Change(OUTBOX, "d", ROW, None, "", 0), out, 0)
        envelope.truncated(Truncated(OUTBOX, "", 0), out, 0)
    assert not out.pages
    assert caplog.messages == [
        "a row of outbox public.outbox was updated: that sends nothing; insert another event instead"
    ]


def test_a_row_that_is_read_beside_the_changes_is_not_sent():
    """Whether its insertion was sent as a change, nobody knows there."""
    envelope, out = Envelope("p", NoSource(), Selection(), outbox=Outbox(r"public\.outbox")), Outgoing()
    envelope.change(Change(OUTBOX, "r", None, ROW, "", 0), out, 0, snapshot="incremental")
    assert not out.pages


def test_topics_and_columns_have_the_names_that_are_given():
    columns = OutboxColumns(id="aggregateid", key="id", route="type", timestamp="at")
    found = sent(columns=columns, placed=[Placed("tenant", "header", "tenant")], topic="events-${routedByValue}-v1")
    headers = (("id", "o7"), ("tenant", "42"))
    assert found == {"events-OrderPlaced-v1": [("e1", '{"total": 7}', 1_700_000_000_123, headers)]}


def test_a_topic_of_an_odd_aggregate_has_a_name_that_kafka_allows():
    assert list(sent(other(aggregatetype="a/b ü"))) == ["outbox.event.a_b__"]


def test_an_event_without_an_aggregate_is_rejected():
    ((topic, [(key, value, _, headers)]),) = sent(other(aggregatetype=None)).items()
    assert (topic, key, value) == ("p.public.outbox.rejected", "o7", '{"total": 7}')
    assert dict(headers)["runnel.reason"] == "its aggregatetype is empty: there is no topic to send it to"


@pytest.mark.parametrize("aggregate", ["x" * 241, ".", ".."])
def test_an_event_whose_aggregate_makes_no_name_of_a_topic_is_rejected(aggregate):
    ((topic, [(_, _, _, headers)]),) = sent(other(aggregatetype=aggregate), topic="${routedByValue}").items()
    assert topic == "p.public.outbox.rejected"
    said = "its aggregatetype makes no name of a topic: there is no topic to send it to"
    assert dict(headers)["runnel.reason"] == said
    longest = "x" * 227
    assert list(sent(other(aggregatetype=longest))) == [f"outbox.event.{longest}"]


def test_columns_in_the_envelope_stand_beside_the_payload():
    placed = [Placed("type", "envelope", "eventType"), Placed("tenant", "envelope", "tenant")]
    ((_, value, _, headers),) = sent(placed=placed)["outbox.event.order"]
    assert value == '{"payload":"{\\"total\\": 7}","eventType":"OrderPlaced","tenant":42}'
    assert headers == (("id", "e1"),)
    ((_, value, _, _),) = sent(placed=placed, expand=True)["outbox.event.order"]
    assert value == '{"payload":{"total": 7},"eventType":"OrderPlaced","tenant":42}'


@pytest.mark.parametrize("payload", ["{oops", "[" * 20_000])
def test_a_payload_that_is_no_json_is_expanded_to_text_and_that_is_said(caplog, payload):
    placed = [Placed("tenant", "envelope", "tenant")]
    ((_, value, _, _),) = sent(other(payload=payload), placed=placed, expand=True)["outbox.event.order"]
    assert value == f'{{"payload":"{payload}","tenant":42}}'
    assert "a payload of outbox public.outbox is no JSON" in caplog.text


@pytest.mark.parametrize(("payload", "tombstones", "value"), [(None, False, None), ("", False, ""), (" ", True, None)])
def test_an_empty_payload(payload, tombstones, value):
    ((_, found, _, _),) = sent(other(payload=payload), tombstones=tombstones)["outbox.event.order"]
    assert found == value


@pytest.mark.parametrize(
    ("form", "value", "sent_as"),
    [
        (BYTES, b"\x00\xff", b"\x00\xff"),
        (BYTES._replace(write=lambda text: '"AP8="'), "\\x00ff", b"\x00\xff"),  # as PostgreSQL tells it
        (BYTES._replace(write=lambda text: f'"{text}"'), "abcd", "abcd"),  # text of SQLite's in a column of bytes
        (INT64, 12, "12"),
        (decimal(Decimals.PRECISE, 2), "12.50", "12.50"),
    ],
)
def test_a_payload_is_sent_as_it_is(form, value, sent_as):
    columns = tuple(Column(name, form if name == "payload" else STRING) for name in NAMES)
    row = tuple(value if name == "payload" else "x" for name in NAMES)
    ((_, found, _, _),) = sent(row, table=Table(OUTBOX.id, columns, (0,)))["outbox.event.x"]
    assert found == sent_as


@pytest.mark.parametrize(
    ("form", "value", "millis"),
    [
        (INT64, 1_700_000_000_123, 1_700_000_000_123),
        (ZONED_TIMESTAMP, "2023-11-14T22:13:20.123456Z", 1_700_000_000_123),
        (STRING, "soon", MICROS // 1000),
        (INT64, 2**63, MICROS // 1000),
        (INT64, -1, MICROS // 1000),
        (STRING, None, MICROS // 1000),
    ],
)
def test_a_record_has_the_time_of_its_column(form, value, millis):
    columns = tuple(Column(name, form if name == "at" else STRING) for name in NAMES)
    row = tuple(value if name == "at" else "x" for name in NAMES)
    table = Table(OUTBOX.id, columns, (0,))
    ((_, _, time, _),) = sent(row, table=table, columns=OutboxColumns(timestamp="at"))["outbox.event.x"]
    assert time == millis


def test_what_is_hidden_stays_hidden_and_rows_that_do_not_pass_are_not_sent():
    ((_, value, _, _),) = sent(selection=Selection(hidden={r".*\.payload": Masked()}))["outbox.event.order"]
    assert value == "***"
    assert sent(selection=Selection(rows={".*": lambda row: row["type"] != "OrderPlaced"})) == {}


def test_mistakes_are_told():
    with pytest.raises(InvalidChoice, match=r'"kind" cannot be used: table public.outbox sends aggregateid, '):
        sent(columns=OutboxColumns(route="kind"))
    with pytest.raises(InvalidChoice, match=r'topic of the outbox "events" cannot be used: '):
        Outbox(r"public\.outbox", topic="events")
