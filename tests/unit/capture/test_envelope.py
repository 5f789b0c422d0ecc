"""Records as Debezium writes them, byte for byte."""

import json
from dataclasses import replace

import pytest

from runnel.capture.envelope import Envelope
from runnel.capture.events import Change, Message, Truncated
from runnel.capture.forms import INT32
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Selection
from runnel.capture.tables import UNCHANGED, UNKNOWN, Column
from runnel.version import __version__
from tests.unit.capture.customers import CUSTOMERS, LOOSE, NoSource

COMMITTED = 1_559_033_904_863_123
NOW = 1_559_033_904_900_001
OWN = '"txId":555,"lsn":24023128'
ANNE = (1, "Anne", "anne@example.org")
ANNA = (1, "Anna", None)
TOPIC = "server1.public.customers"

SOURCE = (
    f'{{"version":"{__version__}","connector":"postgresql","name":"server1","ts_ms":1559033904863,"snapshot":"false",'
    '"db":"shop","ts_us":1559033904863123,"ts_ns":1559033904863123000,"schema":"public","table":"customers",'
    '"txId":555,"lsn":24023128}'
)
TIMES = '"ts_ms":1559033904900,"ts_us":1559033904900001,"ts_ns":1559033904900001000'
ANNES = '{"id":1,"first_name":"Anne","email":"anne@example.org"}'
ANNAS = '{"id":1,"first_name":"Anna","email":null}'


def told(change, *, table=CUSTOMERS, selection=None, **options):
    """Its records: key, value, headers."""
    envelope = Envelope("server1", NoSource(), selection or Selection(), **options)
    out = Outgoing()
    op, before, after = change
    envelope.change(Change(table, op, before, after, OWN, COMMITTED), out, NOW)
    (page,) = out.pages.values() or [None]
    return [] if page is None else list(zip(page.keys, page.values, page.headers, strict=True))


def value(before, after, op):
    return f'{{"before":{before},"after":{after},"source":{SOURCE},"transaction":null,"op":"{op}",{TIMES}}}'


def test_a_create():
    assert told(("c", None, ANNE)) == [('{"id":1}', value("null", ANNES, "c"), ())]


def test_an_update():
    assert told(("u", ANNE, ANNA)) == [('{"id":1}', value(ANNES, ANNAS, "u"), ())]


def test_a_delete_is_followed_by_a_tombstone():
    assert told(("d", ANNE, None)) == [('{"id":1}', value(ANNES, "null", "d"), ()), ('{"id":1}', None, ())]
    assert told(("d", ANNE, None), tombstones=False) == [('{"id":1}', value(ANNES, "null", "d"), ())]


def test_a_changed_key_is_a_delete_and_a_create_that_know_of_each_other():
    moved = (2, "Anne", "anne@example.org")
    assert told(("u", ANNE, moved)) == [
        ('{"id":1}', value(ANNES, "null", "d"), (("__debezium.newkey", '{"id":2}'),)),
        ('{"id":1}', None, (("__debezium.newkey", '{"id":2}'),)),
        ('{"id":2}', value("null", ANNES.replace("1", "2", 1), "c"), (("__debezium.oldkey", '{"id":1}'),)),
    ]


def test_a_table_that_gets_another_key_is_said_and_not_if_nothing_is_left_under_the_old_one(caplog):
    by_email = replace(CUSTOMERS, key=(2,))
    envelope, out = Envelope("server1", NoSource(), Selection()), Outgoing()
    for table in (CUSTOMERS, by_email, by_email, replace(CUSTOMERS, key=())):
        envelope.change(Change(table, "c", None, ANNE, OWN, COMMITTED), out, NOW)
    assert [each.getMessage().split(":")[0] for each in caplog.records] == [
        "records of public.customers have the key (email) from here on, and had (id)",
        "records of public.customers have the key of no column from here on, and had (email)",
    ]
    caplog.clear()
    envelope.truncated(Truncated(CUSTOMERS, OWN, COMMITTED), out, NOW)
    for table in (CUSTOMERS, replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("age", INT32)))):
        envelope.change(Change(table, "c", None, (*ANNE, 7), OWN, COMMITTED), out, NOW)
    assert caplog.records == []


