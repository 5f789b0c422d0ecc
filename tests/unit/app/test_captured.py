"""A database that an app captures, as it is declared: nothing is looked for yet."""

import pytest

from runnel import App, Debezium
from runnel.app.capture_options import CaptureOptions
from runnel.capture.errors import InvalidChoice, InvalidName
from runnel.capture.forms import Binary
from runnel.capture.options import Options
from runnel.capture.outbox import Outbox, OutboxColumns
from runnel.capture.selection import Masked
from runnel.capture.tables import TableId
from runnel.graph import InvalidDeclaration, NameTaken

SECRET = "postgresql://runnel:sesame@db.example.org/shop"


@pytest.fixture
def app():
    return App("shop")


def test_declaring_looks_for_no_database(app):
    captured = app.capture("shop", "sqlite:/nowhere/shop.sqlite", tables=["customers"])
    assert app.captures == [captured]


@pytest.mark.parametrize(
    ("url", "name", "topic"),
    [
        ("sqlite:shop.sqlite", "customers", "shop.main.customers"),
        ("shop.sqlite", "customers", "shop.main.customers"),
        (SECRET, "customers", "shop.public.customers"),
        (SECRET, "sales.orders", "shop.sales.orders"),
        ("shop.sqlite", "my orders", "shop.main.my_orders"),
        ("mariadb://runnel@db.example.org:3306/web", "customers", "shop.web.customers"),
    ],
)
def test_a_table_is_read_from_the_topic_of_its_schema(app, url, name, topic):
    captured = app.capture("shop", url, tables=[name])
    table = captured.table(name, key="id", schema="id long, total decimal(10,2)")
    assert (table.topic, table.key, captured.topics) == (topic, ("id",), {topic})


def test_a_prefix_is_what_topics_begin_with(app):
    captured = app.capture("shop", "shop.sqlite", prefix="eu.shop")
    assert captured.table("customers", key="id", schema="id long").topic == "eu.shop.main.customers"


@pytest.mark.parametrize("prefix", ["shop", None])
def test_two_captures_do_not_write_the_same_topics(app, prefix):
    app.capture("first", "shop.sqlite", prefix=prefix or "second")
    with pytest.raises(InvalidDeclaration, match='as that of capture "first": both would write the same topics'):
        app.capture("second", "other.sqlite", prefix=prefix)
    assert len(app.captures) == 1


def test_the_forms_of_values_are_those_that_the_capture_writes(app):
    of_sqlite = app.capture("one", "one.sqlite").stream("t", schema="id long")
    of_postgres = app.capture("two", SECRET).stream("t", schema="id long")
    of_mariadb = app.capture("three", "mariadb://u@h/db").stream("t", schema="id long")
    assert of_sqlite.columns.format == Debezium("id long", decimals="string")
    assert of_postgres.columns.format == Debezium("id long")
    assert of_mariadb.columns.format == Debezium("id long", time_unit="ms")
    ways = {"decimals": "double", "times": "connect", "binary": "hex"}
    of_ways = app.capture("five", SECRET, **ways).stream("t", schema="id long")
    assert of_ways.columns.format == Debezium("id long", time_unit="ms", decimals="double", binary="hex")
    given = Debezium("id long", binary="hex")
    assert (
        app.capture("four", SECRET).stream("u", schema=given, time="_source_time", late="1 minute").columns.format
        == given
    )


def test_what_leaves_the_database_is_chosen(app):
    captured = app.capture(
        "shop",
        "shop.sqlite",
        tables=["customers"],
        columns=["customers.id", "customers.email", "customers.phone"],
        mask=["customers.phone"],
        hash={"customers.email": "pepper"},
        where={"customers": lambda row: row["id"] > 10},
        key={"customers": "email"},
    )
    chosen = captured.selection
    assert chosen.has(TableId("main", "customers"))
    assert not chosen.has(TableId("main", "orders"))
    assert list(chosen.keys.values()) == [["email"]]
    assert [type(each).__name__ for each in chosen.hidden.values()] == ["Masked", "Hashed"]
    assert all(passes({"id": 11}) and not passes({"id": 10}) for passes in chosen.rows.values())


