"""Reads one view, in any database that speaks the SQL of `statements`. Every call sees the view at one moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa

from runnel.views.catalog import Catalog
from runnel.views.changes import CHANGE, POSITION, Changes, of_a_part
from runnel.views.database import Database
from runnel.views.declaration import Kept
from runnel.views.errors import PositionOutOfRange, StoreUnreachable, UnknownKey, UnknownView
from runnel.views.filters import Checked, condition, order
from runnel.views.layout import Layout
from runnel.views.statements import Statements, joined, quoted
from runnel.views.store import Ahead, Marker, Order, Progress, Snapshot, Where
from runnel.views.values import NotOfType, typed

ABOUT = 100_000
MOST = 2**63 - 1  # rows that a database can be asked for

inherited: list[Database] = []
"""Connections that were opened before this process was forked: they are its parent's, and neither used nor closed."""


class Moment(NamedTuple):
    """The view as a transaction sees it."""

    database: Database
    kept: Kept
    layout: Layout
    statements: Statements

    def rows(self, where: Where = (), by: Order = (), limit: int | None = None) -> pa.Table:
        found = condition(where, self.layout, self.database)
        ordered = f" ORDER BY {order(by, self.layout, self.database)}" if by else self.statements.order()
        most = f" LIMIT {min(limit, MOST)}" if limit is not None else ""
        rows = self.database.run(f"{self.statements.select()}{_behind(found)}{ordered}{most}", *found.values)
        return self.database.table(rows, self.layout.schema)


class SqlReader:
    def __init__(self, connect: Callable[[], Database], name: str) -> None:
        self._connect = connect
        self._name = name
        self._database: Database | None = None
        self._process = os.getpid()  # that has opened it
        self._has_seen_it = False
        try:
            self.schema()
            self._has_seen_it = True
        except BaseException:
            self.close()
            raise

    def schema(self) -> pa.Schema:
        with self._moment() as moment:
            return moment.layout.schema

    def key(self) -> tuple[str, ...]:
        with self._moment() as moment:
            return moment.layout.key

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        with self._moment() as moment:
            layout, database = moment.layout, moment.database
            values = _key_values(layout, database, key)
            places = [f"{quoted(name)} = {database.place(at)}" for at, name in enumerate(layout.key, start=1)]
            rows = database.run(f"{moment.statements.select()} WHERE {joined(places, 'AND')}", *values)
            return database.table(rows, layout.schema).to_pylist()[0] if rows else None

    def rows(self, where: Where = (), *, order: Order = (), limit: int | None = None) -> pa.Table:
        with self._moment() as moment:
            return moment.rows(where, order, limit)

    def count(self, where: Where = ()) -> int:
        with self._moment() as moment:
            found = condition(where, moment.layout, moment.database)
            return int(moment.database.run(moment.statements.count_rows() + _behind(found), *found.values)[0][0])

    def snapshot(self, where: Where = ()) -> Snapshot:
        with self._moment() as moment:
            kept = moment.kept
            log, key = kept.log_id() or "", moment.layout.key
            return Snapshot(moment.rows(where), kept.next_position, kept.marker(), log, key)

    def changes(
        self, from_position: int, *, about: int = ABOUT, until: int | None = None, where: Where = ()
    ) -> Changes:
        with self._moment() as moment:
            layout = moment.layout
            self._check(moment.kept, from_position)
            if until is None:
                end = _end(Catalog(moment.database), moment.kept, from_position, about)
            else:
                self._check(moment.kept, until)
                end = until
            found = condition(where, layout, moment.database)
            rows = moment.database.run(moment.statements.select_changes(from_position, end, found.text), *found.values)
            columns = [pa.field(POSITION, pa.int64(), False), pa.field(CHANGE, pa.string(), False), *layout.schema]
            table = moment.database.table(rows, pa.schema(columns))
            told = of_a_part(table) if where else table
            return Changes(told, layout.key, end, moment.kept.log_id() or "")

    def ahead(self, from_position: int, *, about: int = ABOUT) -> Ahead:
        with self._moment() as moment:
            kept = moment.kept
            self._check(kept, from_position)
            end = _end(Catalog(moment.database), kept, from_position, about)
            return Ahead(end, kept.next_position, kept.marker(), kept.log_id() or "")

    def marker(self) -> Marker | None:
        with self._moment() as moment:
            return moment.kept.marker()

    def progress(self) -> Progress:
        with self._moment() as moment:
            kept = moment.kept
            changed = Catalog(moment.database).last_change(kept)
            return Progress(kept.marker(), kept.next_position, changed, kept.log_id() or "")

    def close(self) -> None:
        if self._database is not None:
            if self._is_own:
                self._database.close()
            else:
                inherited.append(self._database)
        self._database = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _is_own(self) -> bool:
        """Whether this process has opened the connection: one that is forked shares those of its parent."""
        return self._process == os.getpid()

    def _check(self, kept: Kept, position: int) -> None:
        if not kept.first_position <= position <= kept.next_position:
            raise PositionOutOfRange(self._name, position, kept.first_position, kept.next_position)

    @contextmanager
    def _moment(self) -> Iterator[Moment]:
        try:
            with ExitStack() as stack:
                yield self._seen(self._reading(stack))
        except StoreUnreachable:
            self.close()
            raise

    def _reading(self, stack: ExitStack) -> Database:
        """In a transaction. A connection that was cut while nobody read is made anew."""
        if self._database is not None and not (self._is_own and self._database.is_current):
            self.close()
        if self._database is not None:
            try:
                stack.enter_context(self._database.reading(self._name))
                return self._database
            except StoreUnreachable:
                self.close()
        self._database, self._process = self._connect(), os.getpid()
        stack.enter_context(self._database.reading(self._name))
        return self._database

    def _seen(self, database: Database) -> Moment:
        catalog = Catalog(database)
        kept = catalog.find(self._name) if catalog.is_there() else None
        if kept is None and self._has_seen_it and not database.is_there:
            raise StoreUnreachable(database.store, "it was moved away or removed")
        if kept is None:
            raise UnknownView(database.store, self._name, catalog.names())
        layout = kept.layout()
        return Moment(database, kept, layout, Statements(layout, kept.number, database.dialect(layout)))


def _end(catalog: Catalog, kept: Kept, position: int, about: int) -> int:
    """The end of the batch with which `about` rows are there, or of the last one."""
    end, rows = position, 0
    for following, count in catalog.ends(kept, position, max(about, 1)):
        end, rows = following, rows + count
        if rows >= about:
            break
    return end


def _behind(found: Checked) -> str:
    return f" WHERE {found.text}" if found.text else ""


def _key_values(layout: Layout, database: Database, key: Mapping[str, Any]) -> list[object]:
    """As the database compares them."""
    if set(key) != set(layout.key):
        raise UnknownKey(layout.name, layout.key, f"it was asked for by {', '.join(key) or 'nothing'}")
    values: list[object] = []
    for name in layout.key:
        kind = layout.schema.field(name).type
        try:
            value = typed(key[name], kind)
            values.append(database.value(value))
        except NotOfType as error:
            raise UnknownKey(layout.name, layout.key, f"{name} = {key[name]!r} is no {kind}") from error
        if not value.is_valid:
            raise UnknownKey(layout.name, layout.key, f"{name} is null")
    return values
