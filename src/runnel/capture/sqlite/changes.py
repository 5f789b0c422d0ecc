"""The log, read from a position on.

SQLite tells nobody where a transaction ends. What becomes visible together is taken for one: all lines that came since
the last look. It may be several transactions, and never a part of one. While we are inside of it, the position says up
to which line it goes, so that it is the same after a restart.

    {"log": "...", "id": 41, "time": 2461361.5}     behind line 41
    {..., "until": 57, "until_time": 2461361.7}     inside of the transaction of the lines 42 to 57

The times of the position's lines must be what they were: where one is another, the file is a copy of long ago.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from runnel.capture.errors import PositionLost
from runnel.capture.events import (
    Began,
    Change,
    Ended,
    Event,
    Gone,
    Mark,
    Passed,
    Position,
    Redefined,
    Truncated,
    Unchosen,
)
from runnel.capture.forms import Binary
from runnel.capture.sqlite.connecting import told
from runnel.capture.sqlite.keeping import Keeping
from runnel.capture.sqlite.names import Names
from runnel.capture.sqlite.opened import OpenFile
from runnel.capture.sqlite.triggers import Entry
from runnel.capture.tables import Table, TableId

AT_ONCE = 2_000  # lines
BYTES_AT_ONCE = 16 * 1024 * 1024
POLL_SECONDS = 0.005
FRESH_SECONDS = 1.0  # a file's time is so coarse that a second change may have the same
EPOCH = 2_440_587.5  # 1970 in days of `julianday`
DAY_MICROS = 86_400_000_000


def micros_of(days: float) -> int:
    """To the millisecond, which is how SQLite tells the time."""
    return round((days - EPOCH) * DAY_MICROS / 1000) * 1000


def last_line(connection: sqlite3.Connection, names: Names) -> tuple[int, float]:
    found = connection.execute(f"SELECT id, time FROM {names.log} ORDER BY id DESC LIMIT 1").fetchone()
    return int(found[0]), float(found[1])


def position_at(log: str, line: int, days: float) -> dict[str, Any]:
    return {"log": log, "id": line, "time": days}


def own_fields(transaction: str, line: int) -> str:
    return f'"sequence":"[\\"{transaction}\\",\\"{line}\\"]","txId":{transaction},"line":{line}'


def taken(found: sqlite3.Cursor, count: int) -> list[Any]:
    """The next rows: so many, or fewer if they are large."""
    rows, left = [], BYTES_AT_ONCE
    for row in found:
        rows.append(row)
        left -= sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) == count or left < 0:
            break
    return rows


class SqliteChanges:
    def __init__(
        self,
        connection: sqlite3.Connection,
        file: OpenFile,
        keeping: Keeping,
        names: Names,
        after: Position,
        until: Position | None,
        mode: Binary,
    ) -> None:
        self._connection = connection
        self._file = file
        self._path = file.path
        self._keeping = keeping
        self._names = names
        self._mode = mode
        self._limit = until
        self._log: str = after.at["log"]
        self._behind: int = after.at["id"]  # the last line of the last transaction
        self._days: float = after.at["time"]
        self._read: int = self._behind  # the last line that was told of
        self._end: int | None = after.at.get("until")  # of the transaction we are inside of
        self._end_days: float | None = after.at.get("until_time")  # positions of older versions do not have it
        self._micros = 0
        self._held: tuple[Table, Any] | None = None  # a row from before an update
        self._tables: dict[int, Table] = {}
        self._unchosen: set[TableId] = set()
        self._shown: dict[str, int] = {}
        self._is_passed = False
        self._version = -1
        self._schema = -1
        self._seen: Any = None
        self._marks: deque[tuple[int, str]] = deque()  # lines, and what is to be told behind them
        self._is_cut = False  # whether there are lines behind the last transaction that were seen
        self._check()

    def read(self, seconds: float) -> Sequence[Event]:
        deadline = time.monotonic() + seconds
        while True:
            if self._file.check():
                with told(self._path):
                    found = self._look()
                if found:
                    return found
            if time.monotonic() >= deadline:
                return ()
            time.sleep(POLL_SECONDS)

    def mark(self, line: int, tag: str) -> None:
        """Tell it behind a line that is the end of a transaction, and the last one that was written."""
        self._marks.append((line, tag))

    def close(self) -> None:
        """The connection is the source's."""

    # --- inside

    def _check(self) -> None:
        if not self._keeping.is_made():
            raise PositionLost(self._path, "its change log is gone")
        if self._keeping.kept().log != self._log:
            raise PositionLost(self._path, "its change log was made anew")
        self._check_line(self._behind, self._days)
        if self._end is not None:
            self._check_line(self._end, self._end_days)

    def _check_line(self, line: int, days: float | None) -> float:
        """That it is there as it was, if that is known; its time."""
        found = self._connection.execute(f"SELECT time FROM {self._names.log} WHERE id = ?", [line]).fetchone()
        if found is None or (days is not None and found[0] != days):
            raise self._lost(line)
        return float(found[0])

    def _refuse_older(self, line: int, days: float | None) -> None:
        """An older state that was written into the file itself, such as by `cp` or `.restore`. A line that is trimmed
        is no reason: a newer copy of this capture has read it then, which the cluster tells.
        """
        found = self._connection.execute(
            f"SELECT id, time FROM {self._names.log} WHERE id >= ? ORDER BY id LIMIT 1", [line]
        ).fetchone()
        if found is None or (found[0] == line and days is not None and found[1] != days):
            raise self._lost(line)

    def _lost(self, line: int) -> PositionLost:
        return PositionLost(self._path, f"its change log does not have line {line:,} as it was read before")

    def _look(self) -> Sequence[Event]:
        if self._end is not None:
            return self._lines()
        if self._marks and self._marks[0][0] <= self._behind:
            return [Mark(self._marks.popleft()[1])]
        if self._limit is not None and self._behind >= self._limit.at["id"]:
            passed, self._is_passed = self._is_passed, True
            return () if passed else [Passed(self._limit.at)]
        if not self._is_news() and not self._is_cut:
            return ()
        self._refuse_older(self._behind, self._days)
        self._follow()
        last, _ = last_line(self._connection, self._names)
        end = last if self._limit is None else min(last, self._limit.at["id"])
        if self._marks:
            end = min(end, self._marks[0][0])
        self._is_cut = end < last
        if end <= self._behind:
            return ()
        self._end = end
        return self._lines()

    def _is_news(self) -> bool:
        """Whether anybody has committed anything since the last look. To ask SQLite takes a lock, at which a writer
        fails that does not wait, unless the journal is a WAL: then the file's time is looked at first.
        """
        seen = self._file.stamp()
        if seen is not None and seen == self._seen and time.time() - seen[0] / 1e9 > FRESH_SECONDS:
            return False
        self._seen = seen
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        is_news = version != self._version
        self._version = version
        return bool(is_news)

    def _follow(self) -> None:
        """Tables are looked at until nothing is to be done: somebody may have changed them while we did it."""
        (schema,) = self._connection.execute("PRAGMA schema_version").fetchone()
        if schema != self._schema and (self._limit is not None or not self._keeping.follow()):
            self._schema = schema

    def _lines(self) -> list[Event]:
        """The next lines of the transaction that we are inside of."""
        assert self._end is not None
        events: list[Event] = []
        if self._read == self._behind:
            events.append(self._begin())
        found = self._connection.execute(
            f"SELECT * FROM {self._names.log} WHERE id > ? AND id <= ? ORDER BY id LIMIT {AT_ONCE}",
            [self._read, self._end],
        )
        rows = taken(found, AT_ONCE)
        found.close()
        if not rows:
            self._refuse_older(self._end, None)
        changes = [event for row in rows for event in self._told(row)]
        self._read = rows[-1][0] if rows else self._read
        if self._read >= self._end:
            changes.extend(self._orphan())
        events.extend(changes if not self._unchosen else (each for event in changes for each in self._chosen(event)))
        if self._read >= self._end:
            self._days = rows[-1][3] if rows else self._days
            at = position_at(self._log, self._end, self._days)
            events.append(Ended(str(self._end), at, self._micros))
            self._behind, self._end, self._end_days = self._end, None, None
        return events

    def _begin(self) -> Began:
        assert self._end is not None
        days = self._check_line(self._end, self._end_days)
        self._micros = micros_of(days)
        at = {**position_at(self._log, self._behind, self._days), "until": self._end, "until_time": days}
        return Began(str(self._end), self._micros, at)

    def _told(self, row: Any) -> Iterator[Event]:
        line, number, op = row[0], row[1], row[2]
        if op != Entry.AFTER:
            yield from self._orphan()
        if op == Entry.BEGIN:
            return
        table = self._table(number)
        if op == Entry.GONE:
            yield Gone(table.id, self._micros)
            return
        if self._shown.get(table.id.name) != number:
            self._shown[table.id.name] = number
            yield Redefined(table, self._micros)
        if op == Entry.MADE:
            return
        if op == Entry.EMPTIED:
            yield Truncated(table, self._source(line), self._micros)
            return
        values = tuple(row[4 : 4 + len(table.columns)])
        if op == Entry.BEFORE:
            self._held = table, (line, values)
        elif op == Entry.AFTER:
            assert self._held is not None  # it is the line before
            before, self._held = self._held[1][1], None
            yield Change(table, "u", before, values, self._source(line), self._micros)
        elif op == Entry.DELETE:
            yield Change(table, "d", values, None, self._source(line), self._micros)
        else:
            yield Change(table, "c" if op == Entry.CREATE else "u", None, values, self._source(line), self._micros)

    def _orphan(self) -> Iterator[Event]:
        """An update whose row was gone when our trigger was called is a delete."""
        if self._held is not None:
            table, (line, values) = self._held
            self._held = None
            yield Change(table, "d", values, None, self._source(line), self._micros)

    def _source(self, line: int) -> str:
        return own_fields(str(self._end), line)

    def _table(self, number: int) -> Table:
        found = self._tables.get(number)
        if found is None:
            found = self._tables[number] = self._keeping.shape(number).to_table(self._mode)
            if not self._keeping.is_chosen(found.id):
                self._unchosen.add(found.id)
        return found

    def _chosen(self, event: Event) -> Iterator[Event]:
        """Of a table that is not chosen any more there may still be lines. They count as they did before."""
        if isinstance(event, Change | Truncated):
            yield Unchosen() if event.table.id in self._unchosen else event
        elif isinstance(event, Redefined | Gone):
            table = event.table.id if isinstance(event, Redefined) else event.table
            if table not in self._unchosen:
                yield event
