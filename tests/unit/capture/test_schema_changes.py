"""What tables are like, as records, and never told twice."""

import json

import pytest

from runnel.capture.envelope import Envelope
from runnel.capture.errors import InvalidChoice
from runnel.capture.events import Began, Came, Change, Ended, Gone, Passed, Position, Redefined, Truncated
from runnel.capture.forms import DATE, STRING, Decimals, decimal, enumeration
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Masked, Selection
from runnel.capture.stream import Stream
from runnel.capture.tables import Column, Table, TableId
from tests.unit.capture.customers import CUSTOMERS, NoSource

ID = '"shop"."public"."customers"'
WIDER = Table(CUSTOMERS.id, (*CUSTOMERS.columns, Column("city", STRING, True, "varchar")), (0,))
ANNE = (1, "Anne", "anne@example.org")


def envelope(selection=None, **options):
    return Envelope("p", NoSource(), selection or Selection(), schema_changes=True, **options)


def told(out):
    page = out.pages.get("p")
    return [] if page is None else [json.loads(value) for value in page.values]


def kinds(out):
    return [(each["type"], each["id"]) for value in told(out) for each in value["tableChanges"]]


def create(table=CUSTOMERS, row=ANNE):
    return Change(table, "c", None, row + (None,) * (len(table.columns) - len(row)), '"lsn":7', 5_000)


def recalled(out, **options):
    """Another life, which has read what is in the topic."""
    other = envelope(**options)
    values = [text.encode() for text in out.pages["p"].values] if "p" in out.pages else []
    other.recall(lambda topic: [(None, value) for value in values if topic == "p"])
    return other


def test_a_table_is_told_of_before_its_first_row():
    out = Outgoing()
    work = envelope()
    work.change(create(), out, 9_000)
    work.change(create(), out, 9_000)
    assert list(out.pages) == ["p", "p.public.customers"]
    (value,) = told(out)
    assert out.pages["p"].keys == ['{"databaseName":"shop"}']
    assert (value["ts_ms"], value["databaseName"], value["schemaName"], value["ddl"]) == (9, "shop", "public", None)
    assert (value["source"]["table"], value["source"]["lsn"], value["source"]["ts_ms"]) == ("customers", 7, 5)
    (change,) = value["tableChanges"]
    assert (change["type"], change["id"]) == ("CREATE", ID)
    assert change["table"]["primaryKeyColumnNames"] == ["id"]
    assert [(each["name"], each["jdbcType"], each["typeName"], each["position"], each["optional"])
            for each in change["table"]["columns"]] == [
        ("id", 4, "int32", 1, False), ("first_name", 12, "string", 2, False), ("email", 12, "string", 3, True),
    ]  # fmt: skip


def test_a_table_without_rows_is_told_of_when_it_is_read():
    out = Outgoing()
    envelope().introduce(CUSTOMERS, 5_000, '"lsn":7', out, 0)
    assert kinds(out) == [("CREATE", ID)]
    assert told(out)[0]["source"]["snapshot"] == "true"


def test_other_columns_are_told_of_and_the_same_ones_are_not():
    out, work = Outgoing(), envelope()
    again = Table(CUSTOMERS.id, CUSTOMERS.columns, CUSTOMERS.key)
    for table in (CUSTOMERS, again, WIDER):
        work.change(create(table), out, 0)
    assert kinds(out) == [("CREATE", ID), ("ALTER", ID)]
    assert told(out)[1]["tableChanges"][0]["table"]["columns"][3]["typeName"] == "varchar"


@pytest.mark.parametrize("schemas", [False, True])
def test_another_life_tells_only_what_has_changed(schemas):
    out, after = Outgoing(), Outgoing()
    envelope(schemas=schemas).change(create(), out, 0)
    work = recalled(out, schemas=schemas)
    work.change(create(), after, 0)
    assert not told(after)
    work.change(create(WIDER), after, 0)
    (value,) = told(after)
    (change,) = (value["payload"] if schemas else value)["tableChanges"]
    assert change["type"] == "ALTER"


def test_what_was_not_written_is_told_again():
    """A transaction of the cluster that failed: whoever takes over reads the topic, in which it is not."""
    work, out = envelope(), Outgoing()
    work.change(create(), Outgoing(), 0)
    work.recall(lambda topic: [])
    work.change(create(), out, 0)
    assert kinds(out) == [("CREATE", ID)]


