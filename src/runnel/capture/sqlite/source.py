"""A database of SQLite's as a source of changes.

    SqliteSource("shop.sqlite", "shop", selection.has)

Every writer is seen, by whatever program, and a change is logged if and only if its transaction commits: the log is a
table of the same database, written by triggers (see `triggers`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from runnel.capture.errors import DatabaseBusy, DatabaseUnusable, NotADatabase, OtherDatabase
from runnel.capture.events import Position
from runnel.capture.forms import Binary
from runnel.capture.source import Chunk, Snapshot
from runnel.capture.sqlite.changes import SqliteChanges, last_line, position_at
from runnel.capture.sqlite.chunks import Chunks
from runnel.capture.sqlite.connecting import reading, told
from runnel.capture.sqlite.errors import FileReplaced
from runnel.capture.sqlite.keeping import Keeping
from runnel.capture.sqlite.names import Names
from runnel.capture.sqlite.opened import open_file
from runnel.capture.sqlite.shapes import shape_of, tables_of
from runnel.capture.sqlite.snapshot import snapshot_of
from runnel.capture.tables import Row, Table, TableId

TRIM_SECONDS = 1.0  # between two trimmings, unless there is much to trim
MUCH = 20_000  # lines
TRIM_PATIENCE = 1.0  # seconds that a trimming waits for the write lock; it can be done later


class SqliteSource:
    connector: str = "sqlite"
    counts_unchosen = True
    has_schemas = True
    unit: str = "entries"
    fields: Sequence[Mapping[str, Any]] = (
        {"type": "string", "optional": True, "field": "sequence"},
        {"type": "int64", "optional": True, "field": "txId"},
        {"type": "int64", "optional": True, "field": "line"},
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        chosen: Callable[[TableId], bool],
        *,
        binary: Binary = Binary.BYTES,
    ) -> None:
        """`name` is the capture's, and part of the names of what it makes in the database."""
        self._path = os.fspath(path)
        self.database = os.path.splitext(os.path.basename(self._path))[0]
        self._names = Names(name)
        self._mode = binary
        self._chosen = chosen
        self._changes: SqliteChanges | None = None
        self._read: int | None = None  # the line up to which the log was read
        self._trimmed = (0, 0.0)  # up to which line, and when
        self._is_another = False  # the file is another one than at first
        self._open()

    def close(self) -> None:
        self._connection.close()

    def recognize(self, position: Position, _tables: Collection[str] = ()) -> None:
        """OtherDatabase, if a position is of another file. Its change log tells, which goes with a file that is moved
        or copied. `prepare` knows from here on what was read.
        """
        with self._waiting_for_a_copy():
            self._open_again()
            self._recognize(position)

    def prepare(self) -> Position:
        if self._read is None:
            self._open_again()
        with told(self._path):
            self._keeping.make(self._read)
            line, days = last_line(self._connection, self._names)
            return Position(position_at(self._keeping.kept().log, line, days))

    def tables(self) -> list[TableId]:
        with told(self._path):
            return self._keeping.chosen_tables()

    def known(self) -> list[TableId]:
        with told(self._path):
            return tables_of(self._connection)

    def table(self, table: TableId) -> Table:
        with told(self._path), reading(self._connection):
            return shape_of(self._connection, table.name).to_table(self._mode)

    def changes(self, after: Position, until: Position | None = None) -> SqliteChanges:
        with told(self._path):
            self._changes = SqliteChanges(
                self._connection, self._file, self._keeping, self._names, after, until, self._mode
            )
            return self._changes

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with snapshot_of(self._path, self._names, self._mode) as found:
            yield found

    def settle(self) -> None:
        """A chunk has always seen what was told before."""

    def chunk(self, table: Table, after: Row | None, limit: int, tag: str, where: str | None = None) -> Chunk | None:
        assert self._changes is not None  # they are open
        if not self._file.is_there():
            return None
        with told(self._path):
            found = self._chunks.read(table, after, limit, where)
        if found is None:
            return None
        chunk, line = found
        if chunk.rows or chunk.is_last:
            self._changes.mark(line, tag)
        return chunk

    def confirm(self, position: Position) -> None:
        """Trims the log now and then; if somebody else is writing, the next time."""
        line, now = position.at["id"], time.monotonic()
        before, when = self._trimmed
        if (now - when < TRIM_SECONDS and line - before < MUCH) or not self._file.is_there():
            return
        self._connection.execute(f"PRAGMA busy_timeout = {round(TRIM_PATIENCE * 1000)}")
        try:
            with suppress(DatabaseBusy), told(self._path):
                self._keeping.trim(line)
                self._trimmed = line, now
        finally:
            self._connection.execute("PRAGMA busy_timeout = 60000")

    def behind(self, position: Position) -> int:
        if not self._file.check():
            raise FileReplaced(self._path)
        with told(self._path):
            return last_line(self._connection, self._names)[0] - int(position.at["id"])

    def is_prepared(self) -> bool:
        with told(self._path):
            return self._keeping.is_made()

    def remove(self) -> bool:
        with told(self._path):
            return self._keeping.remove()

    # --- inside

    def _recognize(self, position: Position) -> None:
        with told(self._path):
            if not self._keeping.is_made():
                reason = "it has no change log of this capture"
            elif self._keeping.kept().log != position.at["log"]:
                reason = "its change log is another one"
            else:
                self._read = position.at["id"]
                return
        raise OtherDatabase(self._names.capture, self._path, reason)

    def _open(self) -> None:
        self._connection, self._file = open_file(self._path)
        self._keeping = Keeping(self._connection, self._names, self._chosen)
        self._chunks = Chunks(self._path, self._connection, self._keeping, self._names, self._mode)

    @contextmanager
    def _waiting_for_a_copy(self) -> Iterator[None]:
        """A file that has come in place of another may be on its way, as by `cp`: what is there of it looks broken."""
        try:
            yield
        except (NotADatabase, DatabaseUnusable, OtherDatabase) as error:
            is_whole = isinstance(error, OtherDatabase) and not self._file.is_empty()
            if self._is_another and not is_whole and self._file.is_being_written():
                raise FileReplaced(self._path) from error
            raise

    def _open_again(self) -> None:
        """If another file has our path by now, it is the one to be asked."""
        if not self._file.is_there():
            self._is_another = False  # what is refused here does not pass
            self._file.leave()
            self._connection.close()  # before the other is opened: two in one process would share their locks
            self._is_another = True
            self._open()
