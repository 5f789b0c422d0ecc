"""Who may read a view in PostgreSQL may read it when a copy with other columns has taken its place, and nobody else."""

import itertools
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

from runnel.views.opening import open_store
from runnel.views.store import Declared
from tests.contract.views.clicks import QUERY, SCHEMA, claimed, marker, seen
from tests.contract.views.conftest import Place, ask_postgres

pytestmark = [pytest.mark.servers, pytest.mark.parametrize("kind", ["postgres"])]

BY_DAY = Declared("clicks", ("page", "day"), SCHEMA.append(pa.field("day", pa.int32())))
numbers = itertools.count()


@dataclass(frozen=True)
class Reader:
    """A role that may log in and see the schema, and nothing else."""

    name: str
    address: str

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return ask_postgres(self.address, statement)


@pytest.fixture
def reader(postgres, place: Place) -> Reader:
    name = f'"reader {next(numbers)}"'
    ((schema,),) = place.query("SELECT current_schema()")
    place.query(f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {name}")
    url = postgres.url_of(quote(name.strip('"')))
    return Reader(name, f"{url}?options=-csearch_path%3D{schema}")


@pytest.fixture
def shown(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    return store


def exchange(store):
    """With a copy that was just made."""
    with store.copy_writer(BY_DAY, QUERY) as writer:
        writer.claim()
        rows = pa.table({"page": ["d"], "seen": [5], "day": [1]}, schema=BY_DAY.schema)
        writer.apply(rows, marker(7, "checkpoint-2"))
    store.exchange("clicks")


def test_whoever_reads_it_goes_on(shown, place, reader):
    ((schema,),) = place.query("SELECT current_schema()")
    place.query(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader.name}")
    exchange(shown)
    with open_store(reader.address).reader("clicks") as found:
        assert found.rows().to_pylist() == [{"page": "d", "seen": 5, "day": 1}]
        assert found.changes(found.snapshot().next_position).rows.num_rows == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.query("DELETE FROM clicks")


def test_what_everybody_may_do_and_what_may_be_granted_on_is_handed_on(shown, place, reader):
    place.query(f"GRANT SELECT ON clicks TO PUBLIC; GRANT INSERT, UPDATE ON clicks TO {reader.name} WITH GRANT OPTION")
    exchange(shown)
    asked = "SELECT privilege_type, grantee, is_grantable FROM information_schema.table_privileges"
    there = "table_name = 'clicks' AND table_schema = current_schema() AND grantee <> grantor"
    granted = place.query(f"{asked} WHERE {there} ORDER BY 1")
    name = reader.name.strip('"')
    assert granted == [("INSERT", name, "YES"), ("SELECT", "PUBLIC", "NO"), ("UPDATE", name, "YES")]


def test_a_grant_on_a_column_is_one_on_the_column_of_the_same_name(shown, place, reader):
    place.query(f"GRANT SELECT (page) ON clicks TO {reader.name}")
    exchange(shown)
    assert reader.query("SELECT page FROM clicks") == [("d",)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.query("SELECT day FROM clicks")
    place.query(f"GRANT SELECT (day) ON clicks TO {reader.name}")
    shown.exchange("clicks")
    assert reader.query("SELECT page FROM clicks") == [("a",)]


def test_what_was_revoked_meanwhile_does_not_come_back_with_the_old_table(shown, place, reader):
    place.query(f"GRANT SELECT ON clicks TO {reader.name}; GRANT SELECT (seen) ON clicks TO PUBLIC")
    exchange(shown)
    assert reader.query("SELECT page FROM clicks") == [("d",)]
    place.query(f"REVOKE ALL ON clicks FROM {reader.name}; REVOKE ALL ON clicks FROM PUBLIC")
    shown.exchange("clicks")
    for column in ("page", "seen"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.query(f"SELECT {column} FROM clicks")


def test_what_is_said_of_the_table_and_its_columns_is_handed_on(shown, place):
    place.query("COMMENT ON TABLE clicks IS 'one''s clicks'; COMMENT ON COLUMN clicks.page IS 'its name'")
    exchange(shown)
    said = "SELECT obj_description('clicks'::regclass), col_description('clicks'::regclass, 1)"
    assert place.query(said) == [("one's clicks", "its name")]


def test_a_table_with_policies_hands_on_no_grants_and_says_so(shown, place, reader, caplog):
    place.query(f"GRANT SELECT ON clicks TO {reader.name}; ALTER TABLE clicks ENABLE ROW LEVEL SECURITY")
    place.query("CREATE POLICY few ON clicks FOR SELECT USING (seen < 3)")
    assert reader.query("SELECT page FROM clicks") == [("a",)]
    exchange(shown)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.query("SELECT page FROM clicks")
    (message,) = caplog.messages
    assert "has policies of row security" in message
