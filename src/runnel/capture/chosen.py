"""Which tables a capture has, and how each of them is read: as they are chosen, come and go.

A table that is chosen later is read by chunks beside the changes, if it has a key. One that has none is read at one
position; where all are to be read by chunks it is not read, which is said once, and its changes are told. One that is
not chosen any more, or gone, is forgotten: if it comes back, it is read again. Of one that is gone, the topic is told
to be empty. Where tables have numbers, another one that has a table's name is noticed: it is read as if it were chosen
later. Not so one that takes the name of an outbox: its rows may have been sent when they were the other's.

A table of which rows came or went with a partition is read as one that came. If it is being read by chunks, that goes
on to its end, and then it is read once more: who takes a partition every hour would never see it read otherwise. If
nothing would read it, its topic is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, cast

from runnel.capture.envelope import Envelope
from runnel.capture.errors import NoKey, TableMissing
from runnel.capture.events import Again, Came, Change, Ended, Event, Gone, Position, Redefined
from runnel.capture.incremental import CHUNK_ROWS, anew, key_columns, stopped, to_be_read
from runnel.capture.outgoing import Outgoing
from runnel.capture.source import Snapshot, Source, ready
from runnel.capture.state import State, TableState
from runnel.capture.tables import FORGOTTEN, NOT_THERE, Table, TableId

logger = logging.getLogger(__name__)


class Numbering(Protocol):
    """A source whose log does not say that a table is gone, or that another one has its name. Its changes say so of the
    tables that it remembers, where the catalog does not have them, or has others under their names.
    """

    def numbers(self) -> Mapping[TableId, int]:
        """Of all tables that are there, chosen or not."""

    def remember(self, tables: Mapping[TableId, int | None], *, describe: bool) -> None:
        """Of these was told until now, for the changes that are opened next; of no others is told. None: whatever has
        the name; NOT_THERE: nothing has it; FORGOTTEN: nothing has it, and that is to be told. `describe` asks the
        changes to say what they are like, too: columns that are others than before are not in the log.
        """


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


def numbering(source: Source) -> Numbering | None:
    """Asked by name: one that stands before another and hands on what it is asked would not look like it."""
    return cast(Numbering, source) if hasattr(source, "remember") else None


def without_unchosen(state: State, is_chosen: Callable[[str], bool]) -> State:
    """Without the tables that are not chosen any more. It is to be written before the source stops to tell of them:
    nobody may take them for complete afterwards. One that is not there stays until the changes say that it is gone:
    what its topic has is to be told to be no more.
    """
    for name in [name for name in state.tables if not is_chosen(name)]:
        state = state.without(name)
    return state


def with_new(state: State, source: Source, mode: Mode, is_outbox: Callable[[TableId], bool] = lambda _: False) -> State:
    """With the tables that were not chosen before. What a snapshot has left is read as the mode says from now on. An
    outbox is not read: its rows may have been sent.
    """
    position, before = state.position, state.tables
    assert position is not None
    for table in tables_of(source, lambda id: _is_new_or_left(before.get(str(id)), mode)):
        told = state.tables.get(str(table.id))
        if told is not None:
            state = state.with_table(table.id, _unfinished(table, mode, told))
        elif is_outbox(table.id):
            _say_outbox(table.id)
            state = state.with_table(table.id, _new(table, Mode.NONE, position))
        else:
            state = state.with_table(table.id, _later(table, mode, position))
    return state


def tables_of(source: Source, is_asked: Callable[[TableId], bool] = lambda _: True) -> Iterator[Table]:
    """Those that `prepare` has made ready, as they are: not one that is gone, or whose name another has taken since."""
    for id, number in ready(source).items():
        if is_asked(id):
            with suppress(TableMissing):
                table = source.table(id)
                if number in (None, table.number):
                    yield table


def with_tables_of(
    events: Sequence[Event],
    state: State,
    position: Position,
    awaited: Container[str] = (),
    is_outbox: Callable[[TableId], bool] = lambda _: False,
) -> State:
    """A table that was not there before is told of from its first row on; one that is gone is forgotten. Not so those
    that a snapshot is about to read: it has them as they are. Nor an outbox whose rows were another table's before.
    """
    for event in events:
        if isinstance(event, Change):
            continue
        if isinstance(event, Redefined) and str(event.table.id) not in state.tables:
            told = TableState("complete", None, 0, position.at, number=event.table.number)
            state = state.with_table(event.table.id, told)
        elif isinstance(event, Redefined) and state.table(event.table.id).is_gone:
            state = state.with_table(event.table.id, replace(state.table(event.table.id), is_gone=False))
        elif isinstance(event, Came) and is_outbox(event.table):
            if str(event.table) not in awaited:
                _say_outbox(event.table)
                state = state.with_table(event.table, TableState("complete", None, 0, position.at))
        elif isinstance(event, Gone | Came) and str(event.table) in state.tables and str(event.table) not in awaited:
            state = _without(event.table, state)
    return state


def remembered(state: State, source: Source, envelope: Envelope, *, is_prepared: bool = False) -> State:
    """The state with the numbers of those tables that have none yet, such as of a capture from before there were any:
    what is there under their names is taken for them. One that was gone is there again with that, and if it goes, the
    changes say so. Not so inside of a transaction: what was told of it must be told again, of the same tables. Nor, if
    the source was prepared before, one that came after that: the changes find it, and it is prepared. The source is
    told what to look for: also for tables that are in no state any more, and of whose end nothing was told.
    """
    numbered = numbering(source)
    if numbered is None:
        return state
    numbers = numbered.numbers()
    ids = {str(table): table for table in numbers}
    unnumbered = [name for name, told in state.tables.items() if told.number is None and name in ids]
    if unnumbered and state.is_between:
        taken = ready(source) if is_prepared else numbers
        for name in unnumbered:
            if taken.get(ids[name]) == numbers[ids[name]]:
                told = replace(state.tables[name], number=numbers[ids[name]], is_gone=False)
                state = state.with_table(name, told)
    known = {ids.get(name) or TableId(*name.split(".", 1)): _number(told) for name, told in state.tables.items()}
    known |= {table: FORGOTTEN for table in _described(envelope) if table not in known and table not in numbers}
    numbered.remember(known, describe=envelope.schema_changes is not None)
    return state


def without_replaced(state: State, snapshot: Snapshot, envelope: Envelope, out: Outgoing, now: int) -> State:
    """Of a table that a snapshot has begun to read, and whose name another one has by now, nothing counts."""
    for table in snapshot.tables():
        told = state.table(table.id)
        is_known = None not in (told.number, table.number)
        if is_known and told.number != table.number and told.is_left and not told.by_chunks:
            envelope.gone(Gone(table.id, snapshot.micros, snapshot.source), out, now, is_emptied=True)
            state = state.with_table(table.id, TableState(number=table.number))
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


def until_ended(events: Sequence[Event]) -> tuple[Sequence[Event], bool]:
    """The events to the end of the first transaction, and whether one ends."""
    for place, event in enumerate(events):
        if isinstance(event, Ended):
            return events[: place + 1], True
    return events, False


def without_parts(events: Sequence[Event], state: State, is_read: Callable[[TableId], bool]) -> Sequence[Event]:
    """Where rows came or went with a part of a table, and it is not to be read anew at once: either when it is through,
    or never.
    """
    instead: dict[TableId, Sequence[Event]] = {}
    for table in {event.table for event in events if isinstance(event, Came) and event.is_part}:
        told, has_reader = state.table(table), is_read(table)
        if told.by_chunks and told.is_left and (has_reader or told.where is None):
            instead[table] = [Again(table)]
        elif not has_reader:
            logger.warning("the topic of %s stays as it is: nothing reads the table anew", table)
            instead[table] = []
    if not instead:
        return events
    told_of = (instead.get(each.table) if isinstance(each, Came) and each.is_part else None for each in events)
    return [
        each for event, other in zip(events, told_of, strict=True) for each in ([event] if other is None else other)
    ]


def once_more(events: Iterable[Event], state: State) -> State:
    """With the tables noted that are read again when they are through. One may have come to its end just now."""
    for event in events:
        if isinstance(event, Again):
            told = state.table(event.table)
            told = told if told.is_left else to_be_read(told)
            state = state.with_table(event.table, replace(told, since=None, is_again=True))
    return state


def is_read_anew(source: Source, table: TableId, mode: Mode) -> bool:
    if mode is not Mode.INCREMENTAL:
        return mode is Mode.INITIAL
    try:
        return bool(source.table(table).key)
    except TableMissing:
        return False


def _number(told: TableState) -> int | None:
    return NOT_THERE if told.is_gone and told.number is None else told.number


def _described(envelope: Envelope) -> list[TableId]:
    """The tables that are chosen and were told of, where that is asked for. One that was forgotten to be read anew, as
    when somebody took it out of a publication, may be dropped before.
    """
    told = () if envelope.schema_changes is None else envelope.schema_changes.tables()
    return [table for table in told if envelope.choice.has(table)]


def _without(table: TableId, state: State) -> State:
    """One that is being read by chunks may be there again under its name: its chunks will tell."""
    told, state = state.table(table), state.without(table)
    if told.by_chunks and told.is_left:
        return state.with_table(table, replace(anew(told), number=None, is_gone=True))
    return state


def _is_new_or_left(told: TableState | None, mode: Mode) -> bool:
    return told is None or (told.is_left and not told.by_chunks and mode is not Mode.INITIAL)


def _new(table: Table, mode: Mode, position: Position) -> TableState:
    if mode is Mode.NONE:
        return TableState("complete", None, 0, position.at, number=table.number)
    if table.key:
        return replace(to_be_read(), number=table.number)
    if mode is Mode.INCREMENTAL:
        raise NoKey(str(table.id))
    return TableState(number=table.number)


def _later(table: Table, mode: Mode, position: Position) -> TableState:
    """As `_new`, of one that came when others were captured: that is no reason to end."""
    try:
        return _new(table, mode, position)
    except NoKey as error:
        logger.warning("of %s only changes are told from now on, and not the rows that it has: %s", table.id, error)
        return replace(stopped(TableState()), number=table.number)


def _say_outbox(table: TableId) -> None:
    logger.warning("of outbox %s only what is inserted from now on is sent: it may have come with rows", table)


def _unfinished(table: Table, mode: Mode, told: TableState) -> TableState:
    """Of a snapshot at one position that is not to be gone on with: what was read of it counts."""
    if mode is Mode.NONE:
        return stopped(told)
    if not table.key:
        raise NoKey(str(table.id))
    return replace(told, by_chunks=True, columns=key_columns(table))
