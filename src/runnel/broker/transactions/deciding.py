"""What may happen next with a transactional id: functions of the durable state alone, see `runnel.replay`.

A producer id has epochs, and only the newest one is in force: whoever comes with an older one is a leftover of a
process that was replaced, and is refused (fenced). There are two generations of the protocol:

    1   a producer keeps its epoch over its transactions. A request that was delayed on the network can reach into the
        next transaction: that is what made transactions lose and tear writes.
    2   every end of a transaction gives the producer a new epoch, and the markers carry it: whatever comes late is of
        an old epoch. A partition joins with the first batch written to it, without a request of its own.

An end is asked for again when its answer got lost. It is recognised by the epoch before and the same outcome.

That every marker of a transaction is durable need not be written down at once: a start finds it out by writing them
again. Those of which it is known are handed in, as `marked`, and count as complete; what is decided next for such an id
is written over its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from runnel.broker.mistakes import Refusal
from runnel.broker.transactions.entries import entry_of
from runnel.broker.transactions.state import (
    COMPLETE_COMMIT,
    LAST_EPOCH,
    NOT_THERE,
    ONGOING,
    PREPARE_COMMIT,
    ProducerEpoch,
    Status,
    TopicPartition,
    Transaction,
    TransactionsState,
)
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision

NEW_EPOCH_AT_EVERY_END = 2  # the generation


class Step(NamedTuple):
    """What the coordinator is to do next, beside telling the client."""

    producer: ProducerEpoch  # what the client is to use from now on
    ending: Transaction | None = None  # its markers are to be written first
    needs_id: bool = False  # nothing is decided: ask again with a fresh producer id


NEEDS_ID = Step(ProducerEpoch(NOT_THERE, NOT_THERE), needs_id=True)

Handler = Callable[[TransactionsState], Decision[Step]]
Marked = Mapping[str, Transaction]  # by transactional id, the very objects of the state: a later end may look the same
NONE_MARKED: Marked = MappingProxyType({})


def known_of(state: TransactionsState, name: str, marked: Marked) -> Transaction | None:
    """Where the id stands; complete, if all markers are known to be durable."""
    known = state.by_id.get(name)
    return _completed(known) if known is not None and _is_marked(name, known, marked) else known


def _is_marked(name: str, known: Transaction, marked: Marked) -> bool:
    return marked.get(name) is known and known.status.is_ending


# --- the begin of a producer


def initialise(
    now: int,
    name: str,
    timeout: int,
    expected: ProducerEpoch | None,
    fresh_id: int | None,
    marked: Marked = NONE_MARKED,
) -> Handler:
    """A producer begins, or (`expected`) asks for its next epoch. An open transaction is aborted first."""

    def decide(state: TransactionsState) -> Decision[Step]:
        known = known_of(state, name, marked)
        if known is None:
            return _new_id(now, name, timeout, fresh_id)
        if expected is not None and not _was_given(known, expected):
            raise _fenced(name, expected)
        if known.status.is_ending:
            return Decision(Step(known.producer, ending=known))
        if known.status is Status.ONGOING:
            # Kafka does not look at the epoch here: a leftover could abort what its successor has begun.
            if expected is not None and expected != known.producer:
                raise _fenced(name, expected)
            return _prepared(now, name, _fence(known))
        if known.is_exhausted and (expected is None or expected.epoch == known.epoch):
            return _rotated(now, name, timeout, known, fresh_id, asked_by_itself=expected is not None)
        return _next_epoch(now, name, timeout, known, expected)

    return decide


def _new_id(now: int, name: str, timeout: int, fresh_id: int | None) -> Decision[Step]:
    if fresh_id is None:
        return Decision(NEEDS_ID)
    return _changed(now, name, Transaction(fresh_id, 0, timeout, Status.EMPTY))


def _was_given(known: Transaction, expected: ProducerEpoch) -> bool:
    return (
        expected.producer_id == known.producer_id
        or (expected.producer_id == known.previous_producer_id and expected.epoch >= LAST_EPOCH)
        or _knows_the_end(known, expected)
    )


def _next_epoch(
    now: int, name: str, timeout: int, known: Transaction, expected: ProducerEpoch | None
) -> Decision[Step]:
    begun = known._replace(status=Status.EMPTY, partitions=frozenset(), timeout=timeout, started=-1)
    if expected is None:
        return _changed(now, name, begun._replace(epoch=known.epoch + 1, last_epoch=NOT_THERE))
    if expected.epoch == known.epoch:
        return _changed(now, name, begun._replace(epoch=known.epoch + 1, last_epoch=known.epoch))
    if expected.epoch == known.last_epoch:  # it asks again: nobody else can have been initialised since
        return _changed(now, name, begun)
    raise _fenced(name, expected)


def _rotated(
    now: int, name: str, timeout: int, known: Transaction, fresh_id: int | None, *, asked_by_itself: bool
) -> Decision[Step]:
    """The epochs are used up: a new producer id."""
    if fresh_id is None:
        return Decision(NEEDS_ID)
    last_epoch = known.epoch if asked_by_itself else NOT_THERE
    begun = Transaction(fresh_id, 0, timeout, Status.EMPTY, previous_producer_id=known.producer_id)
    return _changed(now, name, begun._replace(last_epoch=last_epoch))


# --- partitions join


def add(
    now: int,
    name: str,
    producer: ProducerEpoch,
    partitions: Iterable[TopicPartition],
    version: int,
    marked: Marked = NONE_MARKED,
) -> Callable[[TransactionsState], Decision[None]]:
    """The partitions belong to the transaction, which begins with the first of them."""
    added = frozenset(partitions)

    def decide(state: TransactionsState) -> Decision[None]:
        known = _in_force(state, name, producer, marked)
        is_open = known.status is ONGOING
        if is_open and added <= known.partitions:
            return Decision(None)
        joined = Transaction(  # not by `_replace`, which takes several times as long
            known.producer_id,
            known.epoch,
            known.timeout,
            ONGOING,
            known.partitions | added if is_open else added,
            started=known.started if is_open else now,
            updated=now,
            previous_producer_id=NOT_THERE,
            next_producer_id=known.next_producer_id,
            last_epoch=known.last_epoch,
            version=version,
        )
        return Decision(None, [entry_of(now, name, joined)])

    return decide


def verify(
    name: str, producer: ProducerEpoch, partition: TopicPartition, marked: Marked = NONE_MARKED
) -> Callable[[TransactionsState], Decision[None]]:
    """The partition belongs to the transaction: for the first generation, whose clients say so beforehand."""

    def decide(state: TransactionsState) -> Decision[None]:
        known = _in_force(state, name, producer, marked)
        if known.status is not Status.ONGOING or partition not in known.partitions:
            raise Refusal(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"{partition.topic}-{partition.partition} was not added to the transaction of {name!r}",
            )
        return Decision(None)

    return decide


def _in_force(state: TransactionsState, name: str, producer: ProducerEpoch, marked: Marked) -> Transaction:
    known = known_of(state, name, marked)
    if known is not None and _knows_the_end(known, producer):
        raise _being_ended(name)
    if known is None:
        raise _unknown(name)
    if known.producer_id != producer.producer_id:
        raise _not_its_producer(name, producer)
    if known.epoch != producer.epoch:
        raise _fenced(name, producer)
    if known.status.is_ending:
        raise _being_ended(name)
    return known


def _knows_the_end(known: Transaction, producer: ProducerEpoch) -> bool:
    """It was told what follows the end under way, before a crash. Its markers are written once more."""
    return known.status.is_ending and known.version >= NEW_EPOCH_AT_EVERY_END and producer == _after(known)


# --- ends


def end(
    now: int,
    name: str,
    producer: ProducerEpoch,
    version: int,
    fresh_id: int | None,
    *,
    committed: bool,
    marked: Marked = NONE_MARKED,
) -> Handler:
    """A producer ends its transaction; `version` is the generation that it speaks."""

    def decide(state: TransactionsState) -> Decision[Step]:
        known = known_of(state, name, marked)
        if known is None:
            raise _unknown(name)
        if version >= NEW_EPOCH_AT_EVERY_END and _knows_the_end(known, producer):
            raise _being_ended(name)
        is_retry = _is_retry(known, producer)
        if known.producer_id != producer.producer_id and not is_retry:
            raise _not_its_producer(name, producer)
        if known.epoch != producer.epoch and not is_retry:
            raise _fenced(name, producer)
        if known.status is ONGOING and not is_retry:
            if version >= NEW_EPOCH_AT_EVERY_END and known.is_exhausted and fresh_id is None:
                return Decision(NEEDS_ID)
            return _prepared(now, name, _ended(now, known, version, fresh_id, committed=committed))
        return _end_again(now, name, known, version, fresh_id, committed=committed, is_retry=is_retry)

    return decide


def _is_retry(known: Transaction, producer: ProducerEpoch) -> bool:
    """It ended its transaction, has a new epoch since, and does not know it."""
    if known.version < NEW_EPOCH_AT_EVERY_END or known.status in (Status.ONGOING, Status.EMPTY):
        return False
    if known.producer_id == producer.producer_id:
        return known.last_epoch == producer.epoch == known.epoch - 1  # one that was fenced has no last epoch
    return known.previous_producer_id == producer.producer_id and producer.epoch == LAST_EPOCH and known.epoch == 0


def _end_again(
    now: int, name: str, known: Transaction, version: int, fresh_id: int | None, *, committed: bool, is_retry: bool
) -> Decision[Step]:
    """There is no open transaction: it is the last one's end once more, or an abort of nothing."""
    same_outcome = known.status is not Status.EMPTY and known.committed == committed
    by_generation = version >= NEW_EPOCH_AT_EVERY_END
    if known.status.is_ending:
        if same_outcome and (is_retry or not by_generation):
            return Decision(Step(_after(known), ending=known))
    elif same_outcome and (is_retry or not by_generation):
        return Decision(Step(known.producer))
    elif by_generation and not is_retry and not committed:  # nothing was written: the epoch ends all the same
        if known.is_exhausted and fresh_id is None:
            return Decision(NEEDS_ID)
        aborted = _ended(now, known._replace(partitions=frozenset(), started=now), version, fresh_id, committed=False)
        return _changed(now, name, _completed(aborted))
    what = "commit" if committed else "abort"
    raise Refusal(
        ErrorCode.INVALID_TXN_STATE, f"{name!r} asks to {what}, but its transaction is {known.status.kafka_name}"
    )


