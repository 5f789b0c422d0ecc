"""Events of a database as records, and the position behind them: where reading is inside of its transactions.

After a restart a transaction is told of from its start again. Its first events, which are in the topics, are counted
and left out, so that the orders and counts of the transaction topic are those of an undisturbed life.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from runnel.capture.envelope import STREAMING, Block, Envelope, no_block
from runnel.capture.events import (
    Began,
    Came,
    Change,
    Ended,
    Event,
    Gone,
    Message,
    Passed,
    Position,
    Redefined,
    Truncated,
    Unchosen,
)
from runnel.capture.forms import quoted
from runnel.capture.outgoing import Outgoing


class Stream:
    def __init__(
        self,
        envelope: Envelope,
        position: Position,
        *,
        transactions: bool,
        left_out: Container[str] = (),
        captured: Iterable[str] = (),
    ) -> None:
        """`left_out` are the tables, as `schema.table`, of which nothing is to be told; `captured` those that may have
        rows in their topics.
        """
        self._envelope = envelope
        self._has_transactions = transactions
        self._left_out = left_out
        self._captured = set(captured)
        self._at, self._index = position.at, position.index  # where reading is
        self._skip = position.index  # events of the next transaction that are in the topics
        self._told = 0  # events of this transaction that were read
        self._id: str | None = None
        self._begun: Began | None = None  # of this transaction, until BEGIN is told
        self._counts: Counter[str] = Counter()
        self._total = 0

    def tell(self, events: Iterable[Event], out: Outgoing, now: int) -> Position:
        """Their records, without those that are in the topics; the position behind them."""
        event: Event | None = None
        for event in events:
            match event:
                case Change() | Truncated() | Message():
                    self._tell(event, self._counted(out), now)
                case Began():
                    self._begin(event)
                case Ended():
                    self._end(event, out)
                case Passed():
                    self._pass(event)
                case Redefined():
                    self._redefine(event, out, now)
                case Gone() | Came():
                    self._forget(event, out if self._told >= self._skip else Outgoing(is_kept=False), now)
                case Unchosen():
                    self._counted(out)
        is_current = self._id is None and (event is None or (isinstance(event, Passed) and event.micros is None))
        self._envelope.lag.read(now, is_current=is_current)
        return Position(self._at, self._index)

    # --- inside

    def _begin(self, event: Began) -> None:
        self._id = event.id
        self._told = self._total = 0
        self._counts = Counter()
        if event.at is not None:
            self._at = event.at
        self._begun = event if self._has_transactions and not self._skip else None

    def _redefine(self, event: Redefined, out: Outgoing, now: int) -> None:
        self._captured.add(str(event.table.id))
        if self._id is None:  # inside of a transaction, a change of it follows
            self._envelope.introduce(event.table, event.micros, event.source, out, now, STREAMING)

    def _pass(self, event: Passed) -> None:
        self._at, self._index = event.at, self._skip  # what is in the topics is of a transaction that is still to come
        if event.micros is not None:
            self._envelope.lag.passed(event.micros)

    def _tell_begun(self, out: Outgoing) -> None:
        """BEGIN goes with what moves the position into the transaction: a restart before that would tell it again."""
        if self._begun is not None:
            self._envelope.began(self._begun.id, self._begun.micros, out)
            self._begun = None

    def _end(self, event: Ended, out: Outgoing) -> None:
        if self._skip and not self._told:  # it has no events: those that are in the topics are of a later one
            self._at, self._id = event.at, None
            return
        self._tell_begun(out)
        if self._has_transactions:
            self._envelope.ended(event.id, event.micros, self._counts, out)
        self._envelope.lag.ended(event.micros)
        self._at, self._index = event.at, 0
        self._id, self._skip = None, 0

    def _counted(self, out: Outgoing) -> Outgoing:
        """Where the next event goes: nowhere, if it is in the topics."""
        if self._id is None:
            return out
        self._told += 1
        if self._told <= self._skip:
            return Outgoing(is_kept=False)
        self._index = self._told
        self._tell_begun(out)
        return out

    def _forget(self, event: Gone | Came, out: Outgoing, now: int) -> None:
        """Another table may come under its name: what its topic has is told to be no more."""
        name = str(event.table)
        has_rows = name in self._captured and name not in self._left_out
        self._envelope.gone(event, out, now, is_emptied=has_rows and bool(event.source))
        self._captured.discard(name)

    def _tell(self, event: Change | Truncated | Message, out: Outgoing, now: int) -> None:
        block: Block = self._block if self._has_transactions and self._id is not None else no_block
        if isinstance(event, Message):
            self._envelope.message(event, out, now, block)
        elif isinstance(event, Truncated):  # also of one that is left out: its topic may have rows of another one
            self._envelope.truncated(event, out, now, block)
        elif self._left_out and str(event.table.id) in self._left_out:
            return
        else:
            self._envelope.change(event, out, now, block)

    def _block(self, table: str) -> str:
        assert self._id is not None
        self._total += 1
        self._counts[table] += 1
        told = f'"total_order":{self._total},"data_collection_order":{self._counts[table]}'
        return f'{{"id":{quoted(self._id)},{told}}}'
