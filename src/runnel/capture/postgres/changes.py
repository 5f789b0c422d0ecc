"""The log as events: transactions in the order of their commits, each change with its table as it was then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from runnel.capture.events import (
    Began,
    Change,
    Ended,
    Event,
    Gone,
    Mark,
    Message,
    Passed,
    Position,
    Redefined,
    Truncated,
)
from runnel.capture.postgres.chunks import MARK_PREFIX
from runnel.capture.postgres.identities import Identities
from runnel.capture.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Emitted,
    Insert,
    Relation,
    Truncate,
    Update,
    decode,
)
from runnel.capture.postgres.replication import HEADER, LOG, end_of, place_of
from runnel.capture.tables import UNCHANGED, UNKNOWN, Row, Table, TableId

logger = logging.getLogger(__name__)

PASSED_SECONDS: Final = 1.0
FULL: Final = "f"  # the identity of a table whose old rows are told whole


class Messages(Protocol):
    """Where raw messages come from: a `Replication`."""

    def read(self, seconds: float) -> Sequence[bytes]: ...

    def close(self) -> None: ...


class Shown(NamedTuple):
    """A table that is told of. `places` are those of its identity's columns, of which an old key has values. `is_full`
    is one whose identity is the whole row.
    """

    table: Table
    places: frozenset[int]
    is_full: bool


class PostgresChanges:
    """`at` makes a position's word of a place in the log; `until` is that of the place where they end. `marks` is the
    prefix of the messages that mark chunks.
    """

    def __init__(
        self,
        messages: Messages,
        define: Callable[[Relation], tuple[Table, bool]],
        identities: Identities,
        at: Callable[[int], Mapping[str, Any]],
        after: Position,
        until: Mapping[str, Any] | None = None,
        closing: Callable[[], None] = lambda: None,
        marks: str = "",
    ) -> None:
        self._messages = messages
        self._define = define
        self._identities = identities
        self._at = at
        self._until = until
        self._end = None if until is None else int(until["lsn"])
        self._closing = closing
        self._marks = marks
        # A relation is looked at with its first change. That of a partition comes with its table's, and has none.
        self._relations: dict[int, Relation | Shown | None] = {}
        self._is_inside = after.index > 0  # until the transaction is over in which reading goes on
        self._last = self._passed = int(after.at["lsn"])  # the end of the last transaction; what the server went past
        self._passed_at = -PASSED_SECONDS
        self._begin: Begin | None = None
        self._is_told = False  # that the transaction began
        self._is_done = False
        self._head = self._middle = ""
        self._mark: str | None = None  # what the transaction marks
        self._said: set[TableId] = set()  # of which partitions tell less than they

    def read(self, seconds: float) -> Sequence[Event]:
        if self._is_done:
            self._identities.check()
        events: list[Event] = []
        for data in () if self._is_done else self._messages.read(seconds):
            if data[0] == LOG:
                self._tell(data, events)
            elif self._begin is None:
                self._passed = max(self._passed, end_of(data))
            if self._is_over():
                break
        if not self._is_over():
            self._pass(events)
            self._look_again()
        return events

    def _is_over(self) -> bool:
        return self._is_done

    def close(self) -> None:
        self._messages.close()
        self._closing()

    def _tell(self, data: bytes, events: list[Event]) -> None:
        message = decode(data, HEADER)
        if isinstance(message, (Insert, Update, Delete)):
            shown = self._relations[message.relation]
            if isinstance(shown, Relation):
                shown = self._relate(shown, events)
            if shown is not None:
                if not self._is_told:
                    self._tell_beginning(events)
                events.append(self._change(shown, message, self._source(place_of(data)[0])))
        elif isinstance(message, Begin):
            self._start(message, events)
        elif isinstance(message, Commit):
            self._complete(message, events)
        elif isinstance(message, Relation):
            self._relations[message.oid] = message
        elif isinstance(message, Truncate):
            self._truncate(message, place_of(data)[0], events)
        elif isinstance(message, Emitted):
            self._emit(message, place_of(data)[1], events)

    def _change(self, shown: Shown, message: Insert | Update | Delete, source: str) -> Change:
        assert self._begin is not None
        micros = self._begin.micros
        if isinstance(message, Insert):
            return Change(shown.table, "c", None, message.row, source, micros)
        if isinstance(message, Delete):
            old = _of_key(shown, message.old) if message.is_key else message.old
            return Change(shown.table, "d", old, None, source, micros)
        if message.old is None:
            if shown.is_full:
                self._say_narrower(shown.table)
            return Change(shown.table, "u", None, message.row, source, micros)
        old = _of_key(shown, message.old) if message.is_key else message.old
        return Change(shown.table, "u", old, _filled(message.row, old), source, micros)

    def _say_narrower(self, table: Table) -> None:
        """A partition that came while changes were read follows no identity of its table."""
        if table.id not in self._said:
            self._said.add(table.id)
            logger.warning(
                "%s: an update came without its old row, which REPLICA IDENTITY FULL would tell: a partition of it has "
                "not got that; ALTER TABLE ... REPLICA IDENTITY FULL for it; the next start tells which it is",
                table.id,
            )

    def _start(self, begin: Begin, events: list[Event]) -> None:
        if self._end is not None and begin.commit_lsn >= self._end:
            self._finish(events)
            return
        self._begin = begin
        self._is_told = False
        self._head = f'"sequence":"[\\"{self._last}\\",\\"'
        self._middle = f'\\"]","txId":{begin.transaction},"lsn":'

    def _tell_beginning(self, events: list[Event]) -> None:
        assert self._begin is not None
        self._is_told = True
        events.append(Began(_name(self._begin), self._begin.micros))

    def _complete(self, commit: Commit, events: list[Event]) -> None:
        assert self._begin is not None
        self._passed = commit.end_lsn
        if self._is_told:
            self._is_inside = False
            self._last = commit.end_lsn
            events.extend(self._gone())
            events.append(Ended(_name(self._begin), self._at(commit.end_lsn), commit.micros))
        elif not self._is_inside:
            self._complete_untold(commit, events)
        if self._mark is not None:
            events.append(Mark(self._mark))
            self._mark = None
        self._begin = None

    def _complete_untold(self, commit: Commit, events: list[Event]) -> None:
        gone = self._gone()
        if gone or self._mark is not None:
            self._last = commit.end_lsn
            events.extend((*gone, Passed(self._at(commit.end_lsn))))

    def _gone(self) -> list[Gone]:
        """What the transaction has shown to be gone. Nothing comes between it and the position behind it."""
        assert self._begin is not None
        self._is_done = self._is_done or self._identities.is_over
        begin, source = self._begin, self._source(self._begin.commit_lsn)
        return [Gone(table, begin.micros, source) for table in self._identities.gone()]

    def _relate(self, relation: Relation, events: list[Event]) -> Shown | None:
        assert self._begin is not None
        is_told = self._identities.has(relation, self._begin.transaction)
        shown = self._shown(relation, events) if is_told else None
        self._relations[relation.oid] = shown
        return shown

    def _shown(self, relation: Relation, events: list[Event]) -> Shown:
        table, is_other = self._define(relation)
        if is_other:
            if not self._is_told:
                self._tell_beginning(events)
            assert self._begin is not None
            events.append(Redefined(table, self._begin.micros))
        places = frozenset(place for place, column in enumerate(relation.columns) if column.is_key)
        return Shown(table, places, relation.identity == FULL)

    def _truncate(self, truncate: Truncate, lsn: int, events: list[Event]) -> None:
        assert self._begin is not None
        for oid in truncate.relations:
            shown = self._relations[oid]
            if isinstance(shown, Relation):
                shown = self._relate(shown, events)
            if shown is not None:
                if not self._is_told:
                    self._tell_beginning(events)
                events.append(Truncated(shown.table, self._source(lsn), self._begin.micros))

    def _emit(self, emitted: Emitted, sent: int, events: list[Event]) -> None:
        if emitted.prefix.startswith(MARK_PREFIX):  # those of other captures are nobody's messages, too
            if emitted.transactional and emitted.prefix == self._marks:
                self._mark = emitted.content.decode("utf-8", "replace")
            return
        if emitted.transactional:
            assert self._begin is not None
            if not self._is_told:
                self._tell_beginning(events)
            source = self._source(emitted.lsn)
            events.append(Message(emitted.prefix, emitted.content, True, source, self._begin.micros))
            return
        # It is told at once, between transactions: the place behind it is its own.
        if self._end is not None and emitted.lsn > self._end:
            self._finish(events)
            return
        source = f'"sequence":"[\\"{self._last}\\",\\"{emitted.lsn}\\"]","txId":null,"lsn":{emitted.lsn},"xmin":null'
        events.append(Message(emitted.prefix, emitted.content, False, source, sent))
        self._last = self._passed = emitted.lsn
        events.append(Passed(self._at(emitted.lsn)))

    def _pass(self, events: list[Event]) -> None:
        """The server went on with nothing for us. That is told only when there is nothing else to tell."""
        if self._begin is not None or self._is_inside:
            return
        if self._end is not None:
            if self._passed >= self._end:
                self._finish(events)
        elif not events and self._passed > self._last and time.monotonic() - self._passed_at >= PASSED_SECONDS:
            self._last = self._passed
            self._passed_at = time.monotonic()
            events.append(Passed(self._at(self._passed)))

    def _look_again(self) -> None:
        """Not while reading goes on inside of a transaction, though others are read before it: it is finished first."""
        if self._begin is None and not self._is_inside:
            self._identities.look_again()
            self._is_done = self._is_done or self._identities.is_over

    def _finish(self, events: list[Event]) -> None:
        assert self._until is not None
        self._is_done = True
        events.append(Passed(self._until))

    def _source(self, lsn: int) -> str:
        return f'{self._head}{lsn}{self._middle}{lsn},"xmin":null'


def _name(begin: Begin) -> str:
    return f"{begin.transaction}:{begin.commit_lsn}"


def _of_key(shown: Shown, old: Row) -> Row:
    places = shown.places
    return tuple(value if place in places else UNKNOWN for place, value in enumerate(old))


def _filled(row: Row, old: Row) -> Row:
    """A large value that an update left as it was, from the old row where that has it."""
    if UNCHANGED not in row:
        return row
    return tuple(
        before if value is UNCHANGED and before is not UNKNOWN else value
        for value, before in zip(row, old, strict=True)
    )
