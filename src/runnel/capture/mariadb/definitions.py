"""Tables as the log tells of them, with what only the catalog knows.

The catalog is of now and the log is of then. So the log's word goes first: its names, its types, its primary key. What
the catalog says of a column counts if it still has one of that name that can be the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from runnel.capture.mariadb import catalog
from runnel.capture.mariadb.catalog import CatalogTable
from runnel.capture.mariadb.charsets import Charsets
from runnel.capture.mariadb.connections import Connection
from runnel.capture.mariadb.forms import Forms, Modes
from runnel.capture.mariadb.kinds import Kind
from runnel.capture.mariadb.table_maps import TableMap, Type
from runnel.capture.mariadb.values import Decode, Text, UnknownType, decoder_of, refined, type_of
from runnel.capture.tables import Column, Table, TableId

# A column of the server's own, for a unique index on what is too long for one. Nobody but the log tells of it.
HASH: Final = re.compile(r"DB_ROW_HASH_\d+")

OLD_TIMES: Final = frozenset({Type.TIME, Type.DATETIME, Type.TIMESTAMP})
TIMES: Final = frozenset({"time", "datetime", "timestamp"})


class ShapeColumn(NamedTuple):
    name: str
    kind: Kind
    optional: bool
    type: str  # the server's own name of it


class Shape(NamedTuple):
    """What makes a table another one when it differs."""

    columns: tuple[ShapeColumn, ...]
    key: tuple[str, ...]


class Described(NamedTuple):
    table: Table
    kinds: tuple[Kind, ...]


class Shown(NamedTuple):
    """A table of the log, with what decodes its rows."""

    table: Table
    decoders: tuple[Decode, ...]
    hidden: frozenset[int] = frozenset()  # the places of columns that the log has and the table has not


class Definitions:
    """The tables that are known. It asks the catalog over a connection of its own, which `close` closes until later.

    A table whose shape stays the same stays the same object, wherever it was read from.
    """

    def __init__(self, modes: Modes, connect: Callable[[], Connection]) -> None:
        self._forms = Forms(modes)
        self._connect = connect
        self._connection: Connection | None = None
        self._charsets = Charsets(
            lambda: catalog.charsets(self.connection), lambda name: catalog.characters(self.connection, name)
        )
        self._known: dict[tuple[TableId, Shape], Table] = {}

    @property
    def connection(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            if self._connection.open:
                self._connection.close()
            self._connection = None

    def text_of(self, collation: int | None) -> Text | None:
        """How texts of a collation are read; None for bytes."""
        return self._charsets.text_of(collation)

    def of_catalog(self, found: CatalogTable) -> Described:
        """As it is now."""
        columns = tuple(ShapeColumn(*column) for column in found.columns)
        table = self._table(found.id, Shape(columns, found.key))
        return Described(table, tuple(column.kind for column in columns))

    def of_log(self, told: TableMap) -> Shown:
        """As it was then."""
        identity = TableId(told.schema, told.name)
        found = catalog.table(self.connection, identity)
        known = {column.name: column for column in found.columns} if found else {}
        columns, decoders, hidden = [], [], []
        for place, column in enumerate(told.columns):
            kind, decode = decoder_of(column, self._charsets.text_of)
            if HASH.fullmatch(column.name) and column.name not in known:
                hidden.append(place)
                decoders.append(decode)
                continue
            now = known.get(column.name)
            if column.type in OLD_TIMES and now is not None and now.kind.name in TIMES and now.kind.size:
                raise UnknownType(f"column {column.name} has parts of a second in an old form, which no log tells")
            kind, decode = refined(kind, decode, column, now and now.kind)
            name = now.type if now is not None and kind is now.kind else type_of(column, kind)
            columns.append(ShapeColumn(column.name, kind, column.is_nullable, name))
            decoders.append(decode)
        key = tuple(told.columns[place].name for place in told.key) or _unique(columns, found)
        return Shown(self._table(identity, Shape(tuple(columns), key)), tuple(decoders), frozenset(hidden))

    def _table(self, identity: TableId, shape: Shape) -> Table:
        known = self._known.get((identity, shape))
        if known is None:
            known = self._known[identity, shape] = self._made(identity, shape)
        return known

    def _made(self, identity: TableId, shape: Shape) -> Table:
        columns = tuple(
            Column(
                column.name,
                self._forms.form(f"{identity}.{column.name}", column.kind, optional=column.optional),
                column.optional,
                column.type,
            )
            for column in shape.columns
        )
        places = {column.name: place for place, column in enumerate(columns)}
        return Table(identity, columns, tuple(places[name] for name in shape.key))


def _unique(columns: list[ShapeColumn], found: CatalogTable | None) -> tuple[str, ...]:
    """A unique index, which only the catalog tells of."""
    filled = {column.name for column in columns if not column.optional}
    return found.key if found is not None and filled.issuperset(found.key) else ()
