"""The columns that an app reads of a captured table are those that leave the database, or it is told."""

import pytest

from runnel import App, Debezium, Raw
from runnel.app import capturing
from runnel.capture import at_work
from runnel.capture.forms import STRING
from runnel.capture.tables import Column, Table, TableId
from runnel.graph import InvalidDeclaration
from tests.unit.app.one_table import OneTable


def table_of(*columns):
    return Table(TableId("main", "customers"), tuple(Column(name, STRING) for name in columns), (0,))


@pytest.fixture
def source(monkeypatch):
    source = OneTable(table_of("id", "name", "city"))
    monkeypatch.setattr(at_work, "open_source", lambda *_, **_options: source)
    return source


def captured(schema, **chosen):
    found = App("shop").capture("shop", "shop.sqlite", **chosen)
    found.table("customers", key="id", schema=schema)
    return found


@pytest.mark.parametrize("wanted", ["nmae", "Name"])
def test_a_column_that_the_table_lacks_is_refused_with_those_that_it_has(source, wanted):
    with pytest.raises(InvalidDeclaration) as refused:
        capturing.opened(captured(f"id long, {wanted} string"))
    said = f"schema has the column {wanted}, which main.customers does not have"
    assert refused.value.what == f'table "shop.main.customers": {said}'
    assert refused.value.hint == "it has id, name, city"
    assert source.is_closed


def test_a_column_that_is_not_chosen_is_refused_with_what_to_choose(source):
    chosen = {"columns": ["customers.id", "customers.name"]}
    with pytest.raises(InvalidDeclaration) as refused:
        capturing.opened(captured(Debezium("id long, city string"), **chosen))
    assert refused.value.what.endswith("schema has the column city, which the capture leaves out of main.customers")
    assert refused.value.hint == (
        "name it in columns=[...] of the capture, or leave it out of the schema; it sends id, name"
    )


@pytest.mark.parametrize("schema", ["id long", "id long, name string, city string"])
def test_the_columns_need_not_be_all_of_them(source, schema):
    capturing.opened(captured(schema, mask=["customers.city"]))


@pytest.mark.usefixtures("source")
def test_who_reads_bytes_reads_no_columns():
    found = App("shop").capture("shop", "shop.sqlite")
    found.stream("customers", schema=Raw())
    capturing.opened(found)


def test_a_column_that_a_table_loses_is_warned_of_once_and_again_if_it_was_back(caplog):
    found = captured("id long, name string, city string")

    def warned(*columns):
        caplog.clear()
        found.see(table_of(*columns))
        return [record.getMessage() for record in caplog.records]

    said = (
        'table "shop.main.customers": the changes of main.customers come without the column city from here on, '
        "which is null then: it has id, name"
    )
    assert warned("id", "name") == [said]
    assert warned("id", "name") == []
    assert warned("id", "name", "city") == []
    assert warned("id", "name") == [said]


def test_other_tables_may_have_what_they_like(caplog):
    captured("id long, name string").see(Table(TableId("main", "orders"), (Column("id", STRING),), (0,)))
    assert not caplog.records
