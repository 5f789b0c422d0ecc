"""What the database's catalog says of tables and types, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from runnel.capture.postgres.connections import Connection, identifier
from runnel.capture.tables import TableId

# An index tells rows apart if none of its columns is null and it holds at every moment, not only at commit.
INDEXES: Final = """
SELECT i.indisprimary, i.indisreplident,
       array_agg(a.attname::text ORDER BY k.place), bool_and(a.attnotnull)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisprimary, i.indisreplident
ORDER BY i.indexrelid
"""
# Servers tell generated columns from 18 on, if they are stored; though older ones list them as published.
COLUMNS: Final = """
SELECT attname::text, atttypid::int8, atttypmod, attnotnull, format_type(atttypid, atttypmod), attgenerated <> ''
FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
  AND (attgenerated = '' OR attgenerated = 's' AND current_setting('server_version_num')::int >= 180000)
ORDER BY attnum
"""
# Of one that has just been dropped nobody can say who may read it.
TABLES: Final = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relreplident::text,
       (SELECT inhparent::int8 FROM pg_inherits WHERE inhrelid = c.oid AND c.relispartition),
       coalesce(has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'), true),
       pg_has_role(c.relowner, 'USAGE'), greatest(c.reltuples, 0)::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY n.nspname, c.relname
"""
TYPE: Final = """
SELECT oid::int8, typname::text, typtype::text,
       CASE WHEN typcategory = 'A' AND typlen = -1 AND typsend::text = 'array_send' THEN typelem ELSE 0 END::int8,
       typdelim::text, typbasetype::int8, typtypmod,
       ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
FROM pg_type t WHERE oid = %s
"""
# By what a type is put in order: equal, from there on, behind it. A domain has those of the type that it is made of.
OPERATORS: Final = """
WITH RECURSIVE base(type) AS (
    SELECT %s::oid UNION ALL SELECT t.typbasetype FROM pg_type t JOIN base b ON b.type = t.oid WHERE t.typtype = 'd'
)
SELECT array_agg(n.nspname::text ORDER BY s.amopstrategy),
       array_agg(o.oprname::text ORDER BY s.amopstrategy)
FROM base b JOIN pg_opclass c ON c.opcintype = b.type AND c.opcdefault
JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
JOIN pg_amop s ON s.amopfamily = c.opcfamily AND s.amopstrategy BETWEEN 3 AND 5
  AND s.amoplefttype = b.type AND s.amoprighttype = b.type
JOIN pg_operator o ON o.oid = s.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
GROUP BY c.oid
"""
OWN_TYPES: Final = 16_384  # where the numbers of those begin that the server was not made with


class ListedTable(NamedTuple):
    oid: int
    id: TableId
    kind: str  # r, or p for one that is partitioned
    identity: str  # d, n, f or i
    parent: int | None
    is_readable: bool
    is_owned: bool
    rows: int


class CatalogColumn(NamedTuple):
    name: str
    type: int
    modifier: int
    is_filled: bool  # NOT NULL
    sql_type: str
    is_generated: bool = False  # and stored


class Operators(NamedTuple):
    """By which the values of a type are compared, as SQL has them."""

    same: str = "="
    from_on: str = ">="
    behind: str = ">"


class CatalogTable(NamedTuple):
    """`key` are the names of the columns that tell its rows apart; none where nothing does. `operators` are those of
    the key's columns whose types have their own, as those of extensions: by its usual name nobody finds one, or finds
    that of another type, and citext would be compared as text, and still be put in its own order.
    """

    oid: int
    id: TableId
    kind: str
    identity: str
    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...]
    operators: Mapping[str, Operators] = MappingProxyType({})


class CatalogType(NamedTuple):
    """`kind` is b, c, d, e, m, p or r; `element` is that of an array, `base` that of a domain."""

    oid: int
    name: str
    kind: str
    element: int
    delimiter: str
    base: int
    modifier: int
    labels: tuple[str, ...]


def tables(connection: Connection) -> list[ListedTable]:
    """Those that can be captured: all that are not temporary, unlogged, or the system's."""
    return [
        ListedTable(oid, TableId(schema, name), *rest)
        for oid, schema, name, *rest in connection.execute(TABLES).fetchall()
    ]


def table(connection: Connection, oid: int) -> CatalogTable | None:
    """As it is now; None if it is gone."""
    found = connection.execute(
        "SELECT n.nspname::text, c.relname::text, c.relkind::text, c.relreplident::text "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s",
        [oid],
    ).fetchone()
    if found is None:
        return None
    schema, name, kind, identity = found
    columns = tuple(CatalogColumn(*column) for column in connection.execute(COLUMNS, [oid]).fetchall())
    indexes = connection.execute(INDEXES, [oid]).fetchall()
    key = _key(identity, indexes)
    own = {
        column.name: operators
        for column in columns
        if column.name in key and (operators := _operators(connection, column.type)) is not None
    }
    return CatalogTable(oid, TableId(schema, name), kind, identity, columns, key, own)


def _operators(connection: Connection, type_oid: int) -> Operators | None:
    """None where those of the server's own do, by their usual names."""
    if type_oid < OWN_TYPES:
        return None
    found = connection.execute(OPERATORS, [type_oid]).fetchone()
    if found is None or set(found[0]) == {"pg_catalog"}:
        return None
    schemas, names = found
    return Operators(*(f"OPERATOR({identifier(schema)}.{name})" for schema, name in zip(schemas, names, strict=True)))


def _key(identity: str, indexes: Sequence[tuple[bool, bool, list[str], bool]]) -> tuple[str, ...]:
    """What the log tells of a row that is gone must hold it: so the identity goes before the primary key."""
    for is_primary, is_identity, names, is_filled in indexes:
        if is_identity if identity == "i" else is_primary:
            return tuple(names) if is_filled else ()
    if identity == "f":
        return next((tuple(names) for _, _, names, is_filled in indexes if is_filled), ())
    return ()


def type_of(connection: Connection, oid: int) -> CatalogType | None:
    found = connection.execute(TYPE, [oid]).fetchone()
    return CatalogType(*found)._replace(labels=tuple(found[-1])) if found else None
