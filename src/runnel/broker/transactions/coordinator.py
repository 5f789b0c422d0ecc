"""The transactions of a broker: it decides, writes the markers that end them, and ends those that last too long.

How a transaction ends, and what a crash in between leaves:
1. the outcome is written to `__transaction_state`. From here on it is decided, whatever happens;
2. each partition gets its marker, and each group its offsets. A start writes those that are missing again: a second
   marker does no harm;
3. that all is done is written too, and the producer hears of it. So whoever was told of a commit can read it, and the
   next transaction need not wait.

Everything is called on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from runnel.broker.groups.alarm import Alarm
from runnel.broker.mistakes import Refusal
from runnel.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from runnel.broker.transactions import deciding
from runnel.broker.transactions.deciding import Step
from runnel.broker.transactions.entries import replay
from runnel.broker.transactions.state import ProducerEpoch, Status, TopicPartition, Transaction, TransactionsState
from runnel.errors import Closed, StaleProducerEpoch, Transient
from runnel.log.journal import PartitionJournal
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision, JournaledState

if TYPE_CHECKING:
    from runnel.broker.node import Node

Answer = TypeVar("Answer")

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
SECONDS_TO_END = 5.0  # whoever has to wait for another transaction's end longer than this is told to come again
SECONDS_TO_RETRY = 1.0  # after a disk failure

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
        self._endings: dict[str, asyncio.Task[None]] = {}
        self._admitting: Counter[tuple[int, TopicPartition]] = Counter()  # first batches that wait for their admission
        self._timeouts = Alarm(node.loop, node.clock, self._abort_overdue)
        self._expiry = Alarm(node.loop, node.clock, self._forget_unused)
        self.committed = 0
        self.aborted = 0

    # --- its life

    def start(self) -> None:
        """Go on with what the last stop or crash left."""
        for name, transaction in self.all().items():
            if transaction.status.is_ending:
                logger.info("transaction %r was being ended at the last stop: its markers are written", name)
                self._ending_of(name, transaction)
        self._timeouts.set(self._node.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms)
        self._expiry.set(self._node.settings.transaction_remove_expired_transaction_cleanup_interval_ms)

    def stop(self) -> None:
        """What is being ended may still succeed; if not, it goes on at the next start."""
        self._timeouts.stop()
        self._expiry.stop()

    # --- looking

    def all(self) -> dict[str, Transaction]:
        """By transactional id, as decided. Transient while the disk is ill."""
        return self._durable.peek(lambda state: dict(state.by_id))

    def get(self, name: str) -> Transaction | None:
        return self._durable.peek(lambda state: state.by_id.get(name))

    # --- what producers ask for

    async def initialise(self, name: str, timeout: int, expected: ProducerEpoch | None) -> ProducerEpoch:
        if not 0 < timeout <= self._node.settings.transaction_max_timeout_ms:
            raise Refusal(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a time-out of {timeout} ms; transaction.max.timeout.ms is "
                f"{self._node.settings.transaction_max_timeout_ms}",
            )
        while True:
            step = await self._with_id(partial(deciding.initialise, self._now(), name, timeout, expected))
            if step.ending is None:
                return step.producer
            await self._end_of(name, step.ending)

    def add(
        self, name: str, producer: ProducerEpoch, partitions: Iterable[TopicPartition], version: int
    ) -> Future[None]:
        return self._durable.submit(deciding.add(self._now(), name, producer, partitions, version))

    def verify(self, name: str, producer: ProducerEpoch, partition: TopicPartition) -> Future[None]:
        return self._durable.submit(deciding.verify(name, producer, partition))

    def admit(
        self,
        name: str,
        producer: ProducerEpoch,
        partition: TopicPartition,
        version: int,
        then: Callable[[BaseException | None], object],
    ) -> None:
        """May this producer write a first batch to the partition? From the second generation on it joins with it.

        `then` is called on the event loop, in the order of these calls: a second batch never overtakes the first, if
        it comes this way while `is_admitting`.
        """
        waiting = (producer.producer_id, partition)
        self._admitting[waiting] += 1

        def tell(refused: BaseException | None) -> None:
            self._admitting[waiting] -= 1
            if not self._admitting[waiting]:
                del self._admitting[waiting]
            then(refused)

        if version >= deciding.NEW_EPOCH_AT_EVERY_END:
            answer = self.add(name, producer, (partition,), version)
        else:
            answer = self.verify(name, producer, partition)
        answer.add_done_callback(lambda done: self._node.handover.call(tell, done.exception()))

    def is_admitting(self, producer_id: int, partition: TopicPartition) -> bool:
        """Whether a batch of this producer waits to be admitted to the partition."""
        return (producer_id, partition) in self._admitting

    async def admitted(self, name: str, producer: ProducerEpoch, partition: TopicPartition, version: int) -> None:
        """The same for those who can wait; a refusal is raised."""
        answer: asyncio.Future[None] = self._node.loop.create_future()

        def settle(error: BaseException | None) -> None:
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(None)

        self.admit(name, producer, partition, version, settle)
        await answer

    async def end(self, name: str, producer: ProducerEpoch, version: int, *, committed: bool) -> ProducerEpoch:
        """The answer, when all is done, is what the producer is to use from now on."""
        step = await self._with_id(
            lambda fresh_id: deciding.end(self._now(), name, producer, version, fresh_id, committed=committed)
        )
        if step.ending is not None:
            await self._end_of(name, step.ending)
        return step.producer

    async def abort_by_force(self, name: str, producer: ProducerEpoch) -> None:
        step = await self._decided(deciding.abort_by_force(self._now(), name, producer))
        if step.ending is not None:
            await self._end_of(name, step.ending)

    async def _with_id(self, handler: Callable[[int | None], deciding.Handler]) -> Step:
        """Decide; if a producer id is needed for it, get one and decide again."""
        step = await self._decided(handler(None))
        if step.needs_id:
            step = await self._decided(handler(await self._node.producer_ids.next()))
        return step

    # --- ending

    async def _end_of(self, name: str, transaction: Transaction) -> None:
        """Wait for the end of a transaction whose outcome is durable, but not for ever: a disk may be ill."""
        ending = self._ending_of(name, transaction)
        if ending is None:
            return
        done, _ = await asyncio.wait((ending,), timeout=SECONDS_TO_END)
        if not done:
            raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {name!r} is still being ended")
        if ending.cancelled() or ending.exception() is not None:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"the transaction of {name!r} is ended at the broker's next start")

    def _ending_of(self, name: str, transaction: Transaction) -> asyncio.Task[None] | None:
        """Write its markers, or go on with it; None if that is done.

        Its outcome must be durable: a marker cannot be taken back. And it must still be what was decided last: a
        second marker of an old transaction would end the next one.
        """
        ending = self._endings.get(name)
        if ending is None or ending.done():
            if self.get(name) != transaction:
                return None
            ending = self._endings[name] = self._node.loop.create_task(self._end(name, transaction))
            ending.add_done_callback(partial(self._forget_ending, name))
        return ending

    def _forget_ending(self, name: str, ending: asyncio.Task[None]) -> None:
        if self._endings.get(name) is ending:
            del self._endings[name]
        if not ending.cancelled() and ending.exception() is not None:
            logger.error("transaction %r could not be ended", name, exc_info=ending.exception())

    async def _end(self, name: str, transaction: Transaction) -> None:
        waiting = sorted(transaction.partitions)
        while waiting:
            outcomes = await asyncio.gather(
                *(self._mark(partition, transaction) for partition in waiting), return_exceptions=True
            )
            failed = [(place, error) for place, error in zip(waiting, outcomes, strict=True) if error is not None]
            for place, error in failed:
                logger.warning("the end of transaction %r could not be written to %s-%d: %s", name, *place, error)
            waiting = [place for place, _ in failed]
            if waiting and self._node.stopping:
                raise Closed("the broker")
            if waiting:
                await asyncio.sleep(SECONDS_TO_RETRY)
        # Not awaited: if it gets lost, the markers are written once more, and that does no harm.
        self._durable.submit(deciding.complete(self._now(), name, transaction.producer))
        if transaction.committed:
            self.committed += 1
        else:
            self.aborted += 1

    async def _mark(self, place: TopicPartition, transaction: Transaction) -> None:
        producer_id, epoch = transaction.producer
        if place == OFFSETS:
            ended = self._node.groups.end_transaction(producer_id, epoch, committed=transaction.committed)
            await asyncio.wrap_future(ended, loop=self._node.loop)
            return
        topic = self._node.topics.find(place.topic)
        if topic is None or place.partition >= topic.count:
            return  # it was deleted, and its records with it
        try:
            append = topic.partition(place.partition).submit_marker(
                producer_id, epoch, committed=transaction.committed, coordinator_epoch=self.coordinator_epoch()
            )
            await self._node.appended(append)
        except StaleProducerEpoch:
            logger.debug("%s-%d knows a newer epoch of producer %d: its transaction is ended", *place, producer_id)
        except Closed:
            if self._node.topics.find(place.topic) is topic:
                raise

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
        now = self._now()
        for name, transaction in durable.items():
            if transaction.status.is_ending:  # that it is complete got lost
                self._ending_of(name, transaction)
            elif transaction.status is Status.ONGOING and transaction.started + transaction.timeout < now:
                logger.warning(
                    "transaction %r has been open for longer than its time-out of %d ms: it is aborted, and its "
                    "producer is fenced", name, transaction.timeout,
                )  # fmt: skip
                self._node.start_task(self.abort_by_force(name, transaction.producer))

    def _forget_unused(self) -> None:
        settings = self._node.settings
        self._expiry.set(settings.transaction_remove_expired_transaction_cleanup_interval_ms)
        before = self._now() - settings.transactional_id_expiration_ms
        self._durable.submit(deciding.forget(self._now(), before))

    def _now(self) -> int:
        return self._node.clock.now()

    async def _decided(self, handler: Callable[[TransactionsState], Decision[Answer]]) -> Answer:
        return await asyncio.wrap_future(self._durable.submit(handler), loop=self._node.loop)
