"""The end of one transaction on its way: each partition gets its marker, and each group its offsets.

They are handed to the log at once and become durable in the same round of the group commit, together with those of
other transactions. What an ill disk refused is tried again until it is well, or until the broker stops.

A marker cannot be taken back: the outcome must be durable before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from runnel.broker.topics import OFFSETS_TOPIC, Topic
from runnel.broker.transactions.state import TopicPartition, Transaction
from runnel.errors import Closed, StaleProducerEpoch

if TYPE_CHECKING:
    from runnel.broker.node import Node

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
SECONDS_TO_RETRY = 1.0  # after a disk failure
SECONDS_TO_BE_READABLE = 1.0  # for so long readers wait for markers that are on their way

Tell = Callable[[BaseException | None], object]

logger = logging.getLogger(__name__)


# Of one marker: its place, the topic as it was when it was handed to the log, and the error if it could not be written.
Outcome = tuple[TopicPartition, Topic | None, BaseException | None]


class Ending:
    """Everything but `_note` happens on the event loop."""

    def __init__(self, node: Node, name: str, transaction: Transaction, coordinator_epoch: int) -> None:
        self.name = name
        self.transaction = transaction
        self._node = node
        self._coordinator_epoch = coordinator_epoch
        self._outcomes: list[Outcome] = []  # of those that were handed over last
        self._unmarked: Set[TopicPartition] = transaction.partitions  # and of which the outcome is not looked at yet
        self._expected = 0
        self._waiting: list[Tell] = []
        self._waiting_for_a_time: list[Tell] = []
        self._patience: asyncio.TimerHandle | None = None  # of the first of them
        self._begun = node.loop.time()
        self._is_late = False
        self._readers: dict[Tell, None] = {}

    def start(self) -> None:
        self._mark(sorted(self.transaction.partitions))

    def when_done(self, tell: Tell) -> None:
        """Told once: None if all is durable, or what keeps it from becoming so before the broker's next start."""
        self._waiting.append(tell)

    def when_done_within(self, seconds: float, tell: Tell) -> None:
        """The same, behind all who wait without a limit; TimeoutError if it takes longer than this for whoever has
        waited longest. The others hear so with him, in their order: one who came later must not be let in before he
        comes again."""
        self._waiting_for_a_time.append(tell)
        if self._patience is None:
            self._patience = self._node.loop.call_later(seconds, self._give_up_waiting)

    def _give_up_waiting(self) -> None:
        self._tell_those_with_a_limit(TimeoutError())

    def _tell_those_with_a_limit(self, error: BaseException | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        waiting, self._waiting_for_a_time = self._waiting_for_a_time, []
        for tell in waiting:
            self._tell(tell, error)

    # --- readers of what is committed

    @property
    def is_late(self) -> bool:
        """Readers go on without it: an ill disk keeps markers back, or it takes too long."""
        return self._is_late or self._node.loop.time() >= self._begun + SECONDS_TO_BE_READABLE

    def holds_up_readers(self, places: Set[TopicPartition]) -> bool:
        """Whether markers for some of these partitions are on their way, and not late."""
        return not self.is_late and not self.transaction.partitions.isdisjoint(places)

    def lacks(self, place: TopicPartition) -> bool:
        """Whether its marker is not durable there, as far as is known."""
        return place in self._unmarked and not any(
            marked == place and error is None for marked, _, error in self._outcomes
        )

    def when_readable(self, reader: Tell) -> None:
        """Told once, when it does not hold up readers any more."""
        self._readers[reader] = None

    def forget_reader(self, reader: Tell) -> None:
        self._readers.pop(reader, None)

    def _let_readers_go_on(self) -> None:
        self._is_late = True
        readers, self._readers = self._readers, {}
        for reader in readers:
            self._tell(reader, None)

    # --- markers

    def _mark(self, places: list[TopicPartition]) -> None:
        self._outcomes, self._expected = [], len(places)
        note = partial(self._note, self._outcomes)
        for place in places:
            try:
                self._mark_one(place, note)
            except Exception as error:  # the others are to be marked all the same
                note((place, None, error))
        if not places:
            self._node.handover.call(self._all_answered, self._outcomes)

    def _mark_one(self, place: TopicPartition, note: Callable[[Outcome], None]) -> None:
        transaction = self.transaction
        producer_id, epoch = transaction.producer_id, transaction.epoch
        if place == OFFSETS:
            ended = self._node.groups.end_transaction(producer_id, epoch, committed=transaction.committed)
            ended.add_done_callback(lambda done: note((place, None, _error_of(done))))
            return
        topic = self._node.topics.find(place.topic)
        if topic is None or place.partition >= topic.count:
            logger.info("transaction %r ends without %s-%d: it was deleted, and its records with it", self.name, *place)
            note((place, None, None))
            return
        try:
            append = topic.partition(place.partition).submit_marker(
                producer_id, epoch, committed=transaction.committed, coordinator_epoch=self._coordinator_epoch
            )
        except StaleProducerEpoch:
            logger.debug("%s-%d knows a newer epoch of producer %d: its transaction is ended", *place, producer_id)
            note((place, None, None))
        except Closed as closed:
            note((place, topic, closed))
        else:
            append.when_done(lambda done: note((place, topic, done.error)))

    def _note(self, outcomes: list[Outcome], outcome: Outcome) -> None:
        """In whichever thread answers: one call to the event loop for all of them."""
        outcomes.append(outcome)
        if len(outcomes) == self._expected:  # two threads may see it
            self._node.handover.call(self._all_answered, outcomes)

    def _all_answered(self, outcomes: list[Outcome]) -> None:
        if outcomes is not self._outcomes:
            return
        self._outcomes = []
        failed = [
            place for place, topic, error in outcomes if error is not None and self._is_missed(place, topic, error)
        ]
        self._unmarked = frozenset(failed)
        if not failed:
            self._finish(None)
        elif self._node.stopping:
            self._finish(Closed("the broker"))
        else:
            self._let_readers_go_on()
            self._node.loop.call_later(SECONDS_TO_RETRY, self._mark, failed)

    def _is_missed(self, place: TopicPartition, topic: Topic | None, error: BaseException) -> bool:
        """Whether a marker that could not be written has to be: not if its topic was deleted meanwhile."""
        if isinstance(error, Closed) and self._node.topics.find(place.topic) is not topic:
            return False
        logger.warning("the end of transaction %r could not be written to %s-%d: %s", self.name, *place, error)
        return True

    def _finish(self, error: BaseException | None) -> None:
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            self._tell(tell, error)
        self._tell_those_with_a_limit(error)
        self._let_readers_go_on()

    def _tell(self, tell: Tell, error: BaseException | None) -> None:
        try:
            tell(error)
        except Exception:  # others wait to hear of it, too
            logger.exception("what was to follow the end of transaction %r failed", self.name)


def _error_of(done: Future[None]) -> BaseException | None:
    return done.exception()
