"""Tables as the log tells of them, with what only the catalog knows: which columns cannot be null, and the key.

The catalog is of now and the log is of then. So the log's word goes first: its names, its types, the columns of its
identity. What the catalog says of a column counts if it still has one of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runnel.capture.postgres import catalog
from runnel.capture.postgres.catalog import CatalogTable, CatalogType
from runnel.capture.postgres.connections import Connection
from runnel.capture.postgres.forms import Forms, Modes
from runnel.capture.postgres.pgoutput import Relation
from runnel.capture.tables import Column, Table, TableId


class ShapeColumn(NamedTuple):
    name: str
    type: int
    modifier: int
    optional: bool


class Shape(NamedTuple):
    """What makes a table another one when it differs."""

    columns: tuple[ShapeColumn, ...]
    key: tuple[str, ...]
    oid: int


class Definitions:
    """The tables that are known. It asks the catalog over a connection of its own, which `close` closes until later."""

    def __init__(self, modes: Modes, connect: Callable[[], Connection], said: set[str] | None = None) -> None:
        self._forms = Forms(modes, self._type, said)
        self._connect = connect
        self._connection: Connection | None = None
        self._shapes: dict[TableId, Shape] = {}
        self._tables: dict[TableId, Table] = {}

    @property
    def connection(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def of_catalog(self, found: CatalogTable, published: frozenset[str] | None = None) -> Table:
        """As it is now, without the columns that are not published: generated ones are only if that is said."""
        columns = tuple(
            ShapeColumn(column.name, column.type, column.modifier, not column.is_filled)
            for column in found.columns
            if (not column.is_generated if published is None else column.name in published)
        )
        names = {column.name for column in columns}
        key = found.key if names.issuperset(found.key) else ()
        return self._known(found.id, Shape(columns, key, found.oid))[0]

    def of_relation(self, relation: Relation) -> tuple[Table, bool]:
        """As it was then, and whether it is another one than before."""
        identity = TableId(relation.schema, relation.name)
        found = catalog.table(self.connection, relation.oid)
        if identity not in self._shapes and found is not None and found.id == identity:
            self.of_catalog(found, frozenset(column.name for column in relation.columns))
        return self._known(identity, shape_of(relation, found, self._shapes.get(identity)))

    def _known(self, identity: TableId, shape: Shape) -> tuple[Table, bool]:
        before = self._shapes.get(identity)
        if before != shape:
            self._shapes[identity] = shape
            self._tables[identity] = self._made(identity, shape)
        return self._tables[identity], before is not None and before != shape

    def _made(self, identity: TableId, shape: Shape) -> Table:
        columns = tuple(
            Column(
                column.name,
                self._forms.form(column.type, column.modifier),
                column.optional,
                self._forms.type_name(column.type),
            )
            for column in shape.columns
        )
        places = {column.name: place for place, column in enumerate(columns)}
        return Table(identity, columns, tuple(places[name] for name in shape.key), shape.oid)

    def _type(self, oid: int) -> CatalogType | None:
        return catalog.type_of(self.connection, oid)


def shape_of(relation: Relation, found: CatalogTable | None, before: Shape | None) -> Shape:
    key = _key(relation, found, before)
    filled = {column.name for column in found.columns if column.is_filled} if found else set()
    filled.update(key)
    columns = tuple(
        ShapeColumn(column.name, column.type, column.modifier, column.name not in filled) for column in relation.columns
    )
    return Shape(columns, key, relation.oid)


def _key(relation: Relation, found: CatalogTable | None, before: Shape | None) -> tuple[str, ...]:
    names = {column.name for column in relation.columns}
    candidates = [known.key for known in (found, before) if known is not None and names.issuperset(known.key)]
    if relation.identity == "f":  # all columns are its identity, which tells nothing of its key
        return candidates[0] if candidates else ()
    marked = tuple(column.name for column in relation.columns if column.is_key)
    if not marked and relation.identity == "n":
        return candidates[0] if candidates else ()
    return next((key for key in candidates if set(key) == set(marked)), marked)