@pytest.mark.parametrize("argument", ["tables", "without_tables", "columns", "without_columns", "mask"])
def test_a_text_is_no_list_of_names(app, argument):
    with pytest.raises(InvalidDeclaration, match=f"{argument} is the text 'customers.phone'") as refused:
        app.capture("shop", "shop.sqlite", **{argument: "customers.phone"})
    assert refused.value.hint == f"give a list: {argument}=['customers.phone']"


@pytest.mark.parametrize(("argument", "given"), [("hash", "customers.email"), ("where", len), ("key", ["email"])])
def test_what_is_said_by_table_or_column_is_a_mapping(app, argument, given):
    with pytest.raises(InvalidDeclaration, match=f"{argument} is a .* and no mapping") as refused:
        app.capture("shop", "shop.sqlite", **{argument: given})
    assert refused.value.hint.startswith(f'write {argument}={{"customers')


def test_tables_and_columns_are_left_out_masks_have_a_length_and_conditions_are_text(app):
    chosen = app.capture(
        "shop",
        "shop.sqlite",
        without_tables=["notes"],
        without_columns=["customers.phone"],
        mask=["customers.email:7", "customers.name"],
        where={"customers": "id > 10 and city = Graz"},
    ).selection
    assert chosen.has(TableId("main", "customers"))
    assert not chosen.has(TableId("main", "notes"))
    assert chosen.without_columns == [r".*\.customers.phone"]
    assert chosen.hidden == {r".*\.customers.email": Masked(7), r".*\.customers.name": Masked()}
    (passes,) = chosen.rows.values()
    assert passes({"id": 11, "city": "Graz"})
    assert not passes({"id": 11, "city": "Wien"})
    assert set(passes.columns) == {"id", "city"}


def test_what_is_asked_of_a_capture_are_its_options(app, tmp_path):
    captured = app.capture(
        "shop",
        SECRET,
        prefix="eu",
        partitions=3,
        schemas=True,
        schema_changes=True,
        outbox="outbox",
        outbox_topic="events.${routedByValue}",
        transactions=True,
        heartbeat="1 minute 30 seconds",
        binary="hex",
        snapshot="incremental",
        chunk=7,
        snapshot_rate=0.5,
        decimals="string",
        times="connect",
        slot="a_slot",
        publication="a_publication",
        in_progress=tmp_path,
        retained_warning=5_000,
    )
    own = {"decimals": "string", "times": "connect", "slot": "a_slot", "publication": "a_publication"}
    assert captured.options == Options(
        "shop",
        SECRET,
        captured.selection,
        prefix="eu",
        partitions=3,
        schemas=True,
        schema_changes=True,
        outbox=Outbox(r".*\.outbox", topic="events.${routedByValue}"),
        transactions=True,
        heartbeat=90.0,
        binary=Binary.HEX,
        snapshot="incremental",
        chunk=7,
        snapshot_rate=0.5,
        own={**own, "in_progress": str(tmp_path)},
        retained_warning=5_000,
    )
    assert "sesame" not in repr(captured.options)


def test_what_is_not_given_or_none_is_as_ever(app):
    nothing = dict.fromkeys(CaptureOptions.__annotations__)
    captured = app.capture("shop", "shop.sqlite", **nothing)
    assert captured.options == Options("shop", "shop.sqlite", captured.selection)


def test_an_outbox_may_have_names_of_its_own(app):
    outbox = Outbox(r"main\.events", OutboxColumns(id="event_id"))
    assert app.capture("shop", "shop.sqlite", outbox=outbox).options.outbox is outbox