def _ended(now: int, known: Transaction, version: int, fresh_id: int | None, *, committed: bool) -> Transaction:
    ended = Transaction(  # not by `_replace`, which takes several times as long
        known.producer_id,
        known.epoch,
        known.timeout,
        PREPARE_COMMIT if committed else Status.PREPARE_ABORT,
        known.partitions,
        started=known.started,
        updated=now,
        previous_producer_id=known.previous_producer_id,
        next_producer_id=known.next_producer_id,
        last_epoch=known.last_epoch,
        version=version,
    )
    if version < NEW_EPOCH_AT_EVERY_END:
        return ended
    next_id = fresh_id if known.is_exhausted and fresh_id is not None else NOT_THERE
    return ended._replace(epoch=known.epoch + 1, last_epoch=known.epoch, next_producer_id=next_id)


def abort_by_force(now: int, name: str, producer: ProducerEpoch) -> Handler:
    """End a transaction that lasts too long, and fence its producer. Nothing if it is another one by now."""

    def decide(state: TransactionsState) -> Decision[Step]:
        known = state.by_id.get(name)
        if known is None or known.producer != producer or known.status is not Status.ONGOING:
            return Decision(Step(producer))
        return _prepared(now, name, _fence(known))

    return decide


def _fence(known: Transaction) -> Transaction:
    """The new epoch is nobody's: there is always one, because a client's own are one fewer."""
    return known._replace(
        status=Status.PREPARE_ABORT, epoch=known.epoch + 1, last_epoch=NOT_THERE, version=NEW_EPOCH_AT_EVERY_END
    )


