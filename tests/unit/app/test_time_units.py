"""Times that are numbers are read in the unit in which they are written, or not at all."""

import pytest

from runnel import App, Debezium, Raw
from runnel.app import capturing
from runnel.capture import at_work
from runnel.capture.forms import MICRO_TIMESTAMP, STRING, TIMESTAMP, ZONED_TIMESTAMP
from runnel.capture.tables import Column, Table, TableId
from runnel.graph import InvalidDeclaration
from tests.unit.app.one_table import OneTable

SCHEMA = "id long, seen timestamp, paid timestamp_ntz, born timestamp"
POSTGRES = "postgresql://runnel@db.example.org/shop"
MARIADB = "mariadb://runnel@db.example.org/public"


def visits(**forms):
    """A database whose table has columns of these forms; the others of the schema are texts."""
    others = dict.fromkeys(("id", "seen", "paid", "born"), STRING)
    columns = tuple(Column(name, form) for name, form in {**others, **forms}.items())
    return OneTable(Table(TableId("public", "visits"), columns, ()))


def opened(monkeypatch, url, schema, source, **chosen):
    monkeypatch.setattr(at_work, "open_source", lambda *_, **_options: source)
    capture = App("shop").capture("shop", url, **chosen)
    capture.stream("visits", schema=schema)
    return capturing.opened(capture)


@pytest.mark.parametrize(
    ("url", "form", "read", "written"), [(POSTGRES, TIMESTAMP, "us", "ms"), (MARIADB, MICRO_TIMESTAMP, "ms", "us")]
)
def test_a_time_of_another_unit_is_refused_with_what_to_write(monkeypatch, url, form, read, written):
    source = visits(seen=form)
    with pytest.raises(InvalidDeclaration) as refused:
        opened(monkeypatch, url, SCHEMA, source)
    said = f"schema reads the times of public.visits.seen in {read}, and they are written in {written}"
    assert refused.value.what == f'stream "shop.public.visits": {said}'
    assert refused.value.hint == f"give schema=Debezium(..., time_unit='{written}')"
    assert source.is_closed
    opened(monkeypatch, url, Debezium(SCHEMA, time_unit=written), source)


def test_times_of_several_units_are_told_by_column(monkeypatch):
    source = visits(seen=TIMESTAMP, paid=MICRO_TIMESTAMP)
    with pytest.raises(InvalidDeclaration) as refused:
        opened(monkeypatch, MARIADB, SCHEMA, source)
    units = {"seen": "ms", "paid": "us"}
    assert refused.value.hint == f"give schema=Debezium(..., time_unit={units})"
    opened(monkeypatch, MARIADB, Debezium(SCHEMA, time_unit=units), source)


def test_times_that_are_text_hidden_or_not_declared_as_times_have_no_unit(monkeypatch):
    source = visits(id=TIMESTAMP, seen=ZONED_TIMESTAMP, paid=TIMESTAMP, born=STRING, other=TIMESTAMP)
    opened(monkeypatch, POSTGRES, SCHEMA, source, mask=["visits.paid"])


def test_who_reads_bytes_reads_no_times(monkeypatch):
    opened(monkeypatch, POSTGRES, Raw(), visits(value=TIMESTAMP))
