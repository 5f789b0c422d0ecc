"""The transactions of a broker: it decides, writes the markers that end them, and ends those that last too long.

How a transaction ends, and what a crash in between leaves:
1. the outcome is written to `__transaction_state`. From here on it is decided, whatever happens;
2. each partition gets its marker, and each group its offsets (`ending`). A start writes those that are missing again: a
   second marker does no harm;
3. the producer hears of it when step 1 is durable, so step 2 is under way while it goes on. Whatever it begins next
   waits for the markers, here and not by trying again: a marker behind the first batch of the next transaction would
   end that one. Whoever reads what is committed waits for them, too, for a moment: see `when_readable`;
4. that all is done is written too, but nobody waits for it: with the begin of the next transaction, or a moment later.
   After a crash before that, step 2 is done again.

Everything is called on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.broker.groups.alarm import Alarm
from runnel.broker.mistakes import Refusal
from runnel.broker.topics import TRANSACTIONS_TOPIC
from runnel.broker.transactions import deciding
from runnel.broker.transactions.ages import Ages
from runnel.broker.transactions.deciding import Step
from runnel.broker.transactions.endings import Endings
from runnel.broker.transactions.entries import replay
from runnel.broker.transactions.state import (
    ONGOING,
    ProducerEpoch,
    TopicPartition,
    Transaction,
    TransactionsState,
)
from runnel.errors import RunnelError, Transient
from runnel.log.journal import PartitionJournal
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision, JournaledState, Then

if TYPE_CHECKING:
    from runnel.broker.node import Node

Answer = TypeVar("Answer")

FORGOTTEN_AT_ONCE = 500  # transactional ids, each of which may have 32,767 bytes

logger = logging.getLogger(__name__)


def open_transactions(node: Node) -> Transactions:
    """The transactions of a data directory, read but not running: see `Transactions.start`."""
    partition = node.log.partition(TRANSACTIONS_TOPIC)
    durable = JournaledState(PartitionJournal(partition, keyed=True), TransactionsState, replay)
    durable.start()
    return Transactions(node, durable, lambda: partition.leader_epoch)


class Transactions:
    """Use `open_transactions`."""

    def __init__(
        self, node: Node, durable: JournaledState[TransactionsState], coordinator_epoch: Callable[[], int]
    ) -> None:
        self._node = node
        self._durable = durable
        self.coordinator_epoch = coordinator_epoch
        self._endings = Endings(node, durable, coordinator_epoch, self._count_end)
        self._joined: dict[str, int] = {}  # what was added last is durable when the journal is, up to this offset
        self._admitting: Counter[tuple[int, TopicPartition]] = Counter()  # first batches that wait for their admission
        self._ages = Ages(node.clock)
        self._timeouts = Alarm(node.loop, node.clock, self._abort_overdue)
        self._expiry = Alarm(node.loop, node.clock, self._forget_unused)
        self.committed = 0
        self.aborted = 0

    # --- its life

    def start(self) -> None:
        """Go on with what the last stop or crash left."""
        known = self.all()
        self._ages.look(known)
        for name, transaction in known.items():
            if transaction.status.is_ending:
                logger.info("transaction %r was being ended at the last stop: its markers are written", name)
                self._endings.go_on(name, transaction)
        self._timeouts.set(self._node.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms)
        self._expiry.set(self._node.settings.transaction_remove_expired_transaction_cleanup_interval_ms)

    def stop(self) -> None:
        """What is being ended may still succeed; if not, it goes on at the next start."""
        self._timeouts.stop()
        self._expiry.stop()
        self._endings.complete()

    # --- looking

    def all(self) -> dict[str, Transaction]:
        """By transactional id, as decided. Transient while the disk is ill."""
        return self._durable.peek(self._all_of)

    def _all_of(self, state: TransactionsState) -> dict[str, Transaction]:
        marked = {name: deciding.known_of(state, name, self._endings.marked) for name in self._endings.marked}
        return state.by_id | {name: known for name, known in marked.items() if known is not None}

    def get(self, name: str) -> Transaction | None:
        return self._endings.get(name)

    # --- what producers ask for

    async def initialise(self, name: str, timeout: int, expected: ProducerEpoch | None) -> ProducerEpoch:
        if not 0 < timeout <= self._node.settings.transaction_max_timeout_ms:
            raise Refusal(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a time-out of {timeout} ms; transaction.max.timeout.ms is "
                f"{self._node.settings.transaction_max_timeout_ms}",
            )
        while True:
            handler = partial(deciding.initialise, self._now(), name, timeout, expected, marked=self._endings.marked)
            step = await self._decided(handler(None))
            if step.needs_id:
                step = await self._decided(handler(await self._node.producer_ids.next()))
            if step.ending is None:
                return step.producer
            await self._end_of(name, step.ending)

    def add(
        self, name: str, producer: ProducerEpoch, partitions: Iterable[TopicPartition], version: int
    ) -> Future[None]:
        answer: Future[None] = Future()
        self.add_then(name, producer, partitions, version, partial(_settle, answer))
        return answer

    def add_then(
        self,
        name: str,
        producer: ProducerEpoch,
        partitions: Iterable[TopicPartition],
        version: int,
        then: Callable[[BaseException | None], object],
    ) -> None:
        """`then` is called from whichever thread answers, in the order of these calls. What would begin a transaction
        while the last one is being ended waits for that."""
        if self._endings.is_under_way(name):
            again = partial(self.add_then, name, producer, partitions, version, then)
            self._endings.when_over(name, _then_again(again, then))
            return
        add = deciding.add(self._now(), name, producer, partitions, version, self._endings.marked)
        joins = False

        def decide(state: TransactionsState) -> Decision[None]:
            nonlocal joins
            decision = add(state)
            joins = bool(decision.entries)
            return decision

        self._durable.decide(decide, lambda _, refused: then(refused))
        if joins:  # the offset alone does not tell: after a loss it begins again where it was
            self._joined[name] = self._durable.next_offset

    def verify(self, name: str, producer: ProducerEpoch, partition: TopicPartition) -> Future[None]:
        return self._durable.submit(deciding.verify(name, producer, partition, self._endings.marked))

    def has(self, name: str, producer: tuple[int, int], partition: tuple[str, int]) -> bool:
        """Whether it is known at once that `verify` would have nothing against it: the partition was added, and that
        is durable."""
        joined = self._joined.get(name)
        if joined is None:
            return False
        if joined:
            if joined > self._durable.durable_offset:
                return False
            self._joined[name] = 0  # and so it stays
        try:
            known = self._durable.peek(lambda state: state.by_id.get(name))
        except RunnelError:  # whoever asks by `verify` hears of it
            return False
        return (
            known is not None
            and known.status is ONGOING
            and known[:2] == producer  # its id, and the epoch in force
            and partition in known.partitions
        )

    def admit(
        self,
        name: str,
        producer: ProducerEpoch,
        partitions: Sequence[TopicPartition],
        version: int,
        then: Callable[[BaseException | None], object],
    ) -> None:
        """May this producer write a first batch to each of these? From the second generation on they join with it; in
        the first one it is asked for one partition at a time.

        `then` is called on the event loop, in the order of these calls: a second batch never overtakes the first, if
        it comes this way while `is_admitting`.
        """
        waiting = [(producer.producer_id, partition) for partition in partitions]
        self._admitting.update(waiting)

        def tell(refused: BaseException | None) -> None:
            for each in waiting:
                self._admitting[each] -= 1
                if not self._admitting[each]:
                    del self._admitting[each]
            then(refused)

        def answer(refused: BaseException | None) -> None:
            self._node.handover.call(tell, refused)

        if version >= deciding.NEW_EPOCH_AT_EVERY_END:
            self.add_then(name, producer, partitions, version, answer)
        else:
            (partition,) = partitions
            self._verify_then(name, producer, partition, answer)

    def _verify_then(
        self,
        name: str,
        producer: ProducerEpoch,
        partition: TopicPartition,
        then: Callable[[BaseException | None], object],
    ) -> None:
        """Behind what was added before: that may wait for the end of the last transaction."""
        if self._endings.is_under_way(name):
            again = partial(self._verify_then, name, producer, partition, then)
            self._endings.when_over(name, _then_again(again, then))
            return
        handler = deciding.verify(name, producer, partition, self._endings.marked)
        self._durable.decide(handler, lambda _, refused: then(refused))

    def is_ending(self, name: str) -> bool:
        """Whether the end of this id's last transaction is decided, and its markers are on their way."""
        return self._endings.is_under_way(name)

    def is_admitting(self, producer_id: int, partition: tuple[str, int]) -> bool:
        """Whether a batch of this producer waits to be admitted to the partition."""
        return bool(self._admitting) and (producer_id, partition) in self._admitting

    async def admitted(self, name: str, producer: ProducerEpoch, partition: TopicPartition, version: int) -> None:
        """The same for those who can wait; a refusal is raised."""
        answer: asyncio.Future[None] = self._node.loop.create_future()
        self.admit(name, producer, (partition,), version, partial(_settle, answer))
        await answer

    def end(
        self,
        name: str,
        producer: ProducerEpoch,
        version: int,
        then: Then[ProducerEpoch],
        *,
        committed: bool,
        fresh_id: int | None = None,
    ) -> None:
        """What follows, on the event loop and when the outcome is durable, hears what the producer is to use from now
        on. The markers are on their way then; an end that comes meanwhile waits for them."""
        if self._endings.is_under_way(name):
            again = partial(self.end, name, producer, version, then, committed=committed, fresh_id=fresh_id)
            self._endings.when_over(name, _then_again(again, partial(then, None)))
            return

        def go_on(step: Step | None, error: Exception | None) -> None:
            if step is None:
                then(None, error)
            elif step.needs_id:
                again = partial(self.end, name, producer, version, then, committed=committed)
                self._node.start_task(self._with_fresh_id(lambda fresh: again(fresh_id=fresh), then))
            elif step.ending is None:
                then(step.producer, None)
            else:
                after = step.producer
                self._endings.begin(name, step.ending, lambda error: then(None if error else after, error))

        handler = deciding.end(
            self._now(), name, producer, version, fresh_id, committed=committed, marked=self._endings.marked
        )
        self._decide(handler, go_on)

    async def _with_fresh_id(self, use: Callable[[int], None], then: Then[Any]) -> None:
        try:
            use(await self._node.producer_ids.next())
        except Exception as error:  # whatever it is, the producer waits for an answer
            if not isinstance(error, RunnelError):
                logger.exception("a fresh producer id could not be had")
            then(None, error)

    async def abort_by_force(self, name: str, producer: ProducerEpoch) -> None:
        step = await self._decided(deciding.abort_by_force(self._now(), name, producer))
        if step.ending is not None:
            await self._end_of(name, step.ending)

    async def _end_of(self, name: str, transaction: Transaction) -> None:
        ended: asyncio.Future[None] = self._node.loop.create_future()
        self._endings.when_ended(name, transaction, partial(_settle, ended))
        await ended

    # --- what readers ask for

    @property
    def are_ending(self) -> bool:
        """Whether the markers of some transaction are on their way."""
        return self._endings.are_under_way

    def when_readable(self, places: Set[TopicPartition], then: Callable[[], object]) -> bool:
        """Call `then` when all can be read in these partitions of which some producer was told that it is committed;
        False if that is so now. Where a disk is ill nobody waits for long."""
        return self._endings.readers.when_readable(places, then)

    async def readable(self, places: Set[TopicPartition]) -> None:
        """The same for those who can wait."""
        seen: asyncio.Future[None] = self._node.loop.create_future()
        if self.when_readable(places, partial(_settle, seen, None)):
            await seen

    def is_late(self, place: TopicPartition) -> bool:
        """Whether something is committed, and its producer may have been told so, that cannot be seen there."""
        return any(True for _ in self._endings.readers.late_commits(place))

    def late_producers(self, place: TopicPartition) -> set[int]:
        """The ids of those of whom this is so."""
        return {transaction.producer_id for transaction in self._endings.readers.late_commits(place)}

    def _count_end(self, transaction: Transaction, name: str) -> None:
        self._joined.pop(name, None)
        if transaction.committed:
            self.committed += 1
        else:
            self.aborted += 1

    # --- time

    def _abort_overdue(self) -> None:
        self._timeouts.set(self._node.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms)
        self._node.start_task(self._look_after_all())

    async def _look_after_all(self) -> None:
        try:
            durable = await self._decided(lambda state: Decision(dict(state.by_id)))
        except Transient as error:
            logger.warning("transactions are not looked at now: %s", error)
            return
        ages = self._ages.look(durable)
        for name, transaction in durable.items():
            if transaction.status.is_ending:  # that it is complete got lost
                self._endings.go_on(name, transaction)
            elif ages.get(name, 0) > transaction.timeout:
                logger.warning(
                    "transaction %r has been open for longer than its time-out of %d ms: it is aborted, and its "
                    "producer is fenced", name, transaction.timeout,
                )  # fmt: skip
                self._node.start_task(self.abort_by_force(name, transaction.producer))

    def _forget_unused(self) -> None:
        settings = self._node.settings
        self._expiry.set(settings.transaction_remove_expired_transaction_cleanup_interval_ms)
        self._forget_before(self._now() - settings.transactional_id_expiration_ms)

    def _forget_before(self, before: int) -> None:
        """Some at a time, until none is left: after a long stop they are many, and one decision holds only so much."""

        def go_on(forgotten: int | None, error: Exception | None) -> None:
            if error is not None:
                logger.warning("transactional ids that nobody uses are not forgotten now: %s", error)
            elif forgotten == FORGOTTEN_AT_ONCE and not self._node.stopping:
                self._forget_before(before)

        self._decide(deciding.forget(self._now(), before, FORGOTTEN_AT_ONCE), go_on)

    def _now(self) -> int:
        return self._node.clock.now()

    async def _decided(self, handler: Callable[[TransactionsState], Decision[Answer]]) -> Answer:
        return await asyncio.wrap_future(self._durable.submit(handler), loop=self._node.loop)

    def _decide(self, handler: Callable[[TransactionsState], Decision[Answer]], then: Then[Answer]) -> None:
        """What follows is called on the event loop."""

        def go_on(decided: tuple[Answer | None, Exception | None]) -> None:
            then(*decided)

        self._durable.decide(handler, lambda answer, error: self._node.handover.call(go_on, (answer, error)))


def _then_again(
    again: Callable[[], object], refuse: Callable[[Exception], object]
) -> Callable[[Exception | None], None]:
    """What follows the wait for an end: the same once more. Whatever keeps it from that is told to who waits."""

    def go_on(late: Exception | None) -> None:
        if late is not None:
            refuse(late)
            return
        try:
            again()
        except Exception as error:
            logger.exception("what waited for the end of a transaction failed")
            refuse(error)

    return go_on


def _settle(answer: Future[None] | asyncio.Future[None], error: BaseException | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(None)
