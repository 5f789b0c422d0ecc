"""Times that are numbers are read in the unit in which they are written, or not at all."""

import pytest

from runnel import App, Debezium, Raw
from runnel.app import capturing
from runnel.capture.forms import MICRO_TIMESTAMP, STRING, TIMESTAMP, ZONED_TIMESTAMP
from runnel.capture.tables import Column, Table, TableId
from runnel.graph import InvalidDeclaration

SCHEMA = "id long, seen timestamp, paid timestamp_ntz, born timestamp"
POSTGRES = "postgresql://runnel@db.example.org/shop"
MARIADB = "mariadb://runnel@db.example.org/public"


class Source:
    """A database with one table, whose columns have these forms; the others of the schema are texts."""

    database = "shop"

    def __init__(self, **forms):
        others = dict.fromkeys(("id", "seen", "paid", "born"), STRING)
        columns = tuple(Column(name, form) for name, form in {**others, **forms}.items())
        self._table = Table(TableId("public", "visits"), columns, ())
        self.is_closed = False

    def tables(self):
        return [self._table.id]

    def table(self, _):
        return self._table

    def close(self):
        self.is_closed = True


def opened(monkeypatch, url, schema, source, **chosen):
    monkeypatch.setattr(capturing, "open_source", lambda *_: source)
    capture = App("shop").capture("shop", url, **chosen)
    capture.stream("visits", schema=schema)
    return capturing.opened(capture)


@pytest.mark.parametrize(
    ("url", "form", "read", "written"), [(POSTGRES, TIMESTAMP, "us", "ms"), (MARIADB, MICRO_TIMESTAMP, "ms", "us")]
)
def test_a_time_of_another_unit_is_refused_with_what_to_write(monkeypatch, url, form, read, written):
    source = Source(seen=form)
    with pytest.raises(InvalidDeclaration) as refused:
        opened(monkeypatch, url, SCHEMA, source)
    said = f"schema reads the times of public.visits.seen in {read}, and they are written in {written}"
    assert refused.value.what == f'stream "shop.public.visits": {said}'
    assert refused.value.hint == f"give schema=Debezium(..., time_unit='{written}')"
    assert source.is_closed
    opened(monkeypatch, url, Debezium(SCHEMA, time_unit=written), source)


def test_times_of_several_units_are_told_by_column(monkeypatch):
    source = Source(seen=TIMESTAMP, paid=MICRO_TIMESTAMP)
    with pytest.raises(InvalidDeclaration) as refused:
        opened(monkeypatch, MARIADB, SCHEMA, source)
    units = {"seen": "ms", "paid": "us"}
    assert refused.value.hint == f"give schema=Debezium(..., time_unit={units})"
    opened(monkeypatch, MARIADB, Debezium(SCHEMA, time_unit=units), source)


def test_times_that_are_text_hidden_or_not_declared_as_times_have_no_unit(monkeypatch):
    source = Source(id=TIMESTAMP, seen=ZONED_TIMESTAMP, paid=TIMESTAMP, born=STRING, other=TIMESTAMP)
    opened(monkeypatch, POSTGRES, SCHEMA, source, mask=["visits.paid"])


def test_who_reads_bytes_reads_no_times(monkeypatch):
    opened(monkeypatch, POSTGRES, Raw(), Source(value=TIMESTAMP))
