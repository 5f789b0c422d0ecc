"""Tables read by chunks beside the changes: no lock, no pause, and every row in its place among the changes.

A chunk is some rows in the order of the key, as they are at the moment. The source puts a mark into the log behind all
that the rows have seen. When the changes come to the mark, the rows are told there, without those whose key was touched
by a transaction that was told and that the chunk has not seen: what was told of them is newer. So the last word of each
key is the row as it is, from the table's last chunk on.

The key up to which a table was read is written in the same Kafka transaction as the chunk's rows. After a crash reading
goes on behind it; a chunk that was under way is read again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from runnel.capture.envelope import Envelope
from runnel.capture.errors import InvalidFilter, NoKey, TableMissing
from runnel.capture.events import Event, Gone, Mark, Position, Redefined, Truncated
from runnel.capture.outgoing import Outgoing
from runnel.capture.source import Chunk, Source
from runnel.capture.state import Progress, State, TableState
from runnel.capture.tables import Row, Table, TableId
from runnel.capture.tracker import Tracker

logger = logging.getLogger(__name__)

CHUNK_ROWS: Final = 1024
SIDE_BY_SIDE: Final = 4  # chunks under way, of as many tables
AGAIN_MICROS: Final = 50_000  # before a source is asked again that could not give a chunk
ABSENT_MICROS: Final = 1_000_000  # before a table is looked for again that was not there
WORD: Final = "incremental"  # what the rows say of their snapshot


@dataclass
class Flight:
    """A chunk whose mark has not come yet. A spoiled one is of no use when it comes."""

    name: str
    chunk: Chunk
    is_spoiled: bool = False


@dataclass
class Turn:
    """A table that is read by chunks, and how many rows to ask for: fewer after a chunk that was of no use."""

    table: Table
    limit: int


class Incremental:
    """Of one opening of the changes. `rate` is the most rows a second. `elapsed` is by a clock that nobody sets back,
    in microseconds.
    """

    def __init__(
        self, source: Source, envelope: Envelope, *, chunk: int = CHUNK_ROWS, rate: float | None = None
    ) -> None:
        self._source = source
        self._envelope = envelope
        self._most = chunk
        self._rate = rate
        self._tracker = Tracker()
        self._readings: dict[str, Turn] = {}  # in turns: whose chunk was asked for goes to the end
        self._absent: set[str] = set()  # not there, and of which the changes have not told the end
        self._looked = 0  # when they were looked for
        self._ids: frozenset[TableId] = frozenset()
        self._flights: dict[str, Flight] = {}
        self._followed: State | None = None
        self._due = 0  # when the next chunk may be read
        self._life = os.urandom(4).hex()
        self._number = 0

    @property
    def is_active(self) -> bool:
        return bool(self._readings or self._flights)

    def seconds(self, longest: float, elapsed: int) -> float:
        """How long the changes may be waited for before it is worth asking for a chunk."""
        if self._waiting() is None:
            return longest
        return min(longest, max(0, self._due - elapsed) / 1_000_000)

    def follow(self, state: State, *, again: bool = False) -> State:
        """Read the tables that are left to be read according to the state. Some of them may be gone; `again` looks for
        those that were not there.
        """
        before = self._followed
        is_same = before is not None and before.tables is state.tables and before.is_paused == state.is_paused
        if is_same and not again:
            return state
        wanted = {name: told for name, told in state.tables.items() if _is_read(told) and not state.is_paused}
        self._absent = {name for name in self._absent if name in wanted and not wanted[name].is_gone and not again}
        state = self._begin(wanted, state)
        for name in [name for name in self._readings if name not in wanted]:
            del self._readings[name]
        for flight in self._flights.values():
            told = state.tables.get(flight.name)
            is_other = before is not None and told is not None and _key(told) != _key(before.tables.get(flight.name))
            flight.is_spoiled = flight.is_spoiled or flight.name not in self._readings or is_other
        self._ids = frozenset(each.table.id for each in self._readings.values())
        self._followed = state
        return state

    def ask(self, state: State, elapsed: int) -> State:
        """Read the next chunk, if it is time for one. A table that cannot be read any more is told of by the state."""
        state = self.follow(state, again=self._is_time_to_look(elapsed))
        name = self._waiting()
        if name is None or elapsed < self._due:
            return state
        reading, told = self._readings.pop(name), state.tables[name]
        self._readings[name] = reading
        try:
            return self._asked(name, reading, told, state, elapsed)
        except InvalidFilter as error:
            logger.error("the snapshot of %s is stopped: %s", name, error)
            return self.follow(state.with_table(name, stopped(told)))
        except TableMissing as error:
            logger.warning("the snapshot of %s waits: %s", name, error)
            del self._readings[name]
            return self.follow(self._without(name, told, state))

    def note(self, event: Event) -> None:
        """An event that the changes tell, before its place in the topics is known."""
        self._tracker.note(event, self._ids)
        if isinstance(event, Redefined):
            self._spoil(event.table.id, event.table)
        elif isinstance(event, Gone):
            self._spoil(event.table)
        elif self._tracker.is_full:
            self._beginanew()

    def tell(self, mark: Mark, state: State, position: Position, out: Outgoing, now: int, elapsed: int) -> State:
        """The rows of the chunk that belongs here, and the state behind them."""
        flight = self._flights.pop(mark.tag, None)
        if flight is None or flight.is_spoiled:  # it is of a former life, or will be read again
            return state
        rows = self._newest(flight.chunk)
        reading = self._readings[flight.name]
        if rows is None:
            reading.limit = max(1, min(reading.limit, len(flight.chunk.rows)) // 2)
            self._due = max(self._due, elapsed + AGAIN_MICROS)
            return state
        reading.limit = min(self._most, 2 * reading.limit)
        chunk = flight.chunk
        micros = now if chunk.micros is None else chunk.micros
        self._envelope.rows(chunk.table, ((row, WORD) for row in rows), chunk.source, micros, out, now)
        if self._rate:
            self._due = max(self._due, elapsed) + round(len(chunk.rows) * 1_000_000 / self._rate)
        told = state.tables[flight.name]
        if chunk.is_last and told.is_again:
            # what was told of it is no more: the chunks to come must see all of that
            self._envelope.truncated(Truncated(chunk.table, chunk.source, micros), out, now)
            self._source.settle()
            return self._followed_by(state.with_table(flight.name, to_be_read()))
        return self._followed_by(state.with_table(flight.name, _after(chunk, told, rows, position)))

    # --- inside

    def _waiting(self) -> str | None:
        """Whose turn it is."""
        under_way = {flight.name for flight in self._flights.values()}
        if len(under_way) >= SIDE_BY_SIDE:
            return None
        return next((name for name in self._readings if name not in under_way), None)

    def _begin(self, wanted: dict[str, TableState], state: State) -> State:
        new = [name for name in wanted if name not in self._readings and name not in self._absent]
        if not new:
            return state
        if not self._readings:
            self._tracker.clear()
        there = {str(table): table for table in self._source.tables()}
        for name in new:
            table = self._found(there.get(name))
            if table is None:
                state = self._without(name, wanted[name], state)
                continue
            if wanted[name].is_gone and table.number is not None:  # the changes find that it is another one, or back
                self._absent.add(name)
                continue
            self._readings[name] = Turn(table, self._most)
            if wanted[name].key is not None and wanted[name].columns != key_columns(table):
                state = state.with_table(name, anew(wanted[name]))
        if any(name in self._readings for name in new):
            self._source.settle()  # what was told of them until now was not noted
        return state

    def _found(self, table: TableId | None) -> Table | None:
        try:
            return None if table is None else self._source.table(table)
        except TableMissing:
            return None

    def _without(self, name: str, told: TableState, state: State) -> State:
        """A table that was to be read is not there. It may come back; else the changes will come to its end, if that
        was not told. Some of them may be in its topic, and count for the position.
        """
        if told.is_gone and state.is_between:
            return missed(name, told, state)
        self._absent.add(name)
        return state

    def _is_time_to_look(self, elapsed: int) -> bool:
        if not self._absent or elapsed - self._looked < ABSENT_MICROS:
            return False
        self._looked = elapsed
        return True

    def _beginanew(self) -> None:
        """What was told until now is too much to be noted: chunks must see all of it."""
        self._tracker.clear()
        for flight in self._flights.values():
            flight.is_spoiled = True
        self._source.settle()

    def _asked(self, name: str, reading: Turn, told: TableState, state: State, elapsed: int) -> State:
        self._number += 1
        tag = f"{name}/{self._life}/{self._number}"
        chunk = self._source.chunk(reading.table, told.key, reading.limit, tag, told.where)
        if chunk is None:
            self._due = max(self._due, elapsed + AGAIN_MICROS)
            return state
        is_other = told.key is not None and key_columns(chunk.table) != key_columns(reading.table)
        reading.table = chunk.table
        if not chunk.table.key:
            logger.error("the snapshot of %s is stopped: %s", name, NoKey(name))
            return self.follow(state.with_table(name, stopped(told)))
        if is_other:
            logger.warning("%s has another key than before: it is read from its beginning", name)
            return self.follow(state.with_table(name, anew(told)))
        self._flights[tag] = Flight(name, chunk)
        self._tracker.forget(flight.chunk.sees for flight in self._flights.values())
        return state

    def _newest(self, chunk: Chunk) -> Sequence[Row] | None:
        """The rows of which nothing newer was told; None if nobody can say."""
        touched = self._tracker.touched(chunk.table.id, chunk.sees)
        if touched.is_all:
            return None
        if not touched.keys:
            return chunk.rows
        key_of: Callable[[Row], Row] = chunk.table.key_of
        if touched.unsure and any(key_of(row) in touched.unsure for row in chunk.rows):
            return None
        return [row for row in chunk.rows if key_of(row) not in touched.keys]

    def _spoil(self, id: TableId, table: Table | None = None) -> None:
        """The chunks of a table that is gone, or has other columns than they have."""
        for flight in self._flights.values():
            found = flight.chunk.table
            if found.id == id and (table is None or _shape(found) != _shape(table)):
                flight.is_spoiled = True

    def _followed_by(self, state: State) -> State:
        """A state that differs by what this has done itself."""
        for name in [name for name in self._readings if not _is_read(state.tables[name])]:
            del self._readings[name]
        self._ids = frozenset(each.table.id for each in self._readings.values())
        self._followed = state
        return state


def to_be_read(told: TableState | None = None, where: str | None = None) -> TableState:
    """A table that is to be read by chunks, from its beginning. It stays complete from where it was."""
    told = told or TableState()
    return TableState("pending", since=told.since, by_chunks=True, where=where, is_again=told.is_again)


def stopped(told: TableState) -> TableState:
    """A table whose reading ends here. If it was complete before, it still is."""
    state: Progress = "partial" if told.since is None else "complete"
    return TableState(state, None, told.rows, told.since, is_again=told.is_again)


def missed(name: str, told: TableState, state: State) -> State:
    """A table that was to be read is not there, as was told of it. If rows of it were read, it stays until the changes
    say that it is gone: then its topic is told to be empty.
    """
    return state.without(name) if told.key is None else state.with_table(name, stopped(told))


def key_columns(table: Table) -> tuple[str, ...]:
    """The columns of its key with their types, the database's own where they are known: what an order by the key, and
    the reading of its values, depends on.
    """
    columns = [table.columns[place] for place in table.key]
    return tuple(
        f"{each.name} {each.type or each.form.schema.get('name') or each.form.schema['type']}" for each in columns
    )


def _shape(table: Table) -> object:
    return table.key, [(column.name, column.form.schema) for column in table.columns]


def _is_read(told: TableState) -> bool:
    return told.by_chunks and told.is_left


def _key(told: TableState | None) -> object:
    """What a chunk was asked for by."""
    return None if told is None else (told.key, told.where)


def anew(told: TableState) -> TableState:
    """From its beginning."""
    return replace(told, state="pending", key=None, rows=0, columns=())


def _after(chunk: Chunk, told: TableState, rows: Sequence[Row], position: Position) -> TableState:
    count = told.rows + len(rows)
    if not chunk.is_last:
        key = chunk.table.key_of(chunk.rows[-1])
        about = told.about if chunk.estimate is None else chunk.estimate
        return replace(told, state="reading", key=key, rows=count, columns=key_columns(chunk.table), about=about)
    if told.where is not None:
        return stopped(replace(told, rows=count))
    return TableState("complete", None, count, position.at)
