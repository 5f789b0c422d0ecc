"""A database that an app captures, as it is declared: nothing is looked for yet."""

import pytest

from runnel import App, Debezium
from runnel.capture.errors import InvalidChoice, InvalidName
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


@pytest.mark.parametrize("argument", ["tables", "columns", "mask"])
def test_a_text_is_no_list_of_names(app, argument):
    with pytest.raises(InvalidDeclaration, match=f"{argument} is the text 'customers.phone'") as refused:
        app.capture("shop", "shop.sqlite", **{argument: "customers.phone"})
    assert refused.value.hint == f"give a list: {argument}=['customers.phone']"


@pytest.mark.parametrize(("argument", "given"), [("hash", "customers.email"), ("where", len), ("key", ["email"])])
def test_what_is_said_by_table_or_column_is_a_mapping(app, argument, given):
    with pytest.raises(InvalidDeclaration, match=f"{argument} is a .* and no mapping") as refused:
        app.capture("shop", "shop.sqlite", **{argument: given})
    assert refused.value.hint.startswith(f'write {argument}={{"customers')


def test_a_table_that_is_not_captured(app):
    captured = app.capture("shop", "shop.sqlite", tables=["customers"])
    with pytest.raises(InvalidDeclaration, match="'orders' is none that it captures"):
        captured.table("orders", key="id", schema="id long")


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
