"""The first reading of the tables: their rows as they were at one position, then every change behind it.

The position and the tables that are to be read are written first. Then each piece of rows is one Kafka transaction,
with the key up to which its table was read; a table without a key is one transaction as a whole. After a crash in the
middle a new snapshot is taken. The changes from the old position to the new one are told first: rows that were read
before get them. Then reading goes on behind the last key. So no row is missing, and none is read twice.

A table of which nothing was read has no use for the changes before its snapshot: they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from runnel.capture.source import Snapshot
from runnel.capture.state import State, TableState
from runnel.capture.tables import Row, Table

Word: TypeAlias = Literal["true", "first", "first_in_data_collection", "last_in_data_collection", "last"]


class Piece(NamedTuple):
    """Rows of a table; none only where a table has none left. `is_first` and `is_last` of it, `is_end` of all."""

    table: Table
    rows: Sequence[Row]
    is_first: bool
    is_last: bool
    is_end: bool

    def words(self, *, is_begun: bool) -> Iterator[tuple[Row, Word]]:
        """Each row with what its event says of its place in the snapshot, of which some may have been read before."""
        words: list[Word] = ["true"] * len(self.rows)
        if words and self.is_first:
            words[0] = "first_in_data_collection" if is_begun else "first"
        if words and self.is_last:
            words[-1] = "last" if self.is_end else "last_in_data_collection"
        return zip(self.rows, words, strict=True)


@dataclass
class Progress:
    """For people: rows that were read, and about how many there are."""

    read: int = 0
    estimate: int = 0

    @property
    def percent(self) -> float:
        return 100.0 if self.estimate <= 0 else min(100.0, 100.0 * self.read / self.estimate)

    def show(self, state: State) -> None:
        """What was read of all tables, and what is left."""
        self.read = sum(table.rows for table in state.tables.values())
        self.estimate = sum(max(table.rows, table.about or 0) for table in state.tables.values())


def unread(snapshot: Snapshot, state: State) -> list[Table]:
    """The tables that are not read to their end, those that were begun first; none of those that are read by chunks."""
    told = {table.id: state.table(table.id) for table in snapshot.tables()}
    tables = [table for table in snapshot.tables() if told[table.id].is_left and not told[table.id].by_chunks]
    return sorted(tables, key=lambda table: told[table.id].state != "reading")


def pieces(snapshot: Snapshot, table: Table, told: TableState, *, is_end: bool) -> Iterator[Piece]:
    """What is left of a table. A piece is told of when the next one is there, so that the last one is known as such."""
    is_first = told.state == "pending"
    held: Sequence[Row] = ()
    for rows in snapshot.rows(table, told.key):
        if held:
            yield Piece(table, held, is_first, is_last=False, is_end=False)
            is_first = False
        held = rows
    yield Piece(table, held, is_first, is_last=True, is_end=is_end)


def after_piece(piece: Piece, told: TableState, snapshot: Snapshot) -> TableState:
    rows = told.rows + len(piece.rows)
    if piece.is_last:
        return TableState("complete", None, rows, snapshot.position.at)
    about = told.about if told.about is not None else snapshot.estimate(piece.table)
    return TableState("reading", piece.table.key_of(piece.rows[-1]), rows, told.since, about=about)
