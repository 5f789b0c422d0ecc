"""A capture at work: from its database's log into the topics, until it is stopped.

    capture = Capture("shop", source, publisher, envelope)
    capture.run()

It begins with a snapshot, unless it has one: of all tables at one position before the first change (`INITIAL`), by
chunks beside the changes (`INCREMENTAL`), or with none (`NONE`). Events go out as they come: all that a reading gives
are one Kafka transaction, whose position says how far into a transaction of the database it leads. Only what is durable
in the topics is confirmed to the database.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from runnel.capture.choice import asked_since, shown
from runnel.capture.chosen import (
    Mode,
    Reading,
    is_read_anew,
    numbering,
    once_more,
    remembered,
    streaming_from,
    tables_of,
    until_ended,
    until_one_came,
    with_new,
    with_tables_of,
    without_parts,
    without_replaced,
    without_unchosen,
)
from runnel.capture.envelope import Envelope
from runnel.capture.errors import (
    BrokenSignal,
    ChosenOtherwise,
    OtherCapture,
    PartsLeft,
    SameTopic,
    TableMissing,
    TooLongWithoutKey,
)
from runnel.capture.events import Again, Event, Mark, Position
from runnel.capture.incremental import Incremental, missed
from runnel.capture.moved import Moved
from runnel.capture.narrowed import Narrowed
from runnel.capture.outgoing import Outgoing
from runnel.capture.publisher import TRANSACTION_SECONDS, Abandoned, Publisher
from runnel.capture.signals import Choose, Received, ask_for, heeded, until_choice
from runnel.capture.snapshots import Piece, Progress, after_piece, pieces, unread
from runnel.capture.source import Changes, Snapshot, Source, check_key, recognize, unfit
from runnel.capture.state import State, TableState
from runnel.capture.stream import Stream
from runnel.capture.tables import Table, TableId
from runnel.client.errors import Overdue
from runnel.durable import durable
from runnel.errors import Permanent, Transient
from runnel.stop_request import StopRequest

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds before it is tried again
WAIT_SECONDS = 0.5  # for changes, before looking whether to stop
IDLE_MICROS = 5_000_000  # how often the position is written while the log has nothing for us
SIGNAL_MICROS = 500_000  # how often signals are looked for
POSTPONED_MICROS = 10_000_000  # how long changes are read before a signal is tried again that could not be heeded
UNCHANGING = "the source of this capture was opened with a choice that does not change"


def present_micros() -> int:
    return time.time_ns() // 1000


def elapsed_micros() -> int:
    """For how long something takes: nobody sets it back."""
    return time.monotonic_ns() // 1000


class BeginAgain(Exception):
    """What is captured is to be looked at again."""


class Capture:
    def __init__(
        self,
        name: str,
        source: Source,
        publisher: Publisher,
        envelope: Envelope,
        *,
        transactions: bool = False,
        heartbeat: float = 0.0,
        micros: Callable[[], int] = present_micros,
        reading: Reading = Reading(),  # noqa: B008  # it never changes
    ) -> None:
        """`transactions` asks for the transaction topic, `heartbeat` for a heartbeat so many seconds apart."""
        self.name = name
        self.progress = Progress()
        self.state = State()  # as it is durable in the topics
        self.is_streaming = threading.Event()  # not while it waits for what passes
        self._source = source
        self._publisher = publisher
        self._envelope = envelope
        self._has_transactions = transactions
        self._heartbeat_micros = round(heartbeat * 1_000_000)
        self._micros = micros
        self._reading = reading
        self._moved = Moved(source)
        self._stop = StopRequest()
        self._written = self._beaten = self._looked = self._begun = -math.inf  # by `elapsed_micros`
        self._is_asked = False  # to add or remove tables, as soon as it is between transactions
        self._postponed = 0  # the offset behind such a signal that could not be heeded when it was tried
        self._said = self.state.asked

    def stop(self) -> None:
        """Let `run` end after what it is at. From any thread, or from a signal's handler."""
        self._stop.set()

    def run(self) -> None:
        """Until `stop`. What passes, as a broker or a database that is away for a while, is waited for."""
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            step = self.state.step
            try:
                self.start()
                if not self._stop.is_set():
                    self._stream()
            except BeginAgain:
                continue
            except Abandoned:
                return  # somebody has asked for it in the middle of a table
            except Transient as error:
                self.is_streaming.clear()
                if self.state.step > step:
                    pause = FIRST_PAUSE
                logger.warning("capture %s waits, and goes on by itself: %s", self.name, error)
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def start(self) -> None:
        """Take over, and read what is left to be read of the tables before the changes."""
        self.state = self._publisher.open()
        self._envelope.recall(self._publisher.written)
        self._take_choice()
        if self.state.connector not in ("", self._source.connector):
            raise OtherCapture(self.name, self._source.connector, self.state.connector)
        if self.state.position is not None:
            recognize(self._source, self.state.position, self._told_tables())
            lost = self._without_topic()  # before anything is written, which makes a topic
            self._refuse_no_tables()
            self._refuse_fewer_tables(self.state.position)
            self._finish_transaction(self.state.position)
            if self._stop.is_set():
                return
            self._keep(without_unchosen(self.state, lambda name: self._envelope.has(name) and name not in lost))
            self._keep(remembered(self.state, self._source, self._envelope))  # for what `prepare` must not take away
            if self.state.is_between and self._heed_choice():
                raise BeginAgain
        position = self._source.prepare()
        if self.state.position is not None:
            self._refuse_same_topics(map(str, self._source.tables()))
            self._keep(with_new(self.state, self._source, self._reading.mode, self._envelope.is_outbox))
        elif self._reading.mode is not Mode.INITIAL:
            self._begin_streaming(position)
        if self.state.position is None or self.state.needs_snapshot:
            self._take_snapshot()

    def _take_choice(self) -> None:
        """What was asked for while it ran, which a new process does not know."""
        self._is_asked = False
        self._envelope.choice.ask(self.state.asked)
        if self.state.asked != self._said:
            self._said = self.state.asked
            logger.warning(
                "capture %s: tables were asked for while it ran, whatever it was started with: %s",
                self.name,
                shown(self.state.asked) or "none",
            )

    def _told_tables(self) -> list[str]:
        """Those by which a source knows its database. Where tables were asked for while it ran, others may be chosen
        by now.
        """
        return [name for name in self.state.tables if not self.state.asked or self._envelope.has(name)]

    def _without_topic(self) -> set[str]:
        """Tables whose rows were told, and whose topic was deleted since, or made again: they are read anew."""
        told = {name: _id(name) for name, table in self.state.tables.items() if table.rows and self._envelope.has(name)}
        topics = {name: self._envelope.topic(id) for name, id in told.items() if self._envelope.has_every_row(id)}
        lacking = self._publisher.lacks(set(topics.values())) if topics else set()
        lost = [name for name, topic in topics.items() if topic in lacking]
        read = {name for name in lost if self._is_read_anew(told[name])}
        for name in lost:
            logger.warning(
                "capture %s: topic %s, which had %s, is not there, or was made again; %s",
                self.name,
                topics[name],
                name,
                "the table is read anew" if name in read else "it gets changes alone: nothing reads the table anew",
            )
        return read

    def _refuse_no_tables(self) -> None:
        """A choice that fits neither what was captured nor anything else. What was removed is forgotten before. Where
        tables were asked for while it ran, they may be asked for again.
        """
        if (
            self.state.asked
            or not self.state.tables
            or any(map(self._envelope.has, self.state.tables))
            or self._source.tables()
        ):
            return
        known = [str(table) for table in self._source.known()]
        raise TableMissing("any of those that are chosen", self._source.database, known)

    def _refuse_fewer_tables(self, position: Position) -> None:
        """The place inside of a transaction is a number of events, which those that are not told do not count for."""
        left = [name for name in self.state.tables if not self._envelope.has(name)]
        if left and position.index and not self._source.counts_unchosen:
            raise ChosenOtherwise(self.name, left)

    def _finish_transaction(self, position: Position) -> None:
        """Before anything else, and with the tables as they were known when it was begun: what was counted then must
        count again. Tables that are chosen since are captured from its end on, if they are read then.
        """
        if not position.index or self._source.counts_unchosen:
            return
        if self.state.needs_snapshot:
            with self._source.snapshot() as snapshot:  # for what the log leaves out of a row
                self._tell_rest(self._changes(position, snapshot.position), position)
        else:
            self._tell_rest(self._changes(position), position)

    def _tell_rest(self, changes: Changes, position: Position) -> None:
        narrowed = Narrowed(changes, position.index, self.state.tables, self._is_read_anew)
        self._tell_before_reading(narrowed, position, lambda: self.state.is_between)

    # --- tables that are added and removed

    def _heed_choice(self) -> bool:
        """A signal that adds or removes tables, with those before it; whether there is one. It takes effect in the
        state, with the offset behind it. What cannot be done is told, and passed over.
        """
        records, _ = self._publisher.signals.behind(self.state.signals)
        before, asked = until_choice(records, self.name)
        # This may be the only place that it comes to: what a removal mends may be why it never comes to the changes.
        if asked is None or (before and not self._heed(before, before[-1].end)):
            return False
        end = records[len(before)].end
        choice = self._envelope.choice
        try:
            there = self._source.known()
            captured = self._chosen_tables()
            choice.ask(asked_since(self.state.asked, asked.words))
            self._check_choice(asked, there, captured)
        except Transient as error:
            choice.ask(self.state.asked)
            self._postpone(end, error)
            return False
        except Permanent as error:
            choice.ask(self.state.asked)
            self._source.prepare()  # what was made for it is taken back; what is not its fault is raised
            logger.error("capture %s passes over a signal: %s", self.name, error)
        state = replace(self.state, asked=choice.asked, signals=end)
        self._keep(without_unchosen(state, self._envelope.has))
        return True

    def _postpone(self, end: int, error: Transient) -> None:
        """What the database cannot do now, as while somebody keeps a table locked, must not hold up the changes."""
        if self._postponed != end:
            self._postponed = end
            logger.warning("capture %s heeds a signal later: %s", self.name, error)

    def _chosen_tables(self) -> set[TableId]:
        """With those that cannot be captured now: they are when they are mended."""
        return {*self._source.tables(), *unfit(self._source)}

    def _check_choice(self, asked: Choose, there: Sequence[TableId], before: Container[TableId]) -> None:
        """`there` are all tables, as they were before those were looked for that are chosen without it, `before`."""
        for each in asked.tables:
            one = replace(asked, tables=(each,))
            if not any(map(one.fits, there)) and not any(one.fits(_id(name)) for name in self.state.tables):
                raise TableMissing(each, self._source.database, [str(table) for table in there])
        tables = self._source.tables()
        chosen = [table for table in tables if asked.fits(table)]
        if not asked.is_added:
            if chosen:
                raise BrokenSignal(UNCHANGING)
            parts = [str(table) for table in self._chosen_tables() if table in there and table not in before]
            if parts:
                raise PartsLeft(asked.tables, sorted(parts))
            return
        for fault in (fault for table, fault in unfit(self._source).items() if asked.fits(table)):
            raise fault  # the first one
        for each in asked.tables:
            one = replace(asked, tables=(each,))
            left = [table for table in there if one.fits(table)]
            if left and not any(map(one.fits, tables)):
                raise BrokenSignal(f"{left[0]} is a part of another table, or {UNCHANGING}")
        self._refuse_same_topics(map(str, tables))
        for table in chosen:
            if str(table) not in self.state.tables:
                found = self._source.table(table)
                check_key(self._source, found, self._envelope.check(found))
        self._source.prepare()

    def _begin_streaming(self, position: Position) -> None:
        tables = list(tables_of(self._source))
        self._refuse_same_topics(str(table.id) for table in tables)
        self._keep(streaming_from(position, self._source.connector, tables, self._reading.mode))

    # --- the snapshot

    def _take_snapshot(self) -> None:
        with self._source.snapshot() as snapshot:
            tables = snapshot.tables()
            self._refuse_same_topics(str(table.id) for table in tables)
            if self.state.position is None:
                pending = {
                    str(table.id): TableState(number=table.number, about=snapshot.estimate(table)) for table in tables
                }
                begun = State(self._source.connector, snapshot.position, 0, pending)
                outboxes = [table for table in tables if self._envelope.is_outbox(table.id)]
                if outboxes:
                    self._read_at_once(snapshot, outboxes, begun)
                else:
                    self._publish(Outgoing(), begun)
            else:
                out = Outgoing()
                state = without_replaced(self.state, snapshot, self._envelope, out, self._micros())
                if state is not self.state:
                    self._publish(out, state)
                self._catch_up(self.state.position, snapshot)
            self._read_tables(snapshot)
            if not self._stop.is_set():  # it may be inside of a transaction, in which what was told of them counts
                self._forget_gone(tables)

    def _forget_gone(self, tables: Sequence[Table]) -> None:
        """Those that were to be read, and are not in the snapshot. One whose name another has is left to the changes,
        which say so: the other one is made ready then, and read.
        """
        there = {str(table.id) for table in tables}
        numbered = numbering(self._source)
        numbers = {} if numbered is None else {str(table): number for table, number in numbered.numbers().items()}
        state = self.state
        for name, told in self.state.tables.items():
            is_replaced = told.number is not None and numbers.get(name, told.number) != told.number
            if told.is_left and not told.by_chunks and name not in there and not is_replaced:
                state = missed(name, told, state)
        self._keep(state)

    def _catch_up(self, position: Position, snapshot: Snapshot) -> None:
        """Tell what happened since the snapshot that was not read to its end."""
        changes = self._changes(position, snapshot.position)
        self._tell_before_reading(changes, position, lambda: self.state.position == snapshot.position)

    def _tell_before_reading(self, changes: Changes, position: Position, is_done: Callable[[], bool]) -> None:
        """Without the tables that a snapshot is about to read: it has them as they are."""
        unread_tables = {
            name for name, table in self.state.tables.items() if table.state == "pending" and not table.by_chunks
        }
        stream = self._stream_from(position, left_out=unread_tables)
        try:
            while not self._stop.is_set() and not is_done():
                self._pass_on(changes.read(WAIT_SECONDS), stream, must_write=True, awaited=unread_tables)
        finally:
            changes.close()

    def _read_tables(self, snapshot: Snapshot) -> None:
        self.progress.estimate = sum(self._about(snapshot, table) for table in snapshot.tables())
        self.progress.read = sum(table.rows for table in self.state.tables.values())
        left = unread(snapshot, self.state)
        for table in left:
            if self._stop.is_set():
                return
            is_end = table is left[-1]
            if table.key and not self._envelope.is_outbox(table.id):
                self._read_by_pieces(snapshot, table, is_end=is_end)
            else:
                self._read_at_once(snapshot, [table], self.state, is_end=is_end)

    def _about(self, snapshot: Snapshot, table: Table) -> int:
        about = self.state.table(table.id).about
        return snapshot.estimate(table) if about is None else about

    def _read_by_pieces(self, snapshot: Snapshot, table: Table, *, is_end: bool) -> None:
        for piece in pieces(snapshot, table, self.state.table(table.id), is_end=is_end):
            if self._stop.is_set():
                return
            told = after_piece(piece, self.state.table(table.id), snapshot)
            self._publish(self._rows(piece, snapshot), self.state.with_table(table.id, told))

    def _read_at_once(self, snapshot: Snapshot, tables: Sequence[Table], state: State, *, is_end: bool = False) -> None:
        """A table whose rows nothing tells apart: nobody could go on in the middle of it. Nor in an outbox: what was
        inserted since would be sent as a change, and again as a row. So it goes with the very beginning.
        """
        told = state
        read = self.progress.read

        def parts() -> Iterator[Outgoing]:
            nonlocal told
            told, self.progress.read = state, read
            self._envelope.recall(self._publisher.written)  # another attempt tells everything again
            for table in tables:
                for piece in pieces(snapshot, table, TableState(), is_end=is_end):
                    if self._stop.is_set():
                        raise Abandoned
                    told = told.with_table(table.id, after_piece(piece, told.table(table.id), snapshot))
                    yield self._rows(piece, snapshot)

        try:
            self.state = self._publisher.publish_parts(parts, lambda: self._timed(told))
        except Overdue:
            raise TooLongWithoutKey([str(table.id) for table in tables], TRANSACTION_SECONDS) from None

    def _rows(self, piece: Piece, snapshot: Snapshot) -> Outgoing:
        out, now = Outgoing(), self._micros()
        is_begun = self.progress.read > 0
        self._envelope.introduce(piece.table, snapshot.micros, snapshot.source, out, now)
        told = piece.words(is_begun=is_begun)
        self._envelope.rows(piece.table, told, snapshot.source, snapshot.micros, out, now)
        self.progress.read += len(piece.rows)
        return out

    def _refuse_same_topics(self, tables: Iterable[str]) -> None:
        """Two tables whose topics have the same name would be one to those who read it."""
        named: dict[str, str] = {}
        for name in tables:
            topic = self._envelope.topic(_id(name))
            if named.setdefault(topic, name) != name:
                raise SameTopic(name, named[topic], topic)

    # --- the stream

    def _stream(self) -> None:
        position = self.state.position
        assert position is not None  # it was written when the capture began
        changes = self._changes(position)
        stream = self._stream_from(position)
        reading = Incremental(self._source, self._envelope, chunk=self._reading.chunk, rate=self._reading.rate)
        self.is_streaming.set()
        self._begun = elapsed_micros()
        try:
            while not self._stop.is_set() and self._heed_signals():
                self._read_on(reading)
                seconds = reading.seconds(WAIT_SECONDS, elapsed_micros())
                self._pass_on(changes.read(seconds), stream, reading)
        finally:
            changes.close()

    def _changes(self, after: Position, until: Position | None = None) -> Changes:
        self._keep(remembered(self.state, self._source, self._envelope, is_prepared=True))
        return self._source.changes(after, until)

    def _stream_from(self, position: Position, left_out: Container[str] = ()) -> Stream:
        return Stream(
            self._envelope,
            position,
            transactions=self._has_transactions,
            left_out=left_out,
            captured=self.state.tables,
        )

    def _heed_signals(self) -> bool:
        """They take effect in the state, together with the offset behind them. Not so if they ask for tables that were
        not there when this began: those are looked for first, by beginning again. Nor those that add or remove tables,
        with what is behind them: they are heeded by beginning again, between transactions.
        """
        now = elapsed_micros()
        if now - self._looked < SIGNAL_MICROS:
            return True
        self._looked = now
        records, end = self._publisher.signals.behind(self.state.signals)
        if end == self.state.signals:
            return True
        before, asked = until_choice(records, self.name)
        self._is_asked = asked is not None and not self._is_postponed(records[len(before)].end, now)
        if (before or asked is None) and not self._heed(before, end if asked is None else before[-1].end):
            self._looked = -math.inf
            return False
        return not (self._is_asked and self.state.is_between)

    def _is_postponed(self, end: int, now: int) -> bool:
        return end == self._postponed and now - self._begun < POSTPONED_MICROS

    def _heed(self, records: Sequence[Received], end: int) -> bool:
        """Signals that add or remove no tables; not so if they ask for some that are to be made ready before."""
        tables = self._source.tables()
        if ask_for(records, self.name, [table for table in tables if str(table) not in self.state.tables]):
            return False
        state = heeded(records, self.name, self.state, tables, self._source.table)
        self._keep(replace(state, signals=end))
        return True

    def _read_on(self, reading: Incremental) -> None:
        self._keep(reading.ask(self.state, elapsed_micros()))

    def _pass_on(
        self,
        events: Sequence[Event],
        stream: Stream,
        reading: Incremental | None = None,
        *,
        must_write: bool = False,
        awaited: Container[str] = (),
    ) -> None:
        """These events into the topics, and the position behind them."""
        now, elapsed, out = self._micros(), elapsed_micros(), Outgoing()
        events = without_parts(events, self.state, self._is_read_anew)
        events, is_over = until_one_came(events, awaited)
        if self._is_asked and not is_over:
            events, is_over = until_ended(events)
        events = self._moved.completed(events, self.state)
        if reading is not None and reading.is_active:
            position, state = self._told_beside(events, stream, reading, out, now)
        else:
            position, state = stream.tell(events, out, now), once_more(events, self.state)
        state = with_tables_of(events, state, position, awaited, self._envelope.is_outbox)
        if state.tables.keys() - self.state.tables.keys():
            self._refuse_same_topics(map(str, self._source.tables()))
        is_due = 0 < self._heartbeat_micros <= elapsed - self._beaten
        if is_due:
            self._envelope.heartbeat(now, out)
        # A reading with nothing for us moves the position on. To write that each time would be much about nothing.
        is_worth_it = must_write or is_over or elapsed - self._written >= IDLE_MICROS
        if out.records or state is not self.state or (is_worth_it and position != self.state.position):
            before = self.state.position
            self._publish(out, state.at(position))
            self._written = elapsed
            self._beaten = elapsed if is_due else self._beaten
            if before is None or before.at != position.at:
                with durable("capture.confirm"):
                    self._source.confirm(position)
        if is_over:
            raise BeginAgain

    def _is_read_anew(self, table: TableId) -> bool:
        return not self._envelope.is_outbox(table) and is_read_anew(self._source, table, self._reading.mode)

    def _told_beside(
        self, events: Sequence[Event], stream: Stream, reading: Incremental, out: Outgoing, now: int
    ) -> tuple[Position, State]:
        """With the rows of chunks where they belong."""
        state, start = self.state, 0
        for place, event in enumerate(events):
            if isinstance(event, Mark):
                position = stream.tell(events[start:place], out, now)
                start = place + 1
                state = reading.tell(event, state, position, out, now, elapsed_micros())
            elif isinstance(event, Again):
                state = once_more([event], state)
            else:
                reading.note(event)
        if state is not self.state:
            self.progress.show(state)
        return stream.tell(events[start:], out, now), state

    def _keep(self, state: State) -> None:
        """A state that leads to no records."""
        if state is not self.state:
            self._publish(Outgoing(), state)

    def _publish(self, out: Outgoing, state: State) -> None:
        self.state = self._publisher.publish(out, self._timed(state))

    def _timed(self, state: State) -> State:
        """With when it is written, and how late the last change is of which it tells first."""
        state = replace(state, prefix=self._envelope.prefix)
        now, committed = self._micros(), self._envelope.lag.told
        if committed in (0, self.state.committed):
            return replace(state, written=now)
        return replace(state, written=now, committed=committed, late=max(0, now - committed))


def _id(name: str) -> TableId:
    """Of a table by its whole name; a dot in the schema does no harm here."""
    return TableId(*name.split(".", 1))