@pytest.mark.parametrize(
    ("given", "what", "hint"),
    [
        ({"schemas": "yes"}, "schemas is 'yes', and neither True nor False", "write schemas=True, or leave it out"),
        ({"transactions": 1}, "transactions is 1, and neither", "write transactions=True, or leave it out"),
        ({"partitions": 0}, "partitions is 0, and no number above 0", "write one such as partitions=3"),
        ({"chunk": True}, "chunk is True, and no number above 0", "write one such as chunk=1024"),
        ({"retained_warning": "1 GB"}, "retained_warning is '1 GB', and no number", "5_000_000_000, a number of bytes"),
        ({"snapshot_rate": 0}, "snapshot_rate is 0, and no number above 0", "such as snapshot_rate=20_000"),
        ({"snapshot": "never"}, "snapshot is 'never', which is none of its ways", "one of initial, incremental, none"),
        ({"snapshot": ["none"]}, "snapshot is ['none'], which is none of its ways", "one of initial, incremental"),
        ({"binary": "octal"}, "binary is 'octal', which is none", "one of bytes, base64, base64-url-safe, hex"),
        ({"heartbeat": "10s a day"}, "heartbeat '10s a day' is no duration", 'such as "30 seconds"'),
        ({"heartbeat": 10}, "heartbeat 10 is no duration", 'such as "30 seconds"'),
        ({"heartbeat": "0 seconds"}, "heartbeat is no time at all", 'such as "10 seconds"'),
        ({"outbox": 7}, "outbox is 7, and neither a table nor an Outbox", 'write outbox="outbox", or Outbox(...)'),
        (
            {"outbox_topic": "events"},
            "outbox_topic is given without the name of an outbox",
            'name the table, too: outbox="outbox"',
        ),
        (
            {"outbox": "o", "outbox_topic": "events"},
            "outbox_topic 'events' says nothing of the event: ${routedByValue} is not part of it",
            "write one such as 'outbox.event.${routedByValue}'",
        ),
        ({"slot": "mine"}, "slot is nothing that a capture of sqlite has", "leave it out"),
        ({"decimals": "string"}, "decimals is nothing that a capture of sqlite has", "leave it out"),
        ({"decimals": "exact"}, "decimals is 'exact', which is none of its ways", "one of precise, string, double"),
        ({"publication": ""}, "publication is '', and no text", "write publication=TEXT"),
        ({"in_progress": "/nowhere"}, "in_progress is '/nowhere', and no directory that is there", "make it first"),
        ({"where": {"t": "id >"}}, 'where of t: condition "id >" cannot be used', "expected one such as city = 'Graz'"),
        ({"where": {"t": 7}}, "where of t is 7, which says nothing of a row", 'write where={"customers": "id > 10"}'),
    ],
    ids=str,
)
def test_what_cannot_be_asked_of_a_capture_is_told_with_its_remedy(app, given, what, hint):
    with pytest.raises(InvalidDeclaration) as refused:
        app.capture("shop", "shop.sqlite", **given)
    assert refused.value.what.startswith(f'capture "shop": {what}')
    assert hint in refused.value.hint
    assert refused.value.argument in given
    assert app.captures == []


def test_an_option_that_is_none_is_told_as_python_does(app):
    with pytest.raises(TypeError, match="unexpected keyword argument 'tabels'"):
        app.capture("shop", "shop.sqlite", tabels=["customers"])


def test_a_table_that_is_not_captured(app):
    captured = app.capture("shop", "shop.sqlite", tables=["customers"], without_tables=["notes"])
    with pytest.raises(InvalidDeclaration, match="'orders' is none that it captures") as refused:
        captured.table("orders", key="id", schema="id long")
    assert "tables=[.*\\.customers] and without_tables=[.*\\.notes]" in refused.value.hint


def test_an_outbox_is_no_table_of_the_app(app):
    captured = app.capture("shop", "shop.sqlite", outbox="outbox")
    with pytest.raises(InvalidDeclaration, match="'outbox' is its outbox: its rows are events") as refused:
        captured.stream("outbox", schema="id string")
    assert refused.value.hint.startswith("read the topics that they are sent to: app.stream(")


def test_a_password_does_not_show(app):
    captured = app.capture("shop", SECRET)
    assert "sesame" not in f"{captured} {captured!r} {captured.address}"
    assert captured.address == "postgresql://runnel@db.example.org/shop"


def test_names_that_are_taken_or_none(app):
    app.capture("shop", "shop.sqlite")
    with pytest.raises(NameTaken):
        app.capture("shop", "other.sqlite")
    with pytest.raises(InvalidName):
        app.capture("a shop", "shop.sqlite")
    with pytest.raises(InvalidDeclaration, match="url is NoneType"):
        app.capture("other", None)
    with pytest.raises(InvalidChoice):
        app.capture("third", "shop.sqlite", tables=["main.(customers"])
