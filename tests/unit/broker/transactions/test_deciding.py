"""What may happen next with a transactional id: every rule, and every refusal."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from runnel.broker.mistakes import Refusal
from runnel.broker.transactions import deciding
from runnel.broker.transactions.deciding import NONE_MARKED, Step, known_of
from runnel.broker.transactions.entries import replay
from runnel.broker.transactions.records import read_key, read_value
from runnel.broker.transactions.state import (
    LAST_EPOCH,
    NOT_THERE,
    ProducerEpoch,
    Status,
    TopicPartition,
    Transaction,
    TransactionsState,
)
from runnel.protocol.error_codes import ErrorCode

T = "t"
ID = 7
FRESH = 8
TIMEOUT = 60_000
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
EVERY_STATUS = (
    Status.EMPTY,
    Status.ONGOING,
    Status.PREPARE_COMMIT,
    Status.PREPARE_ABORT,
    Status.COMPLETE_COMMIT,
    Status.COMPLETE_ABORT,
)
IDLE = (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)
ENDING = (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
OUTCOMES = pytest.mark.parametrize("committed", [True, False])
GENERATIONS = pytest.mark.parametrize("version", [1, 2])


class Coordinator:
    """Decisions over one state, replayed as they are at run time; the time is the number of the decision."""

    def __init__(self, **known: Any) -> None:
        self.state = TransactionsState()
        self.now = 0
        if known:
            facts = {"producer_id": ID, "epoch": 0, "timeout": TIMEOUT, "status": Status.EMPTY} | known
            self.state.by_id[T] = Transaction(**facts)

    @property
    def known(self) -> Transaction:
        return self.state.by_id[T]

    def decide(self, handler: Any) -> Any:
        decision = handler(self.state)
        for entry in decision.entries:
            replay(self.state, entry)
            if entry.value is not None:
                assert self.state.by_id[read_key(entry.key)] == read_value(entry.value)  # at a start it is read
        return decision.answer

    def _tick(self) -> int:
        self.now += 1
        return self.now

    def initialise(
        self, expected: tuple[int, int] | None = None, fresh: int | None = FRESH, timeout: int = TIMEOUT
    ) -> Step:
        brought = None if expected is None else ProducerEpoch(*expected)
        step: Step = self.decide(deciding.initialise(self._tick(), T, timeout, brought, fresh))
        return step

    def add(self, *partitions: TopicPartition, epoch: int = 0, producer_id: int = ID, version: int = 2) -> None:
        self.decide(deciding.add(self._tick(), T, ProducerEpoch(producer_id, epoch), partitions, version))

    def verify(self, partition: TopicPartition, epoch: int = 0, producer_id: int = ID) -> None:
        self.decide(deciding.verify(T, ProducerEpoch(producer_id, epoch), partition))

    def end(
        self, *, committed: bool, epoch: int = 0, producer_id: int = ID, version: int = 2, fresh: int | None = FRESH
    ) -> Step:
        producer = ProducerEpoch(producer_id, epoch)
        handler = deciding.end(self._tick(), T, producer, version, fresh, committed=committed)
        step: Step = self.decide(handler)
        return step

    def force(self, epoch: int = 0, producer_id: int = ID) -> Step:
        step: Step = self.decide(deciding.abort_by_force(self._tick(), T, ProducerEpoch(producer_id, epoch)))
        return step

    def complete(self) -> None:
        self.decide(deciding.complete(self._tick(), {T: self.known}))


def refused(code: ErrorCode) -> Any:
    return pytest.raises(Refusal, check=lambda refusal: refusal.code is code)


def status_of(status: Status, **more: Any) -> Coordinator:
    partitions = frozenset({A}) if status in (Status.ONGOING, *ENDING) else frozenset()
    return Coordinator(status=status, partitions=partitions, **more)


# --- the begin of a producer


def test_an_id_that_is_unknown_needs_a_producer_id_and_nothing_is_decided() -> None:
    coordinator = Coordinator()
    assert coordinator.initialise(fresh=None).needs_id
    assert coordinator.state.by_id == {}


def test_an_id_that_is_unknown_begins_with_a_fresh_producer_id_and_epoch_0() -> None:
    coordinator = Coordinator()
    assert coordinator.initialise(timeout=5_000) == Step(ProducerEpoch(FRESH, 0))
    assert coordinator.known == Transaction(FRESH, 0, 5_000, Status.EMPTY, updated=1)


def test_whoever_brings_a_producer_id_for_an_unknown_name_begins_like_anybody() -> None:
    """Its name has expired."""
    assert Coordinator().initialise(expected=(ID, 3)) == Step(ProducerEpoch(FRESH, 0))


@pytest.mark.parametrize("status", IDLE)
def test_the_next_producer_has_the_next_epoch(status: Status) -> None:
    coordinator = status_of(status, epoch=4, last_epoch=3, started=99)
    assert coordinator.initialise(timeout=1_000) == Step(ProducerEpoch(ID, 5))
    assert coordinator.known == Transaction(ID, 5, 1_000, Status.EMPTY, updated=1)


@pytest.mark.parametrize("status", IDLE)
def test_a_producer_asks_for_its_next_epoch(status: Status) -> None:
    coordinator = status_of(status, epoch=4)
    assert coordinator.initialise(expected=(ID, 4)) == Step(ProducerEpoch(ID, 5))
    assert (coordinator.known.status, coordinator.known.last_epoch) == (Status.EMPTY, 4)


def test_a_producer_that_asks_again_gets_the_same_epoch() -> None:
    coordinator = Coordinator(epoch=4)
    first = coordinator.initialise(expected=(ID, 4))
    assert coordinator.initialise(expected=(ID, 4)) == first == Step(ProducerEpoch(ID, 5))


def test_a_producer_that_asks_again_after_another_came_is_fenced() -> None:
    coordinator = Coordinator(epoch=4)
    coordinator.initialise(expected=(ID, 4))
    coordinator.initialise()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.initialise(expected=(ID, 4))


@pytest.mark.parametrize("status", IDLE)
@pytest.mark.parametrize("epoch", [0, 3, 5, 6])
def test_a_producer_with_another_epoch_is_fenced(status: Status, epoch: int) -> None:
    coordinator = status_of(status, epoch=4)
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.initialise(expected=(ID, epoch))


@pytest.mark.parametrize("status", EVERY_STATUS)
def test_a_producer_with_another_id_is_fenced(status: Status) -> None:
    coordinator = status_of(status, epoch=4, previous_producer_id=5)
    before = coordinator.known
    for expected in ((6, 4), (5, 4), (5, LAST_EPOCH - 1)):
        with refused(ErrorCode.PRODUCER_FENCED):
            coordinator.initialise(expected=expected)
    assert coordinator.known == before


@pytest.mark.parametrize("expected", [None, (ID, 4)])
def test_an_open_transaction_is_aborted_before_its_name_begins_anew(expected: tuple[int, int] | None) -> None:
    coordinator = status_of(Status.ONGOING, epoch=4, started=50, version=1)
    assert coordinator.initialise(expected=expected).ending
    known = coordinator.known
    assert (known.status, known.producer, known.partitions) == (Status.PREPARE_ABORT, (ID, 5), {A})
    assert known.last_epoch == NOT_THERE  # epoch 5 is nobody's
    coordinator.complete()
    assert coordinator.initialise() == Step(ProducerEpoch(ID, 6))


def test_the_producer_whose_transaction_its_own_begin_aborted_has_to_begin_without_its_epoch() -> None:
    coordinator = status_of(Status.ONGOING, epoch=4)
    coordinator.initialise(expected=(ID, 4))
    coordinator.complete()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.initialise(expected=(ID, 4))


@pytest.mark.parametrize("epoch", [3, 5])
def test_a_fenced_producer_that_asks_for_its_next_epoch_leaves_the_open_transaction_alone(epoch: int) -> None:
    coordinator = status_of(Status.ONGOING, epoch=4, last_epoch=3)
    before = coordinator.known
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.initialise(expected=(ID, epoch))
    assert coordinator.known == before


@pytest.mark.parametrize("status", ENDING)
def test_whoever_begins_while_an_end_is_under_way_waits_for_it(status: Status) -> None:
    coordinator = status_of(status, epoch=4)
    before = coordinator.known
    assert coordinator.initialise().ending == before
    assert coordinator.known == before


# --- epochs that are used up


def test_the_last_epoch_of_a_client_leaves_one_to_fence_it_with() -> None:
    assert LAST_EPOCH == 32_766
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH)
    assert coordinator.force(epoch=LAST_EPOCH).ending
    assert coordinator.known.epoch == 32_767


@pytest.mark.parametrize("status", IDLE)
@pytest.mark.parametrize("epoch", [LAST_EPOCH, LAST_EPOCH + 1])
def test_the_next_producer_after_the_last_epoch_has_a_fresh_id(status: Status, epoch: int) -> None:
    coordinator = status_of(status, epoch=epoch)
    assert coordinator.initialise(fresh=None).needs_id
    assert coordinator.known.epoch == epoch
    assert coordinator.initialise() == Step(ProducerEpoch(FRESH, 0))
    known = coordinator.known
    assert (known.status, known.previous_producer_id, known.last_epoch) == (Status.EMPTY, ID, NOT_THERE)


def test_the_last_but_one_epoch_is_followed_by_the_last() -> None:
    assert Coordinator(epoch=LAST_EPOCH - 1).initialise() == Step(ProducerEpoch(ID, LAST_EPOCH))


def test_a_producer_that_has_the_last_epoch_gets_a_fresh_id_and_the_same_when_it_asks_again() -> None:
    coordinator = Coordinator(epoch=LAST_EPOCH)
    first = coordinator.initialise(expected=(ID, LAST_EPOCH))
    assert coordinator.initialise(expected=(ID, LAST_EPOCH), fresh=9) == first == Step(ProducerEpoch(FRESH, 0))


def test_a_producer_that_has_the_last_epoch_is_fenced_when_another_got_the_fresh_id() -> None:
    coordinator = Coordinator(epoch=LAST_EPOCH)
    coordinator.initialise()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.initialise(expected=(ID, LAST_EPOCH))


def test_a_producer_that_was_fenced_with_the_very_last_epoch_gets_nothing() -> None:
    coordinator = Coordinator(epoch=LAST_EPOCH + 1, status=Status.COMPLETE_ABORT)
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.initialise(expected=(ID, LAST_EPOCH))


@OUTCOMES
def test_an_end_with_the_last_epoch_leads_to_a_fresh_id(committed: bool) -> None:
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH, version=2)
    before = coordinator.known
    assert coordinator.end(epoch=LAST_EPOCH, committed=committed, fresh=None).needs_id
    assert coordinator.known == before
    step = coordinator.end(epoch=LAST_EPOCH, committed=committed)
    assert step == Step(ProducerEpoch(FRESH, 0), ending=coordinator.known)
    # The markers carry the old id with the epoch that fences it.
    assert coordinator.known.producer == (ID, LAST_EPOCH + 1)
    assert coordinator.known.next_producer_id == FRESH
    assert coordinator.end(epoch=LAST_EPOCH, committed=committed, fresh=9) == step  # again, while it is under way
    coordinator.complete()
    known = coordinator.known
    assert (known.producer, known.previous_producer_id, known.next_producer_id) == ((FRESH, 0), ID, NOT_THERE)
    assert coordinator.end(epoch=LAST_EPOCH, committed=committed, fresh=9) == Step(ProducerEpoch(FRESH, 0))


@OUTCOMES
def test_a_producer_that_knows_its_fresh_id_comes_again_while_the_end_is_made_up_for(committed: bool) -> None:
    """It was told of the end, and a crash took that it is complete: its markers are on their way once more."""
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH, version=2)
    step = coordinator.end(epoch=LAST_EPOCH, committed=committed)
    assert step.producer == (FRESH, 0)
    before = coordinator.known
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.add(A, producer_id=FRESH)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.verify(A, producer_id=FRESH)
    for again in (True, False):
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            coordinator.end(producer_id=FRESH, committed=again)
    assert coordinator.initialise(expected=(FRESH, 0)).ending == before
    assert coordinator.known == before
    coordinator.complete()
    coordinator.add(A, producer_id=FRESH)


def test_another_fresh_id_is_unknown_while_an_end_is_under_way() -> None:
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH, version=2)
    coordinator.end(epoch=LAST_EPOCH, committed=True)
    for producer_id, epoch in ((FRESH, 1), (FRESH + 1, 0)):
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            coordinator.add(A, producer_id=producer_id, epoch=epoch)
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            coordinator.end(producer_id=producer_id, epoch=epoch, committed=False)
        with refused(ErrorCode.PRODUCER_FENCED):
            coordinator.initialise(expected=(producer_id, epoch))


@OUTCOMES
def test_a_producer_that_knows_its_next_epoch_ends_nothing_while_the_end_is_made_up_for(committed: bool) -> None:
    coordinator = status_of(Status.ONGOING, version=2)
    assert coordinator.end(committed=committed).producer == (ID, 1)
    for again in (True, False):
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            coordinator.end(epoch=1, committed=again)


def test_the_old_id_cannot_end_anything_of_the_fresh_one() -> None:
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH, version=2)
    coordinator.end(epoch=LAST_EPOCH, committed=True)
    coordinator.complete()
    coordinator.add(A, producer_id=FRESH)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        coordinator.end(epoch=LAST_EPOCH, committed=True)
    assert coordinator.known.status is Status.ONGOING


def test_a_producer_whose_end_led_to_a_fresh_id_that_it_did_not_hear_of_gets_it_when_it_begins_anew() -> None:
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH, version=2)
    coordinator.end(epoch=LAST_EPOCH, committed=True)
    coordinator.complete()
    assert coordinator.initialise(expected=(ID, LAST_EPOCH), fresh=9) == Step(ProducerEpoch(FRESH, 0))


def test_an_end_of_the_first_generation_keeps_the_last_epoch() -> None:
    coordinator = status_of(Status.ONGOING, epoch=LAST_EPOCH, version=1)
    assert coordinator.end(epoch=LAST_EPOCH, committed=True, version=1, fresh=None).producer == (ID, LAST_EPOCH)


# --- partitions join


@GENERATIONS
@pytest.mark.parametrize("status", IDLE)
def test_a_transaction_begins_with_its_first_partition(status: Status, version: int) -> None:
    coordinator = status_of(status, started=-1)
    coordinator.add(A, version=version)
    known = coordinator.known
    assert (known.status, known.partitions, known.started, known.updated) == (Status.ONGOING, {A}, 1, 1)
    assert known.version == version


def test_more_partitions_join_and_the_transaction_keeps_its_begin() -> None:
    coordinator = Coordinator(epoch=0)
    coordinator.add(A)
    coordinator.add(B)
    known = coordinator.known
    assert (known.partitions, known.started, known.updated) == ({A, B}, 1, 2)


def test_a_partition_that_is_in_already_changes_nothing() -> None:
    coordinator = Coordinator(epoch=0)
    coordinator.add(A, B)
    before = coordinator.known
    coordinator.add(B)
    assert coordinator.known == before


def test_a_new_transaction_has_none_of_the_partitions_of_the_last() -> None:
    coordinator = Coordinator(epoch=0)
    coordinator.add(A)
    coordinator.end(committed=True)
    coordinator.complete()
    coordinator.add(B, epoch=1)
    assert coordinator.known.partitions == {B}


@pytest.mark.parametrize("status", EVERY_STATUS)
def test_nothing_joins_for_an_unknown_producer(status: Status) -> None:
    coordinator = status_of(status, epoch=4, previous_producer_id=5)
    for producer_id in (5, 6):
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            coordinator.add(A, producer_id=producer_id, epoch=4)
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            coordinator.verify(A, producer_id=producer_id, epoch=4)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        Coordinator().add(A)


@pytest.mark.parametrize("status", EVERY_STATUS)
@pytest.mark.parametrize("epoch", [3, 5])
def test_nothing_joins_for_another_epoch(status: Status, epoch: int) -> None:
    coordinator = status_of(status, epoch=4, last_epoch=3, version=2)
    before = coordinator.known
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.add(B, epoch=epoch)
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.verify(A, epoch=epoch)
    assert coordinator.known == before


@pytest.mark.parametrize("status", ENDING)
def test_nothing_joins_while_an_end_is_under_way(status: Status) -> None:
    coordinator = status_of(status)
    for partition in (A, B):
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            coordinator.add(partition)
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            coordinator.verify(partition)


def test_a_partition_that_was_added_is_verified() -> None:
    coordinator = Coordinator(epoch=0)
    coordinator.add(A, version=1)
    before = coordinator.known
    coordinator.verify(A)
    assert coordinator.known == before


def test_a_partition_that_was_not_added_is_not_verified() -> None:
    coordinator = Coordinator(epoch=0)
    coordinator.add(A, version=1)
    with refused(ErrorCode.TRANSACTION_ABORTABLE):
        coordinator.verify(B)


@pytest.mark.parametrize("status", IDLE)
def test_without_a_transaction_no_partition_is_verified(status: Status) -> None:
    with refused(ErrorCode.TRANSACTION_ABORTABLE):
        status_of(status).verify(A)


# --- ends


@OUTCOMES
def test_an_end_of_the_first_generation_keeps_the_epoch(committed: bool) -> None:
    coordinator = status_of(Status.ONGOING, version=1, started=50)
    step = coordinator.end(committed=committed, version=1)
    known = coordinator.known
    assert step == Step(ProducerEpoch(ID, 0), ending=known)
    assert known.status is (Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT)
    assert (known.epoch, known.partitions, known.started, known.version) == (0, {A}, 50, 1)
    coordinator.complete()
    known = coordinator.known
    assert known.status is (Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT)
    assert (known.epoch, known.partitions, known.started, known.updated) == (0, frozenset(), 50, 2)


@OUTCOMES
def test_an_end_of_the_second_generation_gives_a_new_epoch_which_the_markers_carry(committed: bool) -> None:
    coordinator = status_of(Status.ONGOING, version=2)
    step = coordinator.end(committed=committed)
    known = coordinator.known
    assert step == Step(ProducerEpoch(ID, 1), ending=known)
    assert known.status is (Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT)
    assert (known.epoch, known.last_epoch, known.partitions) == (1, 0, {A})
    coordinator.complete()
    assert (coordinator.known.epoch, coordinator.known.last_epoch) == (1, 0)


@GENERATIONS
@OUTCOMES
def test_the_same_end_again_has_the_same_answer(committed: bool, version: int) -> None:
    coordinator = status_of(Status.ONGOING, version=version)
    first = coordinator.end(committed=committed, version=version)
    assert coordinator.end(committed=committed, version=version) == first
    coordinator.complete()
    completed = coordinator.known
    again = coordinator.end(committed=committed, version=version)
    assert again == Step(first.producer)
    assert coordinator.known == completed


@GENERATIONS
@OUTCOMES
def test_the_other_end_is_refused_and_changes_nothing(committed: bool, version: int) -> None:
    coordinator = status_of(Status.ONGOING, version=version)
    coordinator.end(committed=committed, version=version)
    prepared = coordinator.known
    with refused(ErrorCode.INVALID_TXN_STATE):
        coordinator.end(committed=not committed, version=version)
    assert coordinator.known == prepared
    coordinator.complete()
    completed = coordinator.known
    with refused(ErrorCode.INVALID_TXN_STATE):
        coordinator.end(committed=not committed, version=version)
    assert coordinator.known == completed


@OUTCOMES
def test_an_end_from_two_epochs_ago_is_fenced(committed: bool) -> None:
    coordinator = Coordinator(epoch=0)
    for epoch in (0, 1):
        coordinator.add(A, epoch=epoch)
        coordinator.end(epoch=epoch, committed=committed)
        coordinator.complete()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.end(epoch=0, committed=committed)


@OUTCOMES
def test_an_end_that_comes_late_does_not_end_the_next_transaction(committed: bool) -> None:
    """This is what the second generation is for."""
    coordinator = Coordinator(epoch=0)
    coordinator.add(A)
    coordinator.end(committed=committed)
    coordinator.complete()
    coordinator.add(B, epoch=1)
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.end(epoch=0, committed=committed)
    assert coordinator.known.status is Status.ONGOING


@GENERATIONS
@OUTCOMES
def test_there_is_nothing_to_end_for_an_unknown_producer(committed: bool, version: int) -> None:
    for status in EVERY_STATUS:
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            status_of(status).end(producer_id=6, committed=committed, version=version)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        Coordinator().end(committed=committed, version=version)


@GENERATIONS
@OUTCOMES
@pytest.mark.parametrize("epoch", [2, 5])
@pytest.mark.parametrize("status", EVERY_STATUS)
def test_another_epoch_ends_nothing(status: Status, epoch: int, committed: bool, version: int) -> None:
    coordinator = status_of(status, epoch=4, last_epoch=3, version=2)
    before = coordinator.known
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.end(epoch=epoch, committed=committed, version=version)
    assert coordinator.known == before


@OUTCOMES
def test_a_producer_whose_name_another_took_over_ends_nothing(committed: bool) -> None:
    """Its epoch is the one before, but nobody gave it the next."""
    coordinator = Coordinator(status=Status.COMPLETE_COMMIT, version=2)
    coordinator.initialise()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.end(epoch=0, committed=committed)


@GENERATIONS
@pytest.mark.parametrize("status", IDLE)
def test_a_commit_of_nothing_is_refused(status: Status, version: int) -> None:
    if version == 1 and status is Status.COMPLETE_COMMIT:
        return  # it is the last commit once more
    with refused(ErrorCode.INVALID_TXN_STATE):
        status_of(status, version=version).end(committed=True, version=version)


@pytest.mark.parametrize("status", [Status.EMPTY, Status.COMPLETE_COMMIT])
def test_an_abort_of_nothing_is_refused_in_the_first_generation(status: Status) -> None:
    with refused(ErrorCode.INVALID_TXN_STATE):
        status_of(status, version=1).end(committed=False, version=1)


@pytest.mark.parametrize("status", IDLE)
def test_an_abort_of_nothing_ends_the_epoch_in_the_second_generation(status: Status) -> None:
    coordinator = status_of(status, epoch=4, version=2)
    step = coordinator.end(epoch=4, committed=False)
    assert step == Step(ProducerEpoch(ID, 5))
    known = coordinator.known
    assert (known.status, known.epoch, known.last_epoch, known.started) == (Status.COMPLETE_ABORT, 5, 4, 1)
    assert coordinator.end(epoch=4, committed=False) == step  # and asked again it is the same
    assert coordinator.known == known


def test_an_abort_of_nothing_with_the_last_epoch_leads_to_a_fresh_id() -> None:
    coordinator = Coordinator(epoch=LAST_EPOCH, version=2)
    assert coordinator.end(epoch=LAST_EPOCH, committed=False, fresh=None).needs_id
    step = coordinator.end(epoch=LAST_EPOCH, committed=False)
    assert step == Step(ProducerEpoch(FRESH, 0))
    assert coordinator.end(epoch=LAST_EPOCH, committed=False, fresh=9) == step


# --- by force


def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced() -> None:
    coordinator = status_of(Status.ONGOING, epoch=4, version=1)
    assert coordinator.force(epoch=4).ending
    known = coordinator.known
    assert (known.status, known.producer, known.partitions) == (Status.PREPARE_ABORT, (ID, 5), {A})
    for _ in range(2):  # while it is under way, and when it is complete
        for version in (1, 2):
            with refused(ErrorCode.PRODUCER_FENCED):
                coordinator.end(epoch=4, committed=False, version=version)
            with refused(ErrorCode.PRODUCER_FENCED):
                coordinator.end(epoch=4, committed=True, version=version)
        coordinator.complete()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.add(A, epoch=4)
    assert coordinator.initialise() == Step(ProducerEpoch(ID, 6))


@pytest.mark.parametrize("status", [each for each in EVERY_STATUS if each is not Status.ONGOING])
def test_force_does_nothing_when_nothing_is_open(status: Status) -> None:
    coordinator = status_of(status, epoch=4)
    before = coordinator.known
    assert not coordinator.force(epoch=4).ending
    assert coordinator.known == before


def test_force_does_nothing_to_the_next_transaction() -> None:
    coordinator = status_of(Status.ONGOING, epoch=4)
    for producer in ((ID, 3), (ID, 5), (6, 4)):
        assert not coordinator.force(producer[1], producer[0]).ending
    assert coordinator.known.status is Status.ONGOING
    assert not Coordinator().force().ending


# --- that an end is complete


@pytest.mark.parametrize("status", [each for each in EVERY_STATUS if each not in ENDING])
def test_only_an_end_under_way_becomes_complete(status: Status) -> None:
    coordinator = status_of(status)
    before = coordinator.known
    coordinator.complete()
    assert coordinator.known == before


def test_the_word_that_another_end_is_complete_changes_nothing() -> None:
    """Also not of one that looks the same: the next transaction may, when it ends within the same millisecond."""
    coordinator = status_of(Status.PREPARE_COMMIT, epoch=4)
    before = coordinator.known
    coordinator.decide(deciding.complete(9, {T: before._replace(), "unknown": before}))
    assert coordinator.known is before


MARKED_ENDS = [*product(ENDING, (1, 2))]


@pytest.mark.parametrize(("status", "version"), MARKED_ENDS)
def test_what_comes_after_the_markers_is_decided_as_if_that_was_written_down(status: Status, version: int) -> None:
    def decided(handler: Any, *, written_down: bool) -> Any:
        coordinator = status_of(status, epoch=4, last_epoch=3 if version == 2 else NOT_THERE, version=version)
        marked = {T: coordinator.known}
        if written_down:
            coordinator.complete()
        try:
            answer = coordinator.decide(handler(NONE_MARKED if written_down else marked))
        except Refusal as refusal:
            answer = refusal.code
        left = known_of(coordinator.state, T, marked)
        return answer, left and left._replace(updated=0)

    mine, last = ProducerEpoch(ID, 4), ProducerEpoch(ID, 3)
    handlers = [
        *(lambda marked, who=who: deciding.add(7, T, who, (B,), version, marked) for who in (mine, last)),
        lambda marked: deciding.verify(T, mine, A, marked),
        *(lambda marked, who=who: deciding.initialise(7, T, 1_000, who, FRESH, marked) for who in (mine, last, None)),
        *(
            lambda marked, who=who, outcome=outcome: deciding.end(
                7, T, who, version, FRESH, committed=outcome, marked=marked
            )
            for who, outcome in product((mine, last), (True, False))
        ),
        lambda marked: deciding.complete(7, marked),
    ]
    for handler in handlers:
        assert decided(handler, written_down=False) == decided(handler, written_down=True)


def test_a_transaction_that_was_not_marked_is_not_complete_because_one_before_it_was() -> None:
    coordinator = status_of(Status.PREPARE_COMMIT, epoch=4, version=1)
    marked = {T: coordinator.known}
    coordinator.decide(deciding.add(7, T, ProducerEpoch(ID, 4), (A,), 1, marked))
    step = coordinator.decide(deciding.end(7, T, ProducerEpoch(ID, 4), 1, None, committed=True, marked=marked))
    assert step.ending == coordinator.known
    again = coordinator.decide(deciding.end(7, T, ProducerEpoch(ID, 4), 1, None, committed=True, marked=marked))
    assert again == step
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.decide(deciding.add(7, T, ProducerEpoch(ID, 4), (A,), 1, marked))


# --- expiry


@pytest.mark.parametrize("status", EVERY_STATUS)
def test_only_what_is_idle_for_long_enough_is_forgotten(status: Status) -> None:
    coordinator = status_of(status, updated=100)
    assert coordinator.decide(deciding.forget(1, before=100, most=10)) == 0
    assert T in coordinator.state.by_id
    assert coordinator.decide(deciding.forget(1, before=101, most=10)) == (1 if status in IDLE else 0)
    assert (T in coordinator.state.by_id) == (status not in IDLE)


def test_a_name_that_was_used_meanwhile_is_not_forgotten() -> None:
    coordinator = Coordinator(updated=100)
    handler = deciding.forget(1, before=101, most=10)
    coordinator.now = 200
    coordinator.initialise()
    assert coordinator.decide(handler) == 0
    assert coordinator.known.updated == 201