def test_a_row_without_a_key_has_a_record_without_one_and_no_tombstone():
    source = SOURCE.replace("customers", "loose")
    ((key, text, _),) = told(("d", ANNE, None), table=LOOSE)
    assert (key, text) == (None, value(ANNES, "null", "d").replace(SOURCE, source))


def test_what_the_database_did_not_tell_is_marked_or_has_a_fallback():
    before = (1, UNKNOWN, UNKNOWN)
    after = (1, UNCHANGED, "new")
    ((_, text, _),) = told(("u", before, after))
    assert json.loads(text)["before"] == {"id": 1, "first_name": "", "email": None}
    assert json.loads(text)["after"] == {"id": 1, "first_name": "__debezium_unavailable_value", "email": "new"}


def test_a_key_that_was_not_told_of_is_the_same_as_before():
    assert len(told(("u", (UNKNOWN, UNKNOWN, UNKNOWN), ANNA))) == 1


def test_a_truncated_table_has_an_event_without_a_key():
    out = Outgoing()
    Envelope("server1", NoSource(), Selection()).truncated(Truncated(CUSTOMERS, OWN, COMMITTED), out, NOW)
    assert (out.pages[TOPIC].keys, out.pages[TOPIC].values) == ([None], [value("null", "null", "t")])


def test_a_message_is_keyed_by_its_prefix():
    out = Outgoing()
    message = Message("audit", b"\x00hi", True, OWN, COMMITTED)
    Envelope("server1", NoSource(), Selection()).message(message, out, NOW)
    page = out.pages["server1.message"]
    assert page.keys == ['{"prefix":"audit"}']
    assert json.loads(page.values[0])["message"] == {"prefix": "audit", "content": "AGhp"}


def test_a_record_has_the_time_of_the_commit():
    out = Outgoing()
    Envelope("server1", NoSource(), Selection()).change(Change(CUSTOMERS, "c", None, ANNE, OWN, COMMITTED), out, NOW)
    assert out.pages[TOPIC].times == [1559033904863]


def test_a_snapshots_row_says_where_in_it_it_stands():
    out = Outgoing()
    envelope = Envelope("server1", NoSource(), Selection())
    envelope.change(Change(CUSTOMERS, "r", None, ANNE, "", COMMITTED), out, NOW, snapshot="first")
    told = json.loads(out.pages[TOPIC].values[0])
    assert told["source"]["snapshot"] == "first"
    assert "lsn" not in told["source"]


def test_begin_and_end_of_a_transaction():
    out = Outgoing()
    envelope = Envelope("server1", NoSource(), Selection())
    envelope.began("571", COMMITTED, out)
    envelope.ended("571", COMMITTED, {"s1.a": 2, "s2.a": 1}, out)
    page = out.pages["server1.transaction"]
    assert page.keys == ['{"id":"571"}'] * 2
    assert page.values == [
        '{"status":"BEGIN","id":"571","event_count":null,"data_collections":null,"ts_ms":1559033904863}',
        '{"status":"END","id":"571","event_count":3,"data_collections":[{"data_collection":"s1.a","event_count":2},'
        '{"data_collection":"s2.a","event_count":1}],"ts_ms":1559033904863}',
    ]


def test_a_heartbeat():
    out = Outgoing()
    Envelope("server1", NoSource(), Selection()).heartbeat(NOW, out)
    page = out.pages["__debezium-heartbeat.server1"]
    assert (page.keys, page.values) == (['{"serverName":"server1"}'], ['{"ts_ms":1559033904900}'])