def test_rows_that_are_in_the_topics_already_do_not_swallow_a_definition():
    out, work = Outgoing(), envelope()
    stream = Stream(work, Position({"at": 6}, 1), transactions=False)
    stream.tell([Began("7", 0), create(), create(), Ended("7", {"at": 7}, 0)], out, 0)
    assert kinds(out) == [("CREATE", ID)]
    assert len(out.pages["p.public.customers"].keys) == 1


def test_a_table_that_is_gone_is_told_of_once_and_may_come_back():
    out, work = Outgoing(), envelope()
    stream = Stream(work, Position({"at": 6}), transactions=False)
    gone = Gone(CUSTOMERS.id, 0)
    stream.tell([Began("7", 0), gone, create(), gone, gone, create(WIDER), Ended("7", {"at": 7}, 0)], out, 0)
    assert [kind for kind, _ in kinds(out)] == ["CREATE", "DROP", "CREATE"]
    assert told(out)[1]["tableChanges"][0]["table"] is None


def test_those_that_were_told_of_and_not_to_be_dropped_are_known_in_another_life():
    loose, dotted = (Table(TableId(schema, name), (), ()) for schema, name in (("public", "loose"), ("a.b", 'c"."d')))
    first, out = envelope(), Outgoing()
    for table in (CUSTOMERS, loose, dotted):
        first.introduce(table, 0, "", out, 0)
    first.gone(Gone(loose.id, 0), out, 0)
    assert list(recalled(out).schema_changes.tables()) == [CUSTOMERS.id, dotted.id]


@pytest.mark.parametrize("source", [{"database": "another"}, {"has_schemas": False}])
def test_nothing_is_known_of_tables_that_another_database_has_told_to_the_same_topic(monkeypatch, source):
    first, out = envelope(), Outgoing()
    first.introduce(CUSTOMERS, 0, "", out, 0)
    for name, value in source.items():
        monkeypatch.setattr(NoSource, name, value)
    assert not [*recalled(out).schema_changes.tables()]


def test_a_table_that_lost_a_partition_is_not_told_as_dropped():
    out, work = Outgoing(), envelope()
    stream = Stream(work, Position({"at": 6}), transactions=False)
    came = Came(CUSTOMERS.id, 0, is_part=True)
    stream.tell([Began("7", 0), create(), came, create(), Ended("7", {"at": 7}, 0)], out, 0)
    assert [kind for kind, _ in kinds(out)] == ["CREATE"]


def test_columns_that_became_others_are_told_between_transactions_without_a_row():
    before, out = Outgoing(), Outgoing()
    envelope().change(create(), before, 0)
    stream = Stream(recalled(before), Position({"at": 6}), transactions=False)
    same, wider = (Redefined(table, 5_000, '"lsn":8') for table in (CUSTOMERS, WIDER))
    stream.tell([Passed({"at": 7}), same, wider, wider], out, 0)
    assert kinds(out) == [("ALTER", ID)]
    assert (told(out)[0]["source"]["lsn"], told(out)[0]["source"]["snapshot"]) == (8, "false")


@pytest.mark.parametrize("index", range(4))
def test_a_restart_inside_of_a_transaction_tells_nothing_twice(index):
    events = [Began("7", 0), create(), Gone(CUSTOMERS.id, 0), create(WIDER), create(WIDER), Ended("7", {"at": 7}, 0)]
    first, out, position = Stream(envelope(), Position({"at": 6}), transactions=False), Outgoing(), Position({"at": 6})
    for event in events:
        if position.index == index:
            break
        position = first.tell([event], out, 0)
    Stream(recalled(out), position, transactions=False).tell(events, out, 0)
    assert [kind for kind, _ in kinds(out)] == ["CREATE", "DROP", "CREATE"]


