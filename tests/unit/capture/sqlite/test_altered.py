"""A table that is altered between the making of its triggers and its first reading is looked at again."""

import sqlite3
from contextlib import closing

import pytest

from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource
from runnel.capture.sqlite.errors import TableAltered


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_column_that_is_renamed_before_the_snapshot_is_not_read_by_its_former_name(tmp_path, journal):
    """SQLite would take the name for a text, and give that as the value."""
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"PRAGMA journal_mode = {journal}")
        writer.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        writer.execute("INSERT INTO orders VALUES (1, NULL)")
        with closing(SqliteSource(path, "shop", Selection().has)) as source:
            source.prepare()
            writer.execute("ALTER TABLE orders RENAME COLUMN name TO title")
            with source.snapshot() as snapshot:
                (table,) = snapshot.tables()
                with pytest.raises(TableAltered, match=r"table orders of database .* was altered before it was read"):
                    snapshot.rows(table)
            source.prepare()
            with source.snapshot() as snapshot:
                (table,) = snapshot.tables()
                assert [column.name for column in table.columns] == ["id", "title"]
                assert list(snapshot.rows(table)) == [[(1, None)]]
