"""Our tables and triggers in the database: made, kept in step with the tables, trimmed, removed.

    _runnel_<capture>_log          a line for each change, in the order of commits: one writer at a time has the lock
    _runnel_<capture>_shapes       the tables as they were when their lines were written, and the log's own id
    _runnel_<capture>_noted_<n>    rows that may be about to be replaced (see `triggers`)

A line's number is one more than the last. The last line of what was confirmed stays in the log, so that no number is
ever given twice; a counter of SQLite's own (AUTOINCREMENT) could be set back by anyone, and cannot be removed.

When a table has other columns than its triggers know, they are made anew, and the rows that hold something in a column
that was not captured are logged as they are; all rows, if the column has a name that another had before, because they
were told with that one's values. If nothing tells such rows apart, or a column of the key has another name, the table
is logged as emptied before, and then with all of its rows: nobody could put them in their old places. A table that was
made anew, or whose triggers somebody has dropped, is logged as emptied, and then with all of its rows. One that is gone
is logged as emptied, too: it may come back with others. If it does so before its end was read, it is logged with the
rows that it has by then; otherwise whoever reads knows that it is a new one, and reads them.

Triggers that another version of this program made are made anew at a start, under the same number: nothing is written
meanwhile, so that nothing is told again.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable
from typing import NamedTuple

from runnel.capture.errors import DatabaseUnusable
from runnel.capture.sqlite.connecting import reading, writing
from runnel.capture.sqlite.names import PREFIX, Names, quoted_name
from runnel.capture.sqlite.shapes import Shape, shape_of, tables_of
from runnel.capture.sqlite.triggers import Entry, Triggers, log_columns
from runnel.capture.tables import TableId
from runnel.durable import durable

ABOUT = 0  # the number of the shape that is none: the log's id
TRIMMED_AT_ONCE = 1_000  # lines; the write lock is held no longer


class Kept(NamedTuple):
    """The current shapes of captured tables, by number."""

    log: str
    shapes: dict[int, Shape]


class Keeping:
    def __init__(self, connection: sqlite3.Connection, names: Names, chosen: Callable[[TableId], bool]) -> None:
        self._connection = connection
        self._names = names
        self._chosen = chosen

    def is_made(self) -> bool:
        found = self._connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN (?, ?)",
            [f"{self._names.prefix}log", f"{self._names.prefix}shapes"],
        ).fetchone()
        return bool(found[0] == 2)

    def chosen_tables(self) -> list[TableId]:
        return [table for table in tables_of(self._connection) if self._chosen(table)]

    def is_chosen(self, table: TableId) -> bool:
        return self._chosen(table)

    def make(self, read: int | None = None) -> None:
        """What is missing, for the tables as they are. `read` is the line up to which the log was read by whom it is
        made for; None if nobody did.
        """
        if self.is_made() and not self._differences() and not self._of_other_versions():
            return
        with durable("capture.sqlite.make"), writing(self._connection):
            if not self.is_made():
                self._refuse_other_letters()
                self._make_log()
            self._follow(tells_rows=False, read=read)
            for triggers in self._of_other_versions():
                for statement in (*triggers.drop(), *triggers.create()):
                    self._connection.execute(statement)

    def follow(self) -> bool:
        """Keep in step with tables that were changed, made or dropped while we were reading; whether any were."""
        if not self._differences():
            return False
        with durable("capture.sqlite.follow"), writing(self._connection):
            self._follow(tells_rows=True)
        return True

    def kept(self) -> Kept:
        rows = self._connection.execute(f"SELECT id, told, is_current FROM {self._names.shapes}").fetchall()
        current = {number: Shape.from_json(told) for number, told, is_current in rows if is_current and number != ABOUT}
        return Kept(next(told for number, told, _ in rows if number == ABOUT), current)

    def shape(self, number: int) -> Shape:
        found = self._connection.execute(f"SELECT told FROM {self._names.shapes} WHERE id = ?", [number]).fetchone()
        return Shape.from_json(found[0])

    def trim(self, before: int) -> None:
        """Forget the lines before one; the last line of all stays."""
        self._wipe_notes()
        piece = f"SELECT id FROM {self._names.log} WHERE id < ? ORDER BY id LIMIT {TRIMMED_AT_ONCE}"
        while True:
            with durable("capture.sqlite.trim"):
                found = self._connection.execute(f"DELETE FROM {self._names.log} WHERE id IN ({piece})", [before])
            if found.rowcount < TRIMMED_AT_ONCE:
                return

    def remove(self) -> bool:
        """Everything of this capture's: nothing is left. False if there was nothing."""
        was_there = False
        with durable("capture.sqlite.remove"), writing(self._connection):
            for kind in ("trigger", "table"):
                found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = ?", [kind]).fetchall()
                for (name,) in found:
                    if self._names.has(kind, name):
                        self._connection.execute(f"DROP {kind.upper()} {quoted_name(name)}")
                        was_there = True
        return was_there

    # --- inside

    def _refuse_other_letters(self) -> None:
        found = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
            [f"{self._names.prefix}log"],
        ).fetchone()
        if found is not None and not self._names.has("table", found[0]):
            (path,) = self._connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
            other = found[0].removeprefix(PREFIX).removesuffix("_log")
            raise DatabaseUnusable(
                path,
                f'is captured as "{other}", and the tables of a capture "{self._names.capture}" would have the same '
                "names: SQLite takes small and capital letters for the same",
                hint=f"give this capture another name, or remove the other: `runnel capture remove {other} {path}`",
            )

    def _make_log(self) -> None:
        execute = self._connection.execute
        execute(f"CREATE TABLE {self._names.log} (id INTEGER PRIMARY KEY, shape, op, time)")
        execute(f"CREATE TABLE {self._names.shapes} (id INTEGER PRIMARY KEY, told, is_current)")
        execute(f"INSERT INTO {self._names.shapes} VALUES ({ABOUT}, ?, 1)", [str(uuid.uuid4())])
        first = f"({ABOUT}, {int(Entry.BEGIN)}, julianday('now'))"
        execute(f"INSERT INTO {self._names.log} ({log_columns(0)}) VALUES {first}")

    def _differences(self) -> bool:
        """Whether a chosen table is not captured as it is, or one is captured that is not chosen or not there."""
        with reading(self._connection):
            kept = self.kept().shapes
            by_table = {shape.table: (number, shape) for number, shape in kept.items()}
            tables = [table.name for table in self.chosen_tables()]
            if set(by_table) != set(tables):
                return True
            return any(
                shape != shape_of(self._connection, shape.table) or not self._has_first_word(number, shape)
                for number, shape in by_table.values()
            )

    def _of_other_versions(self) -> list[Triggers]:
        """Those of captured tables that this version would make with other words. SQLite keeps the words, but for those
        that it changes where a table is renamed: one that has its old name again is among these, too.
        """
        made = {sql for (sql,) in self._connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        current = (Triggers(self._names, number, shape) for number, shape in self.kept().shapes.items())
        return [triggers for triggers in current if not made.issuperset(triggers.create())]

    def _follow(self, *, tells_rows: bool, read: int | None = None) -> None:
        kept = self.kept().shapes
        tables = {table.name for table in self.chosen_tables()}
        by_table = {shape.table: number for number, shape in kept.items()}
        for name, number in by_table.items():
            if name not in tables:
                self._leave(number, kept[number])
        for name in sorted(tables):
            shape = shape_of(self._connection, name)
            old = by_table.get(name)
            if old is None:
                is_told = tells_rows or (read is not None and self._ends_behind(read, name))
                self._capture(shape, [Entry.MADE, Entry.CREATE] if is_told else [])
            elif kept[old] != shape or not self._has_first_word(old, shape):
                self._capture_again(old, kept[old], shape)

    def _capture_again(self, number: int, old: Shape, shape: Shape) -> None:
        was_seen = self._has_triggers(number, old)
        self._drop(number, old)
        untold = self._untold(old, shape)
        if not was_seen or old.key_names != shape.key_names or (not shape.key and self._has_rows(shape, untold)):
            self._capture(shape, [Entry.EMPTIED, Entry.AS_IT_IS])
        else:
            self._capture(shape, [Entry.AS_IT_IS], untold)

    def _untold(self, old: Shape, shape: Shape) -> str:
        """The condition for rows `o` that must be told again, because they hold something in a column that was added or
        renamed. ALTER TABLE adds columns behind the others, and renames them in their places.
        """
        names = [column.name for column in old.columns]
        added = [
            column
            for place, column in enumerate(shape.columns)
            if column.name != (names[place] if place < len(names) else None) and not column.is_generated
        ]
        if any(column.name in self._former_names(shape.table) for column in added):
            return "1"
        return " OR ".join(f"o.{quoted_name(each.name)} IS NOT ({each.default_value})" for each in added) or "0"

    def _former_names(self, table: str) -> set[str]:
        """Of all columns that a table of this name ever had."""
        found = self._connection.execute(f"SELECT told FROM {self._names.shapes} WHERE id <> {ABOUT}").fetchall()
        shapes = (Shape.from_json(told) for (told,) in found)
        return {column.name for shape in shapes if shape.table == table for column in shape.columns}

    def _has_rows(self, shape: Shape, where: str) -> bool:
        found = self._connection.execute(f"SELECT 1 FROM {quoted_name(shape.table)} AS o WHERE {where} LIMIT 1")
        return found.fetchone() is not None

    def _capture(self, shape: Shape, entries: Iterable[Entry], where: str = "1") -> None:
        execute = self._connection.execute
        found = execute(f"SELECT max(id) FROM {self._names.shapes}").fetchone()
        number = found[0] + 1
        execute(f"INSERT INTO {self._names.shapes} VALUES (?, ?, 1)", [number, shape.to_json()])
        self._widen(len(shape.columns))
        triggers = Triggers(self._names, number, shape)
        for statement in triggers.create():
            execute(statement)
        for entry in entries:
            is_mark = entry in (Entry.EMPTIED, Entry.MADE)
            execute(triggers.log_mark(entry) if is_mark else triggers.log_all(entry, where))

    def _leave(self, number: int, shape: Shape) -> None:
        """A table that is not chosen any more, or not there."""
        is_there = any(table.name == shape.table for table in tables_of(self._connection))
        self._drop(number, shape)
        if not is_there:
            triggers = Triggers(self._names, number, shape)
            for entry in (Entry.EMPTIED, Entry.GONE):
                self._connection.execute(triggers.log_mark(entry))

    def _drop(self, number: int, shape: Shape) -> None:
        for statement in Triggers(self._names, number, shape).drop():
            self._connection.execute(statement)
        self._connection.execute(f"UPDATE {self._names.shapes} SET is_current = 0 WHERE id = ?", [number])

    def _widen(self, count: int) -> None:
        """Columns are added to the log where a table has more of them."""
        found = self._connection.execute(f"PRAGMA table_info({self._names.log})").fetchall()
        has = len(found) - len(log_columns(0).split(",")) - 1
        for place in range(has, count):
            self._connection.execute(f"ALTER TABLE {self._names.log} ADD COLUMN c{place}")

    def _ends_behind(self, line: int, table: str) -> bool:
        """Whether the log tells behind a line that a table of this name is gone: whoever has read up to there takes the
        one that is there now for that one, and for complete.
        """
        found = self._connection.execute(
            f"SELECT DISTINCT shape FROM {self._names.log} WHERE id > ? AND op = {int(Entry.GONE)}", [line]
        ).fetchall()
        return any(self.shape(number).table == table for (number,) in found)

    def _has_triggers(self, number: int, shape: Shape) -> bool:
        wanted = Triggers(self._names, number, shape).names
        return {name for name, _ in self._triggers_on(shape.table)} >= set(wanted)

    def _has_first_word(self, number: int, shape: Shape) -> bool:
        """Whether our triggers are there, and none of people's are newer. SQLite calls the newest first: a change that
        another trigger makes to a row is told of after the one that called it, as long as that is ours. Those of other
        captures change no rows: which of two captures comes first does not matter, and they would never agree on it.
        """
        wanted = set(Triggers(self._names, number, shape).names)
        found = self._triggers_on(shape.table)
        others = [place for name, place in found if not name.startswith(PREFIX)]
        own = [place for name, place in found if name in wanted]
        return len(own) == len(wanted) and (not others or min(own) > max(others))

    def _triggers_on(self, table: str) -> list[tuple[str, int]]:
        """Their names and places in the schema."""
        return self._connection.execute(
            "SELECT name, rowid FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", [table]
        ).fetchall()

    def _wipe_notes(self) -> None:
        """Between transactions no note is of any use; the write lock is asked for only where there are some."""
        for number in self.kept().shapes:
            noted = self._names.noted(number)
            if self._connection.execute(f"SELECT 1 FROM {noted} LIMIT 1").fetchone():
                self._connection.execute(f"DELETE FROM {noted}")