def complete(now: int, marked: Marked) -> Callable[[TransactionsState], Decision[None]]:
    """Write down of which transactions every marker is durable."""

    def decide(state: TransactionsState) -> Decision[None]:
        known = ((name, state.by_id.get(name)) for name in marked)
        ended = [(name, each) for name, each in known if each is not None and _is_marked(name, each, marked)]
        return Decision(None, [entry_of(now, name, _completed(each)._replace(updated=now)) for name, each in ended])

    return decide


def _completed(known: Transaction) -> Transaction:
    done = Transaction(
        known.producer_id,
        known.epoch,
        known.timeout,
        COMPLETE_COMMIT if known.status is PREPARE_COMMIT else Status.COMPLETE_ABORT,
        started=known.started,
        updated=known.updated,
        previous_producer_id=known.previous_producer_id,
        next_producer_id=NOT_THERE,
        last_epoch=known.last_epoch,
        version=known.version,
    )
    if known.next_producer_id == NOT_THERE:
        return done
    # The last epoch stays the one that the client has: the one after it is the markers' alone.
    return done._replace(producer_id=known.next_producer_id, epoch=0, previous_producer_id=known.producer_id)


def _after(known: Transaction) -> ProducerEpoch:
    """What the producer is to use when the end that is under way is complete."""
    return known.producer if known.next_producer_id == NOT_THERE else ProducerEpoch(known.next_producer_id, 0)


# --- expiry


def forget(now: int, before: int, most: int) -> Callable[[TransactionsState], Decision[int]]:
    """Forget ids that were not used since `before`, so many of them at most; the answer is how many."""

    def decide(state: TransactionsState) -> Decision[int]:
        gone = list(islice((name for name, known in state.by_id.items() if _has_expired(known, before)), most))
        return Decision(len(gone), [entry_of(now, name, None) for name in gone])

    return decide


def _has_expired(known: Transaction, before: int) -> bool:
    is_idle = known.status in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)
    return is_idle and known.updated < before


# --- decisions and refusals


def _changed(now: int, name: str, transaction: Transaction) -> Decision[Step]:
    transaction = transaction._replace(updated=now)
    return Decision(Step(transaction.producer), [entry_of(now, name, transaction)])


def _prepared(now: int, name: str, transaction: Transaction) -> Decision[Step]:
    if transaction.updated != now:
        transaction = transaction._replace(updated=now)
    return Decision(Step(_after(transaction), ending=transaction), [entry_of(now, name, transaction)])


def _being_ended(name: str) -> Refusal:
    return Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {name!r} is being ended")


def _fenced(name: str, producer: ProducerEpoch) -> Refusal:
    return Refusal(
        ErrorCode.PRODUCER_FENCED,
        f"epoch {producer.epoch} of {name!r} is not in force: somebody else has this id, or a transaction was aborted",
    )


def _unknown(name: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"there is no transactional id {name!r}: no producer was initialised with it, or it has expired",
    )


def _not_its_producer(name: str, producer: ProducerEpoch) -> Refusal:
    return Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"producer id {producer.producer_id} is not that of {name!r}")
