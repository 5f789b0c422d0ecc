"""The ends of all transactions that are on their way, and those that are complete without that being written yet.

Who waits for one: the next request of its producer, and whoever reads what is committed (`readers`). Why it
need not be written at once that one is complete: see `deciding`. It is made up for a moment later, unless the next
transaction has begun by then, and at a stop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from runnel.broker.groups.alarm import Alarm
from runnel.broker.mistakes import Refusal
from runnel.broker.transactions import deciding
from runnel.broker.transactions.ending import Ending
from runnel.broker.transactions.readers import Readers
from runnel.broker.transactions.state import Transaction, TransactionsState
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import JournaledState

if TYPE_CHECKING:
    from runnel.broker.node import Node

SECONDS_TO_END = 5.0  # whoever has to wait for another transaction's end longer than this is told to come again
COMPLETED_AFTER = 500  # milliseconds that the next transaction has for beginning, before its forerunner is completed
COMPLETED_AT_ONCE = 100  # in one decision

logger = logging.getLogger(__name__)


class Endings:
    """`marked` are those whose markers are all durable: the very objects of the state, see `deciding`."""

    def __init__(
        self,
        node: Node,
        durable: JournaledState[TransactionsState],
        coordinator_epoch: Callable[[], int],
        when_begun: Callable[[Transaction, str], object],
    ) -> None:
        self._node = node
        self._durable = durable
        self._coordinator_epoch = coordinator_epoch
        self._tell = when_begun
        self._under_way: dict[str, Ending] = {}
        self._completion = Alarm(node.loop, node.clock, self.complete)
        self.readers = Readers(node.loop)
        self.marked: dict[str, Transaction] = {}

    def get(self, name: str) -> Transaction | None:
        """Where the id stands, as decided; complete, if all markers are durable."""
        return self._durable.peek(lambda state: deciding.known_of(state, name, self.marked))

    @property
    def are_under_way(self) -> bool:
        return bool(self._under_way)

    def is_under_way(self, name: str) -> bool:
        return name in self._under_way

    def begin(self, name: str, transaction: Transaction, then: Callable[[Exception | None], object]) -> None:
        """Tell at once that the outcome is durable, and write the markers while that is on its way. In this order they
        are known to be under way when anybody can have heard of it."""
        try:
            ending = self._begun(name, transaction)
        except RunnelError as error:  # where it stands is not known now
            then(error)
            return
        try:
            then(None)
        finally:
            if ending is not None:
                ending.start()

    def when_over(self, name: str, then: Callable[[Exception | None], object]) -> None:
        """After the end that is under way, but not for ever: a disk may be ill."""
        self._under_way[name].when_done_within(
            SECONDS_TO_END, lambda error: then(None if error is None else _not_ended(name, error))
        )

    def when_ended(self, name: str, transaction: Transaction, then: Callable[[Exception | None], object]) -> None:
        """After the end of a transaction whose outcome is durable, but not for ever: a disk may be ill."""
        try:
            self.go_on(name, transaction)
        except RunnelError as error:  # where it stands is not known now
            then(error)
            return
        if self.is_under_way(name):
            self.when_over(name, then)
        else:
            then(None)

    def go_on(self, name: str, transaction: Transaction) -> None:
        """Write its markers, unless that is done or under way."""
        ending = self._begun(name, transaction)
        if ending is not None:
            ending.start()

    def _begun(self, name: str, transaction: Transaction) -> Ending | None:
        """Its end, to be started by whoever gets it; None if that was done.

        Its outcome must be durable: a marker cannot be taken back. And it must still be what was decided last: a
        second marker of an old transaction would end the next one.
        """
        if name in self._under_way or self.get(name) != transaction:
            return None
        ending = self._under_way[name] = Ending(self._node, name, transaction, self._coordinator_epoch())
        ending.when_done(partial(self._ended, ending))
        self.readers.expect(ending)
        self._tell(transaction, name)
        return ending

    def _ended(self, ending: Ending, error: BaseException | None) -> None:
        del self._under_way[ending.name]
        self.readers.forget(ending)
        if error is not None:
            logger.error("transaction %r could not be ended: %s", ending.name, error)
            return
        self._mark(ending.name, ending.transaction)

    def _mark(self, name: str, transaction: Transaction) -> None:
        try:
            known = self._durable.peek(lambda state: state.by_id.get(name))
        except RunnelError as error:  # the sweep writes the markers once more, and that does no harm
            logger.warning("that transaction %r is complete is not known now: %s", name, error)
            return
        if known == transaction:
            self.marked[name] = known
        if self._node.stopping:
            self.complete()
        elif not self._completion.is_set:
            self._completion.set(COMPLETED_AFTER)

    def complete(self) -> None:
        """Write down what is complete. Not awaited: if it cannot be written now, it stays marked and is tried again."""
        self._completion.stop()
        left = iter(tuple(self.marked.items()))
        while some := dict(islice(left, COMPLETED_AT_ONCE)):
            handler = deciding.complete(self._node.clock.now(), some)
            self._durable.decide(handler, partial(self._tell_completed, some))

    def _tell_completed(self, some: dict[str, Transaction], _: None, error: Exception | None) -> None:
        """In whichever thread answers."""
        self._node.handover.call(self._completed, (some, error))

    def _completed(self, told: tuple[dict[str, Transaction], Exception | None]) -> None:
        some, error = told
        if error is None:
            for name, transaction in some.items():
                if self.marked.get(name) is transaction:  # else the next one has ended meanwhile
                    del self.marked[name]
        elif not self._node.stopping and not self._completion.is_set:
            self._completion.set(COMPLETED_AFTER)


def _not_ended(name: str, error: BaseException) -> Refusal:
    if isinstance(error, TimeoutError):
        return Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {name!r} is still being ended")
    return Refusal(ErrorCode.NOT_COORDINATOR, f"the transaction of {name!r} is ended at the broker's next start")
