"""A view store over any database that speaks the SQL of `statements`: only how to connect to it is its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from runnel.clock import Clock
from runnel.forking import whole
from runnel.views.catalog import Catalog
from runnel.views.database import Database
from runnel.views.declaration import check_owner, migrated
from runnel.views.errors import UnknownView
from runnel.views.exchange import copy_of, drop, exchange
from runnel.views.layout import layout
from runnel.views.reader import SqlReader
from runnel.views.store import Declared, Keep, Marker
from runnel.views.writer import SqlWriter


class SqlStore(ABC):
    def __init__(self, keep: Keep | None, clock: Clock) -> None:
        self._keep = keep or Keep()
        self._clock = clock

    @abstractmethod
    def _connect(self, view: str) -> Callable[[], Database]:
        """For whoever writes this view."""

    @abstractmethod
    def _read(self) -> Database: ...

    def writer(self, declared: Declared, query: str) -> SqlWriter:
        return SqlWriter(self._connect(declared.name), layout(declared), query, keep=self._keep, clock=self._clock)

    def check(self, declared: Declared, query: str) -> None:
        wanted = layout(declared)
        with closing(self._read()) as database, database.reading():
            catalog = Catalog(database)
            kept = catalog.find(wanted.name) if catalog.is_there() else None
        if kept is not None:
            check_owner(kept, query)
            migrated(kept.layout(), wanted)

    def copy_writer(self, declared: Declared, query: str) -> SqlWriter:
        copy = replace(layout(declared), name=copy_of(declared.name))
        return SqlWriter(self._connect(copy.name), copy, query, keep=Keep(rows=0), clock=self._clock)

    def copy_reader(self, name: str) -> SqlReader:
        return self.reader(copy_of(name))

    def copy_marker(self, name: str) -> Marker | None:
        try:
            with self.copy_reader(name) as reader:
                return reader.marker()
        except UnknownView:
            return None

    def exchange(self, name: str) -> None:
        with whole(), closing(self._connect(name)()) as database:
            exchange(database, name, is_logged=self._keep.rows > 0, now=self._clock.now())

    def drop_copy(self, name: str) -> bool:
        with closing(self._connect(name)()) as database:
            return drop(database, name)

    def reader(self, name: str) -> SqlReader:
        return SqlReader(self._read, name)

    def names(self) -> list[str]:
        with closing(self._read()) as database, database.reading():
            return Catalog(database).names()
