"""Which tables a capture has, and how each of them is read: as they are chosen, come and go.

A table that is chosen later is read by chunks beside the changes, if it has a key. One that is not chosen any more, or
not there, is forgotten: if it comes back, it is read again.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from runnel.capture.errors import NoKey
from runnel.capture.events import Came, Ended, Event, Gone, Position, Redefined
from runnel.capture.incremental import CHUNK_ROWS, anew, key_columns, stopped, to_be_read
from runnel.capture.source import Source
from runnel.capture.state import State, TableState
from runnel.capture.tables import Table, TableId


class Mode(Enum):
    """How the tables are read: before the first change, beside the changes, or not at all."""

    INITIAL = "initial"
    INCREMENTAL = "incremental"
    NONE = "none"


@dataclass(frozen=True)
class Reading:
    """How the tables are read: `chunk` rows at once beside the changes, and at most `rate` of them in a second."""

    mode: Mode = Mode.INITIAL
    chunk: int = CHUNK_ROWS
    rate: float | None = None


def streaming_from(position: Position, connector: str, tables: Sequence[Table], mode: Mode) -> State:
    """Of a capture that has written nothing yet, and takes no snapshot before the changes."""
    state = State(connector, position)
    for table in tables:
        state = state.with_table(table.id, _new(table, mode, position))
    return state


def without_gone(state: State, source: Source) -> State:
    """Without the tables that are not chosen, or not there. It is to be written before the source stops to tell of
    them: nobody may take them for complete afterwards.
    """
    there = {str(table) for table in source.tables()}
    for name in [name for name in state.tables if name not in there]:
        state = state.without(name)
    return state


def with_new(state: State, source: Source, mode: Mode) -> State:
    """With the tables that were not chosen before. What a snapshot has left is read as the mode says from now on."""
    assert state.position is not None
    for table in source.tables():
        told = state.tables.get(str(table))
        if told is None:
            state = state.with_table(table, _new(source.table(table), mode, state.position))
        elif told.is_left and not told.by_chunks and mode is not Mode.INITIAL:
            state = state.with_table(table, _unfinished(source.table(table), mode, told))
    return state


def with_tables_of(events: Sequence[Event], state: State, position: Position, awaited: Container[str] = ()) -> State:
    """A table that was not there before is told of from its first row on; one that is gone is forgotten. Not so those
    that a snapshot is about to read: it has them as they are.
    """
    for event in events:
        if isinstance(event, Redefined) and str(event.table.id) not in state.tables:
            state = state.with_table(event.table.id, TableState("complete", None, 0, position.at))
        elif isinstance(event, Gone | Came) and str(event.table) in state.tables and str(event.table) not in awaited:
            state = _without(event.table, state)
    return state


def until_one_came(events: Sequence[Event], awaited: Container[str] = ()) -> tuple[Sequence[Event], bool]:
    """The events to the end of the transaction in which a table came with its rows, and whether one did. What is behind
    that is to be told when the table is among those that are to be read, as one that is chosen later.
    """
    has_come = False
    for place, event in enumerate(events):
        if isinstance(event, Came):
            has_come = has_come or str(event.table) not in awaited
        elif has_come and isinstance(event, Ended):
            return events[: place + 1], True
    return events, has_come


def _without(table: TableId, state: State) -> State:
    """One that is being read by chunks may be there again under its name: its chunks will tell."""
    told = state.table(table)
    return state.with_table(table, anew(told)) if told.by_chunks and told.is_left else state.without(table)


def _new(table: Table, mode: Mode, position: Position) -> TableState:
    if mode is Mode.NONE:
        return TableState("complete", None, 0, position.at)
    if table.key:
        return to_be_read()
    if mode is Mode.INCREMENTAL:
        raise NoKey(str(table.id))
    return TableState()


def _unfinished(table: Table, mode: Mode, told: TableState) -> TableState:
    """Of a snapshot at one position that is not to be gone on with: what was read of it counts."""
    if mode is Mode.NONE:
        return stopped(told)
    if not table.key:
        raise NoKey(str(table.id))
    return replace(told, by_chunks=True, columns=key_columns(table))