def test_columns_are_told_as_they_leave():
    columns = (
        Column("id", STRING, False),
        Column("price", decimal(Decimals.PRECISE, 2, 10), True, "numeric"),
        Column("born", DATE),
        Column("mood", enumeration(["sad", "ok"])),
        Column("secret", STRING, True, "text"),
        Column("left_out", STRING),
    )
    selection = Selection(hidden={r".*\.secret": Masked()}, without_columns=[r".*\.left_out"])
    out = Outgoing()
    envelope(selection).introduce(Table(CUSTOMERS.id, columns, (0,)), 0, "", out, 0)
    found = told(out)[0]["tableChanges"][0]["table"]["columns"]
    assert [(each["name"], each["jdbcType"], each["typeName"], each["length"], each["scale"], each["enumValues"])
            for each in found] == [
        ("id", 12, "string", None, None, None),
        ("price", 3, "numeric", 10, 2, None),
        ("born", 91, "io.debezium.time.Date", None, None, None),
        ("mood", 1, "io.debezium.data.Enum", None, None, ["sad", "ok"]),
        ("secret", 12, "string", None, None, None),
    ]  # fmt: skip


def test_schemas_stand_beside_the_values():
    out = Outgoing()
    envelope(schemas=True).introduce(CUSTOMERS, 0, '"lsn":7', out, 0)
    key, value = json.loads(out.pages["p"].keys[0]), json.loads(out.pages["p"].values[0])
    assert key["payload"] == {"databaseName": "shop"}
    assert key["schema"]["name"] == "io.debezium.connector.postgresql.SchemaChangeKey"
    names = [each["field"] for each in value["schema"]["fields"]]
    assert names == list(value["payload"])
    change = value["schema"]["fields"][-1]["items"]
    table = change["fields"][-1]
    assert [each["field"] for each in table["fields"]] == list(value["payload"]["tableChanges"][0]["table"])
    column = table["fields"][2]["items"]
    assert [each["field"] for each in column["fields"]] == list(
        value["payload"]["tableChanges"][0]["table"]["columns"][0]
    )


@pytest.mark.parametrize("value", [None, b"hello", b"[]", b"{}"])
def test_a_topic_with_something_else_in_it_is_refused(value):
    with pytest.raises(InvalidChoice, match=r'schema changes "p" cannot be used: it holds something else'):
        envelope().recall(lambda topic: [(None, value)])


def test_nothing_is_told_unless_it_is_asked_for():
    out = Outgoing()
    work = Envelope("p", NoSource(), Selection())
    work.change(create(), out, 0)
    work.gone(Gone(CUSTOMERS.id, 0), out, 0)
    assert list(out.pages) == ["p.public.customers"]


def test_a_truncated_table_of_which_only_the_name_is_known_is_told_without_a_definition():
    out = Outgoing()
    envelope(schemas=True).truncated(Truncated(Table(CUSTOMERS.id, (), ()), '"lsn":7', 5_000), out, 0)
    assert list(out.pages) == ["p.public.customers"]
    value = json.loads(out.pages["p.public.customers"].values[0])["payload"]
    assert (value["op"], value["before"], value["after"], value["source"]["lsn"]) == ("t", None, None, 7)


class NoSchemas(NoSource):
    connector = "mariadb"
    has_schemas = False


def test_a_database_without_schemas_names_its_tables_without_them():
    out = Outgoing()
    work = Envelope("p", NoSchemas(), Selection(), schema_changes=True)
    work.change(create(), out, 9_000)
    (value,) = told(out)
    assert (value["schemaName"], value["source"]["table"]) == (None, "customers")
    assert "schema" not in value["source"]
    assert value["tableChanges"][0]["id"] == '"shop"."customers"'


def test_words_with_commas_stay_whole():
    kinds_of_words = enumeration(["a", r"b\,c", "it's"])
    columns = (Column("v", kinds_of_words, True, "ENUM"), Column("w", kinds_of_words, True, "mood"))
    out = Outgoing()
    envelope().change(Change(Table(CUSTOMERS.id, columns, ()), "c", None, ("a", "a"), "", 0), out, 0)
    (change,) = told(out)[0]["tableChanges"]
    assert [each["enumValues"] for each in change["table"]["columns"]] == [
        ["'a'", "'b,c'", "'it''s'"], ["a", "b,c", "it's"],
    ]  # fmt: skip


@pytest.mark.parametrize(("source", "lsn"), [("", None), ('"txId":1,"lsn":7', 7)])
def test_a_table_that_is_gone_is_told_with_all_fields_of_its_source(source, lsn):
    out, work = Outgoing(), envelope()
    work.change(create(), out, 0)
    work.gone(Gone(CUSTOMERS.id, 0, source), out, 0)
    assert told(out)[1]["source"]["lsn"] == lsn
