"""Keeps one view for one query, in any database that speaks the SQL of `statements`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from runnel.clock import Clock
from runnel.durable import durable
from runnel.forking import whole
from runnel.views.batch import Batch, prepared
from runnel.views.catalog import Catalog, make_catalog
from runnel.views.changes import DELETE, INSERT, UPDATE
from runnel.views.database import Database
from runnel.views.declaration import Kept, check_owner, migrated
from runnel.views.errors import Fenced, NameTaken, NotClaimed, StoreLocked, StoreRefused, StoreUnreachable
from runnel.views.layout import Layout
from runnel.views.statements import Statements
from runnel.views.store import Applied, Keep, Marker, Rows

NOT_CLAIMED = -1


class SqlWriter:
    def __init__(
        self, connect: Callable[[], Database], layout: Layout, query: str, *, keep: Keep, clock: Clock
    ) -> None:
        self._connect = connect
        self._layout = layout
        self._query = query
        self._keep = keep
        self._clock = clock
        self._database: Database | None = None
        self._statements: Statements | None = None
        self._epoch = NOT_CLAIMED

    def claim(self) -> None:
        with self._connected() as database:
            make_catalog(database)
            self._layout = self._make_view(database).layout()
            try:
                self._take(database)
            except StoreLocked:
                # A writer that hangs in the middle of its transaction would keep its successor waiting for ever.
                if not database.make_way(self._layout):
                    raise
                self._take(database)

    def marker(self) -> Marker | None:
        with self._claimed() as (database, _), database.reading():
            return self._in_force(Catalog(database).find(self._layout.name)).marker()

    def apply(self, rows: Rows, marker: Marker) -> Applied:
        if marker.query != self._query:
            raise ValueError(f"a marker of query {marker.query!r} for the writer of {self._query!r}")
        batch = prepared(self._layout, rows)
        with self._claimed() as (database, statements), database.staged(self._layout, statements, batch):
            catalog = Catalog(database)
            kept = self._in_force(catalog.find(self._layout.name, hold=True))
            if _was_applied(kept, marker):
                return Applied(0, 0, 0, kept.next_position, skipped=True)
            applied = self._write(database, statements, kept, batch)
            self._account(catalog, kept, marker, applied)
            with durable("view.commit"):
                database.commit()
        return applied

    def trim(self) -> int:
        with self._claimed() as (database, statements):
            with database.reading():
                catalog = Catalog(database)
                kept = self._in_force(catalog.find(self._layout.name))
                first = catalog.first_to_keep(kept, self._keep.rows, self._clock.now() - self._keep.age_ms)
                old = int(database.run(statements.count_before(first))[0][0])
            if old:
                self._trim_before(database, statements, first)
            return old

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = self._statements = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_view(self, database: Database) -> Kept:
        kept = Catalog(database).find(self._layout.name)
        if kept is not None and self._fits(kept):
            return kept
        with database.making():
            kept = Catalog(database).find(self._layout.name)
            if kept is None:
                self._create(database)
            elif not self._fits(kept):
                self._migrate(database, kept)
        kept = Catalog(database).find(self._layout.name)
        assert kept is not None
        return kept

    def _fits(self, kept: Kept) -> bool:
        check_owner(kept, self._query)
        return migrated(kept.layout(), self._layout) == kept.layout()

    def _create(self, database: Database) -> None:
        other = database.table_like(self._layout.name)
        if other is not None:
            raise NameTaken(database.store, self._layout.name, other)
        catalog = Catalog(database)
        number = catalog.next_number()
        catalog.add(self._layout, number, self._query)
        for statement in Statements(self._layout, number, database.dialect(self._layout)).create():
            database.run(statement)
        with durable("view.create"):
            database.commit()

    def _migrate(self, database: Database, kept: Kept) -> None:
        wider = migrated(kept.layout(), self._layout)
        statements = Statements(wider, kept.number, database.dialect(wider))
        for name in wider.columns[len(kept.layout().columns) :]:
            for statement in statements.add(name):
                database.run(statement)
        Catalog(database).redeclare(wider)
        with durable("view.migrate"):
            database.commit()

    def _take(self, database: Database) -> None:
        with database.writing():
            epoch = Catalog(database).claim(self._layout.name)
            with durable("view.claim"):
                database.commit()
        self._epoch = epoch

    def _write(self, database: Database, statements: Statements, kept: Kept, batch: Batch) -> Applied:
        if batch.table.num_rows == 0:
            return Applied(0, 0, 0, kept.next_position)
        database.run(statements.touch())
        counts = {kind: int(count) for kind, count in database.run(statements.count())}
        inserted, updated, deleted = (counts.get(kind, 0) for kind in (INSERT, UPDATE, DELETE))
        if self._keep.rows:
            if updated or deleted:
                database.run(statements.log_before(kept.next_position))
            if inserted or updated:
                database.run(statements.log_after(kept.next_position))
        if deleted:
            database.run(statements.remove())
        if inserted or updated:
            database.run(statements.upsert())
        return Applied(inserted, updated, deleted, kept.next_position + inserted + updated + deleted)

    def _account(self, catalog: Catalog, kept: Kept, marker: Marker, applied: Applied) -> None:
        catalog.mark(self._layout.name, marker, applied.next_position)
        log_rows = applied.inserted + 2 * applied.updated + applied.deleted
        if log_rows and self._keep.rows:
            catalog.add_commit(kept, applied.next_position, log_rows, marker.batch, self._clock.now())
        elif log_rows:
            # The log has a gap now, so it begins after it; its rows from before the gap go with the next trim.
            catalog.trim(kept, applied.next_position)

    def _trim_before(self, database: Database, statements: Statements, first: int) -> None:
        with database.writing():
            catalog = Catalog(database)
            kept = self._in_force(catalog.find(self._layout.name, hold=True))
            database.run(statements.trim(first))
            catalog.trim(kept, first)
            with durable("view.trim"):
                database.commit()

    def _in_force(self, kept: Kept | None) -> Kept:
        if kept is None or kept.epoch != self._epoch:
            raise Fenced(self._layout.name, self._query)
        return kept

    @contextmanager
    def _claimed(self) -> Iterator[tuple[Database, Statements]]:
        if self._epoch == NOT_CLAIMED:
            raise NotClaimed(self._layout.name)
        with self._connected() as database:
            if self._statements is None:
                self._statements = self._prepare(database)
            yield database, self._statements

    def _prepare(self, database: Database) -> Statements:
        kept = self._in_force(Catalog(database).find(self._layout.name))
        statements = Statements(self._layout, kept.number, database.dialect(self._layout))
        for statement in statements.create_batch():
            database.run(statement)
        return statements

    @contextmanager
    def _connected(self) -> Iterator[Database]:
        """A connection that broke is dropped, so that the next call makes another; the claim stays. Nobody forks before
        all is done: a connection that is let go of loses what is staged.
        """
        with whole():
            try:
                yield self._open()
            except StoreUnreachable:
                self.close()
                raise

    def _open(self) -> Database:
        if self._database is not None and not self._database.is_current:  # what is written there, nobody would find
            raise StoreRefused(
                self._database.store,
                "its file was replaced or removed while it was written to",
                hint="put it back; or start the app again, and it tells what can be done",
            )
        if self._database is not None and self._database.is_let_go:
            self.close()
        if self._database is None:
            self._database = self._connect()
        return self._database


def _was_applied(kept: Kept, marker: Marker) -> bool:
    return kept.checkpoint == marker.checkpoint and kept.batch is not None and marker.batch <= kept.batch
