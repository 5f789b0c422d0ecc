"""What the database's catalog says of tables, as plain values."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from runnel.capture.mariadb.connections import Connection, ask, ask_one, literal
from runnel.capture.mariadb.kinds import Kind, kind_of, type_of
from runnel.capture.mariadb.spelling import Letters
from runnel.capture.tables import TableId

TABLES: Final = """
SELECT TABLE_NAME, ENGINE, coalesce(TABLE_ROWS, 0), TABLE_TYPE FROM information_schema.TABLES
WHERE TABLE_SCHEMA = {schema} AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME
"""
VERSIONED: Final = """
SELECT 1 FROM information_schema.TABLES
WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name} AND TABLE_TYPE = 'SYSTEM VERSIONED'
"""
COLUMNS: Final = """
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE,
       coalesce(NUMERIC_PRECISION, DATETIME_PRECISION, 0), coalesce(NUMERIC_SCALE, 0), EXTRA
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name} ORDER BY ORDINAL_POSITION
"""
# With parts of a second as servers before 10.1 kept them, of which the log does not tell how many digits they have.
OLD_TIMES: Final = """
SELECT COLUMN_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name} AND DATETIME_PRECISION > 0
  AND COLUMN_TYPE LIKE '%/* mariadb-5.3 */%'
"""
# In the server's own order, which has no column: the first that is fit is the key in its log, too.
INDEXES: Final = """
SELECT INDEX_NAME, COLUMN_NAME, NULLABLE, SUB_PART FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name} AND NON_UNIQUE = 0
"""
CHECKS: Final = """
SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = {schema} AND TABLE_NAME = {name}
"""
_JSON: Final = re.compile(r"json_valid\(`((?:[^`]|``)+)`\)", re.IGNORECASE)
# Newer servers have collations that are the same for several sets, with a number for each.
COLLATIONS: Final = (
    "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL",
    "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL",
)


class ListedTable(NamedTuple):
    id: TableId
    engine: str
    rows: int
    is_versioned: bool


class CatalogColumn(NamedTuple):
    name: str
    kind: Kind
    optional: bool
    type: str  # the server's own name of it


class CatalogTable(NamedTuple):
    """`key` are the columns of the primary key, or else of a unique index in which nothing can be null."""

    id: TableId
    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...]


def letters(connection: Connection) -> Letters:
    (found,) = ask_one(connection, "SELECT @@lower_case_table_names")
    return Letters(int(found))


def spelled(connection: Connection, schema: str) -> str:
    """A database's name as it is kept, where it may be written with any letters."""
    query = f"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE lower(SCHEMA_NAME) = lower({literal(schema)})"
    return next((str(name) for (name,) in ask(connection, query)), schema)


def tables(connection: Connection, schema: str) -> list[ListedTable]:
    found = ask(connection, TABLES.format(schema=literal(schema)))
    return [
        ListedTable(TableId(schema, name), engine or "", int(rows), kind != "BASE TABLE")
        for name, engine, rows, kind in found
    ]


def table(connection: Connection, identity: TableId) -> CatalogTable | None:
    named = {"schema": literal(identity.schema), "name": literal(identity.name)}
    found = ask(connection, COLUMNS.format(**named))
    if not found:
        return None
    json = {
        match[1].replace("``", "`")
        for (clause,) in ask(connection, CHECKS.format(**named))
        if (match := _JSON.fullmatch(clause))
    }
    columns = tuple(
        CatalogColumn(
            name,
            kind_of(data_type, column_type, int(precision), int(scale), is_json=name in json),
            nullable == "YES",
            type_of(data_type, column_type, is_json=name in json),
        )
        for name, data_type, column_type, nullable, precision, scale, _ in found
    )
    return CatalogTable(identity, columns, _key(connection, named))


def _key(connection: Connection, named: dict[str, str]) -> tuple[str, ...]:
    indexes: dict[str, list[tuple[str, bool]]] = {}
    for index, column, nullable, prefix in ask(connection, INDEXES.format(**named)):
        fits = index == "PRIMARY" or (nullable != "YES" and prefix is None and column is not None)
        indexes.setdefault(index, []).append((column, fits))
    for columns in indexes.values():
        if all(fits for _, fits in columns):
            return tuple(column for column, _ in columns)
    return ()


def is_versioned(connection: Connection, identity: TableId) -> bool:
    named = {"schema": literal(identity.schema), "name": literal(identity.name)}
    return bool(ask(connection, VERSIONED.format(**named)))


def old_times(connection: Connection, identity: TableId) -> list[str]:
    named = {"schema": literal(identity.schema), "name": literal(identity.name)}
    return [str(column) for (column,) in ask(connection, OLD_TIMES.format(**named))]


def charsets(connection: Connection) -> dict[int, str]:
    newer, older = COLLATIONS
    has_numbers = ask(
        connection,
        "SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'"
        " AND TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'ID'",
    )
    return {int(number): name for number, name in ask(connection, newer if has_numbers else older)}


def characters(connection: Connection, charset: str) -> str:
    """The 256 of a set of one byte; those that it does not have are question marks."""
    every = bytes(range(256)).hex()
    (found,) = ask_one(connection, f"SELECT CONVERT(_{charset} x'{every}' USING utf8mb4)")
    return str(found)
