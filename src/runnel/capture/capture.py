"""A capture at work: from its database's log into the topics, until it is stopped.

    capture = Capture("shop", source, publisher, envelope)
    capture.run()

It begins with a snapshot, unless it has one. Events go out as they come: all that a reading gives are one Kafka
transaction, whose position says how far into a transaction of the database it leads. Only what is durable in the topics
is confirmed to the database.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from runnel.capture.envelope import Envelope
from runnel.capture.errors import InvalidChoice, OtherCapture
from runnel.capture.events import Change, Event, Position, Redefined
from runnel.capture.outgoing import Outgoing
from runnel.capture.publisher import Publisher
from runnel.capture.snapshots import Piece, Progress, after_piece, pieces, unread
from runnel.capture.source import Snapshot, Source
from runnel.capture.state import State, TableState
from runnel.capture.stream import Stream
from runnel.capture.tables import Table, TableId
from runnel.durable import durable
from runnel.errors import Transient
from runnel.stop_request import StopRequest

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds before it is tried again
WAIT_SECONDS = 0.5  # for changes, before looking whether to stop
IDLE_MICROS = 5_000_000  # how often the position is written while the log has nothing for us


def present_micros() -> int:
    return time.time_ns() // 1000


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
    ) -> None:
        """`transactions` asks for the transaction topic, `heartbeat` for a heartbeat so many seconds apart."""
        self.name = name
        self.progress = Progress()
        self.state = State()  # as it is durable in the topics
        self.is_streaming = threading.Event()
        self._source = source
        self._publisher = publisher
        self._envelope = envelope
        self._has_transactions = transactions
        self._heartbeat_micros = round(heartbeat * 1_000_000)
        self._micros = micros
        self._stop = StopRequest()
        self._written = self._beaten = 0

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
            except Transient as error:
                if self.state.step > step:
                    pause = FIRST_PAUSE
                logger.warning("capture %s waits, and goes on by itself: %s", self.name, error)
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def start(self) -> None:
        """Take over, and read what is left to be read of the tables."""
        self.state = self._publisher.open()
        if self.state.connector not in ("", self._source.connector):
            raise OtherCapture(self.name, self._source.connector, self.state.connector)
        self._source.prepare()
        if self.state.position is not None:
            for table in self._source.tables():
                self.state = self.state.with_table(table, self.state.table(table))  # a new one is pending
        if not self.state.is_complete:
            self._take_snapshot()

    # --- the snapshot

    def _take_snapshot(self) -> None:
        with self._source.snapshot() as snapshot:
            tables = snapshot.tables()
            self._refuse_same_topics(tables)
            if self.state.position is None:
                pending = {str(table.id): TableState() for table in tables}
                self._publish(Outgoing(), State(self._source.connector, snapshot.position, 0, pending))
            else:
                self._catch_up(self.state.position, snapshot)
            self._read_tables(snapshot)

    def _catch_up(self, position: Position, snapshot: Snapshot) -> None:
        """Tell what happened since the snapshot that was not read to its end."""
        unread_tables = {name for name, table in self.state.tables.items() if table.state == "pending"}
        stream = Stream(self._envelope, position, transactions=self._has_transactions, left_out=unread_tables)
        changes = self._source.changes(position, snapshot.position)
        try:
            while not self._stop.is_set() and self.state.position != snapshot.position:
                self._pass_on(changes.read(WAIT_SECONDS), stream, must_write=True)
        finally:
            changes.close()

    def _read_tables(self, snapshot: Snapshot) -> None:
        self.progress.estimate = sum(snapshot.estimate(table) for table in snapshot.tables())
        self.progress.read = sum(table.rows for table in self.state.tables.values())
        left = unread(snapshot, self.state)
        for table in left:
            if self._stop.is_set():
                return
            is_end = table is left[-1]
            if table.key:
                self._read_by_pieces(snapshot, table, is_end=is_end)
            else:
                self._read_at_once(snapshot, table, is_end=is_end)

    def _read_by_pieces(self, snapshot: Snapshot, table: Table, *, is_end: bool) -> None:
        for piece in pieces(snapshot, table, self.state.table(table.id), is_end=is_end):
            if self._stop.is_set():
                return
            told = after_piece(piece, self.state.table(table.id), snapshot)
            self._publish(self._rows(piece, snapshot), self.state.with_table(table.id, told))

    def _read_at_once(self, snapshot: Snapshot, table: Table, *, is_end: bool) -> None:
        """A table whose rows nothing tells apart: nobody could go on in the middle of it."""
        told = TableState()
        read = self.progress.read

        def parts() -> Iterator[Outgoing]:
            nonlocal told
            told, self.progress.read = TableState(), read
            for piece in pieces(snapshot, table, told, is_end=is_end):
                told = after_piece(piece, told, snapshot)
                yield self._rows(piece, snapshot)

        topic = self._envelope.topic(table.id)
        self.state = self._publisher.publish_parts(parts, topic, lambda: self.state.with_table(table.id, told))

    def _rows(self, piece: Piece, snapshot: Snapshot) -> Outgoing:
        out, now = Outgoing(), self._micros()
        is_begun = self.progress.read > 0
        for row, word in piece.words(is_begun=is_begun):
            change = Change(piece.table, "r", None, row, snapshot.source, snapshot.micros)
            self._envelope.change(change, out, now, snapshot=word)
        self.progress.read += len(piece.rows)
        return out

    def _refuse_same_topics(self, tables: Sequence[Table]) -> None:
        """Two tables whose topics have the same name would be one to those who read it."""
        named: dict[str, TableId] = {}
        for table in tables:
            other = named.setdefault(self._envelope.topic(table.id), table.id)
            if other != table.id:
                raise InvalidChoice("table", str(table.id), f"its topic would be the same as that of {other}")

    # --- the stream

    def _stream(self) -> None:
        position = self.state.position
        assert position is not None  # a snapshot was read to its end
        changes = self._source.changes(position)
        stream = Stream(self._envelope, position, transactions=self._has_transactions)
        self.is_streaming.set()
        try:
            while not self._stop.is_set():
                self._pass_on(changes.read(WAIT_SECONDS), stream)
        finally:
            changes.close()

    def _pass_on(self, events: Sequence[Event], stream: Stream, *, must_write: bool = False) -> None:
        """These events into the topics, and the position behind them."""
        now, out = self._micros(), Outgoing()
        position = stream.tell(events, out, now)
        is_due = 0 < self._heartbeat_micros <= now - self._beaten
        if is_due:
            self._envelope.heartbeat(now, out)
        # A reading with nothing for us moves the position on. To write that each time would be much about nothing.
        is_worth_it = must_write or now - self._written >= IDLE_MICROS
        if out.records or (is_worth_it and position != self.state.position):
            before = self.state.position
            self._publish(out, self._with_new_tables(events, position).at(position))
            self._written = now
            self._beaten = now if is_due else self._beaten
            if before is None or before.at != position.at:
                with durable("capture.confirm"):
                    self._source.confirm(position)

    def _with_new_tables(self, events: Sequence[Event], position: Position) -> State:
        """A table that was not there before is told of from its first row on."""
        state = self.state
        for event in events:
            if isinstance(event, Redefined) and str(event.table.id) not in state.tables:
                state = state.with_table(event.table.id, TableState("complete", None, 0, position.at))
        return state

    def _publish(self, out: Outgoing, state: State) -> None:
        self.state = self._publisher.publish(out, state)