def test_with_schemas_key_and_value_carry_kafka_connects():
    ((key, text, _),) = told(("c", None, ANNE), schemas=True)
    identity = {"type": "int32", "optional": False, "field": "id"}
    assert json.loads(key) == {
        "schema": {"type": "struct", "fields": [identity], "optional": False, "name": f"{TOPIC}.Key"},
        "payload": {"id": 1},
    }
    found = json.loads(text)
    assert json.dumps(found["payload"], separators=(",", ":")) == value("null", ANNES, "c")
    row = {
        "type": "struct",
        "fields": [
            identity,
            {"type": "string", "optional": False, "field": "first_name"},
            {"type": "string", "optional": True, "field": "email"},
        ],
        "optional": True,
        "name": f"{TOPIC}.Value",
    }
    fields = {field["field"]: field for field in found["schema"]["fields"]}
    assert list(fields) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert (fields["before"], fields["after"]) == ({**row, "field": "before"}, {**row, "field": "after"})
    assert (found["schema"]["name"], found["schema"]["version"]) == (f"{TOPIC}.Envelope", 2)
    assert fields["transaction"]["name"] == "event.block"
    assert fields["source"]["name"] == "io.debezium.connector.postgresql.Source"
    assert [field["field"] for field in fields["source"]["fields"]] == list(found["payload"]["source"])


def test_a_name_that_no_topic_can_have_is_written_with_underscores():
    envelope = Envelope("server1", NoSource(), Selection())
    assert envelope.topic(CUSTOMERS.id._replace(name="my orders/ä")) == "server1.public.my_orders__"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("c", None, ANNE), "c"),
        (("c", None, ANNA), ""),
        (("r", None, ANNA), ""),
        (("u", ANNE, ANNE), "u"),
        (("u", ANNA, ANNE), "c"),
        (("u", ANNE, ANNA), "d."),
        (("u", ANNA, ANNA), ""),
        (("u", None, ANNA), "d."),  # what it was is not known
        (("u", (1, UNKNOWN, UNKNOWN), ANNE), "u"),
        (("d", ANNE, None), "d."),
        (("d", ANNA, None), ""),
        (("d", (1, UNKNOWN, UNKNOWN), None), "d."),
    ],
)
def test_a_row_filter_shows_the_rows_that_pass_and_nothing_else(change, expected):
    selection = Selection(rows={"public.customers": lambda row: row["email"] is not None})
    records = told(change, selection=selection)
    assert "".join("." if text is None else json.loads(text)["op"] for _, text, _ in records) == expected


def test_a_row_that_does_not_pass_leaves_no_more_than_its_key():
    selection = Selection(rows={"public.customers": lambda row: row["email"] is not None})
    (_, text, _), (key, tombstone, _) = told(("u", None, (7, "Secret", None)), selection=selection)
    assert (key, tombstone) == ('{"id":7}', None)
    assert json.loads(text)["before"] == {"id": 7, "first_name": "", "email": None}


@pytest.mark.parametrize("table", [CUSTOMERS, LOOSE])
@pytest.mark.parametrize(
    "options",
    [{}, {"schemas": True}, {"schema_changes": True}, {"rows": {r"public\..*": lambda row: row["email"] is not None}}],
)
def test_many_rows_of_a_snapshot_are_told_as_each_of_them(table, options):
    rows = [(ANNE, "first"), (ANNA, "true"), ((2, "Bert", "b@example.org"), "true"), ((3, "Cleo", None), "last")]
    given = {"selection": Selection(rows=options.get("rows", {}))} | {
        name: option for name, option in options.items() if name != "rows"
    }
    one_by_one, at_once = Outgoing(), Outgoing()
    each, all_of_them = (Envelope("server1", NoSource(), **given) for _ in range(2))
    for row, word in rows:
        each.change(Change(table, "r", None, row, OWN, COMMITTED), one_by_one, NOW, snapshot=word)
    all_of_them.rows(table, rows, OWN, COMMITTED, at_once, NOW)
    assert at_once.records == one_by_one.records > 0
    for topic, page in one_by_one.pages.items():
        found = at_once.pages[topic]
        assert all(getattr(found, name) == getattr(page, name) for name in page.__slots__)


def test_no_rows_of_a_snapshot_are_no_records_and_no_topic():
    out = Outgoing()
    Envelope("server1", NoSource(), Selection()).rows(CUSTOMERS, [], OWN, COMMITTED, out, NOW)
    assert not out.pages
