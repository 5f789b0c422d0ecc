"""Finds in a history what a broker with transactions must never do.

`check(history)` gives a list of violations, one readable line each; an empty list is a good history. Every check is a
pure function of the history and can be called by itself.

What became of a transaction is taken from its client:

- committed, if the commit was confirmed;
- aborted, if the abort was confirmed, or if nobody ever asked for a commit;
- unknown otherwise (a time-out, an error, a kill): it may be either, but all of it.

A violation here is one of the broker or of the client library. What Kafka does not promise is not asked for: a reader
of several partitions may see a transaction in one of them before it sees it in another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from tests.transactions.history import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Aborted,
    Acknowledged,
    Begin,
    Committed,
    Committing,
    Event,
    FinalRead,
    GroupOffset,
    History,
    Initialised,
    Place,
    Poll,
    Position,
    Seen,
    Send,
    SendOffsets,
)


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "of unknown outcome"


class Violation(NamedTuple):
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Transaction:
    name: str
    who: str
    sends: list[Send] = field(default_factory=list)
    offsets: list[SendOffsets] = field(default_factory=list)
    committing: int | None = None  # when the commit was asked for first
    committed: bool = False
    aborted: bool = False

    @property
    def outcome(self) -> Outcome:
        if self.committed:
            return Outcome.COMMITTED
        if self.aborted or self.committing is None:
            return Outcome.ABORTED
        return Outcome.UNKNOWN

    def __str__(self) -> str:
        return f"transaction {self.name} of {self.who}"


class Facts:
    """A history, looked up from several sides."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.transactions: dict[str, Transaction] = {}
        for begin in history.of(Begin):
            self.transactions[begin.transaction] = Transaction(begin.transaction, begin.who)
        for send in history.of(Send):
            self.transactions[send.transaction].sends.append(send)
        for offsets in history.of(SendOffsets):
            self.transactions[offsets.transaction].offsets.append(offsets)
        for asked in history.of(Committing):
            transaction = self.transactions[asked.transaction]
            transaction.committing = asked.at if transaction.committing is None else transaction.committing
        for committed in history.of(Committed):
            self.transactions[committed.transaction].committed = True
        for aborted in history.of(Aborted):
            self.transactions[aborted.transaction].aborted = True
        self.sends = {send.value: send for send in history.of(Send)}
        self.acknowledged = {event.value: event for event in history.of(Acknowledged)}
        self.polls = history.of(Poll)

    def transaction_of(self, value: str) -> Transaction | None:
        send = self.sends.get(value)
        return None if send is None else self.transactions[send.transaction]

    def final_records(self, isolation: str) -> list[Seen]:
        reads = [read for read in self.history.of(FinalRead) if read.isolation == isolation]
        return [seen for read in reads for seen in read.records]

    @cached_property
    def committed_records(self) -> list[Seen]:
        return self.final_records(READ_COMMITTED)

    @cached_property
    def all_records(self) -> list[Seen]:
        return self.final_records(READ_UNCOMMITTED)

    @cached_property
    def observations(self) -> list[tuple[str, Seen]]:
        """Every statement that a value stands at a place, and who made it."""
        found = [(f"the acknowledgement to {event.who}", Seen(event.place, event.value)) for event in self.acks]
        found += [(f"{poll.who} ({poll.isolation})", seen) for poll in self.polls for seen in poll.records]
        found += [
            (f"the final read ({read.isolation})", seen) for read in self.history.of(FinalRead) for seen in read.records
        ]
        return found

    @cached_property
    def acks(self) -> list[Acknowledged]:
        return self.history.of(Acknowledged)


def check(history: History) -> list[Violation]:
    facts = Facts(history)
    return [violation for look in CHECKS for violation in look(facts)]


def check_so_far(history: History) -> list[Violation]:
    """What can be said before the final read: all that is wrong by then stays wrong."""
    facts = Facts(history)
    return [violation for look in CHECKS if look is not lost_writes for violation in look(facts)]


# --- what a reader of committed records may see


def aborted_reads(facts: Facts) -> Iterator[Violation]:
    """A read_committed reader got a record of a transaction that was aborted, or that nobody asked to commit."""
    for reader, seen in _read_as_committed(facts):
        transaction = facts.transaction_of(seen.value)
        if transaction is not None and transaction.outcome is Outcome.ABORTED:
            why = "was aborted" if transaction.aborted else "was never asked to commit"
            yield Violation("aborted read", f"{reader} got {seen.value} at {seen.place}, of {transaction}, which {why}")


def precommitted_reads(facts: Facts) -> Iterator[Violation]:
    """A read_committed reader had a record before anybody asked to commit its transaction."""
    for poll in facts.polls:
        if poll.isolation != READ_COMMITTED:
            continue
        for seen in poll.records:
            transaction = facts.transaction_of(seen.value)
            if transaction is None or transaction.committing is None or poll.at >= transaction.committing:
                continue
            early = (transaction.committing - poll.at) / 1e6
            yield Violation(
                "precommitted read",
                f"{poll.who} got {seen.value} at {seen.place} {early:.1f} ms before the commit of {transaction} began",
            )


def unknown_values(facts: Facts) -> Iterator[Violation]:
    """A reader got what nobody sent."""
    for reader, seen in facts.observations:
        if seen.value not in facts.sends:
            yield Violation("unknown value", f"{reader} got {seen.value!r} at {seen.place}, which nobody sent")


def lost_writes(facts: Facts) -> Iterator[Violation]:
    """A committed record, an acknowledged one, or one that was read as committed, and the final read lacks it."""
    committed = {seen.value for seen in facts.committed_records}
    everything = {seen.value for seen in facts.all_records}
    for transaction in facts.transactions.values():
        for send in transaction.sends:
            if transaction.outcome is Outcome.COMMITTED and send.value not in committed:
                where = _acknowledged_at(facts, send)
                yield Violation("lost write", f"{send.value}, {where}, of {transaction}, which was committed")
    for event in facts.acks:
        if event.value not in everything:
            yield Violation("lost write", f"{event.value}, acknowledged to {event.who} at {event.place}, is in no log")
    for poll in facts.polls:
        for seen in poll.records:
            if seen.value not in (committed if poll.isolation == READ_COMMITTED else everything):
                yield Violation("lost write", f"{seen.value} was read by {poll.who} at {seen.place} and is gone")


def torn_transactions(facts: Facts) -> Iterator[Violation]:
    """A part of a transaction of unknown outcome is there, and a part is not; for a known one, see the other checks."""
    committed = {seen.value for seen in facts.committed_records}
    for transaction in facts.transactions.values():
        there = [send for send in transaction.sends if send.value in committed]
        if transaction.outcome is not Outcome.UNKNOWN or not there or len(there) == len(transaction.sends):
            continue
        missing = next(send for send in transaction.sends if send.value not in committed)
        yield Violation(
            "torn transaction",
            f"{len(there)} of {len(transaction.sends)} records of {transaction} are there; "
            f"{there[0].value} is, {missing.value} ({_acknowledged_at(facts, missing)}) is not",
        )


def unstable_ends(facts: Facts) -> Iterator[Violation]:
    """Nobody writes any more, and yet an open transaction holds readers back."""
    for read in facts.history.of(FinalRead):
        if read.reached < read.end:
            yield Violation(
                "hanging transaction",
                f"the final read ({read.isolation}) of {read.topic}/{read.partition} came to {read.reached} "
                f"and the log ends at {read.end}",
            )


# --- fencing


def zombies(facts: Facts) -> Iterator[Violation]:
    """A process wrote or committed what it began to send or to commit when its successor had been initialised."""
    initialised: dict[str, list[Initialised]] = defaultdict(list)
    for event in facts.history.of(Initialised):
        initialised[event.client].append(event)

    def fenced_by(event: Event, began: int) -> Initialised | None:
        later = (each for each in initialised[event.client] if each.incarnation > event.incarnation)
        return next((each for each in later if each.at < began), None)

    for ack in facts.acks:
        send = facts.sends.get(ack.value)
        successor = fenced_by(ack, send.at) if send is not None else None
        if successor is not None:
            yield Violation("zombie", f"{ack.who} wrote {ack.value} at {ack.place} after {successor.who} had begun")
    for committed in facts.history.of(Committed):
        transaction = facts.transactions[committed.transaction]
        successor = fenced_by(committed, transaction.committing or 0) if transaction.sends else None
        if successor is not None:
            yield Violation("zombie", f"{transaction} was committed after {successor.who} had begun")


# --- values and offsets


def duplicates(facts: Facts) -> Iterator[Violation]:
    """One value at two places."""
    places: dict[str, dict[Place, str]] = defaultdict(dict)
    for reader, seen in facts.observations:
        places[seen.value].setdefault(seen.place, reader)
    for value, found in places.items():
        if len(found) > 1:
            where = " and ".join(f"at {place} for {reader}" for place, reader in sorted(found.items()))
            yield Violation("duplicate", f"{value} is {where} (of {facts.transaction_of(value)})")


def inconsistent_offsets(facts: Facts) -> Iterator[Violation]:
    """Two values at one place."""
    values: dict[Place, dict[str, str]] = defaultdict(dict)
    for reader, seen in facts.observations:
        values[seen.place].setdefault(seen.value, reader)
    for place, found in values.items():
        if len(found) > 1:
            what = " and ".join(f"{value} for {reader}" for value, reader in found.items())
            yield Violation("inconsistent offsets", f"{place} holds {what}")


def wrong_places(facts: Facts) -> Iterator[Violation]:
    """A record in a partition to which it was not sent."""
    for reader, seen in facts.observations:
        send = facts.sends.get(seen.value)
        if send is not None and (send.topic, send.partition) != seen.place[:2]:
            yield Violation(
                "wrong partition",
                f"{reader} has {seen.value} at {seen.place}; {send.who} sent it to {send.topic}/{send.partition}",
            )


def nonmonotonic_sends(facts: Facts) -> Iterator[Violation]:
    """The records of one producer stand in a partition in another order than they were sent in."""
    order = {send.value: number for number, send in enumerate(facts.history.of(Send))}
    told = [Seen(event.place, event.value) for event in facts.acks]
    for source, records in (("acknowledged", told), ("found", facts.all_records)):
        for who, run in _by_producer(facts, records):
            for (place, value), (later_place, later) in pairwise(run):
                if order[later] < order[value]:
                    yield Violation(
                        "non-monotonic send",
                        f"{who} sent {later} before {value}, {source} at {later_place} and {place}",
                    )


# --- what one reader sees, poll by poll


def nonmonotonic_polls(facts: Facts) -> Iterator[Violation]:
    """A reader went back, or stayed, without having been told to."""
    for reader, _, _, run in _runs(facts):
        for before, after in pairwise(run):
            if after.place.offset <= before.place.offset:
                yield Violation(
                    "non-monotonic poll",
                    f"{reader} got {after.value} at {after.place} after {before.value} at {before.place}",
                )


def skipped_polls(facts: Facts) -> Iterator[Violation]:
    """A reader went on over a record that the final read has at its isolation level.

    If it then got a later record of the same transaction, that is a torn read.
    """
    final = {
        isolation: _by_partition(facts.final_records(isolation)) for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
    }
    for reader, isolation, start, run in _runs(facts):
        if not run:
            continue
        there = final[isolation][run[0].place[:2]]
        offsets = [seen.place.offset for seen in there]
        position = start
        for seen in run:
            for skipped in there[bisect_left(offsets, position) : bisect_left(offsets, seen.place.offset)]:
                yield _skip(facts, f"{reader} ({isolation})", position, skipped, seen)
            position = max(position, seen.place.offset + 1)


def _skip(facts: Facts, reader: str, position: int, skipped: Seen, seen: Seen) -> Violation:
    torn = facts.transaction_of(skipped.value) is facts.transaction_of(seen.value)
    return Violation(
        "torn read" if torn else "skipped poll",
        f"{reader} went from {position} on to {seen.value} at {seen.place}, over {skipped.value} at {skipped.place} "
        f"of {facts.transaction_of(skipped.value)}",
    )


# --- offsets in transactions


def uncommitted_offsets(facts: Facts) -> Iterator[Violation]:
    """A group's offset that comes from an aborted transaction, or from one whose commit had not begun, or from none."""
    sent: dict[tuple[str, Place], list[Transaction]] = defaultdict(list)
    for transaction in facts.transactions.values():
        for offsets in transaction.offsets:
            sent[offsets.group, offsets.place].append(transaction)
    for event in facts.history.of(GroupOffset):
        if event.offset is None:
            continue
        place = Place(event.topic, event.partition, event.offset)
        transactions = sent[event.group, place]
        if any(
            transaction.outcome is not Outcome.ABORTED and (transaction.committing or 0) <= event.at
            for transaction in transactions
        ):
            continue
        source = " and ".join(f"{each}, {each.outcome.value}" for each in transactions) or "no transaction"
        yield Violation(
            "uncommitted offset", f"{event.who} found group {event.group} at {place}, which comes from {source}"
        )


def offsets_that_go_back(facts: Facts) -> Iterator[Violation]:
    """The loops of this workload only go on, so a group's offset never goes back between one answer and a later
    question."""
    latest: dict[tuple[str, str, int], list[GroupOffset]] = defaultdict(list)
    for event in facts.history.of(GroupOffset):
        known = latest[event.group, event.topic, event.partition]
        for before in known:
            if before.at <= event.asked and (before.offset or 0) > (event.offset or 0):
                yield Violation(
                    "offset went back",
                    f"group {event.group} was at {before.offset} of {event.topic}/{event.partition} for {before.who} "
                    f"and later at {event.offset} for {event.who}",
                )
                break
        known.append(event)


def processed_once(facts: Facts) -> Iterator[Violation]:
    """Each input before the group's final offset has one committed output, each after it has none."""
    outputs: dict[Place, list[Seen]] = defaultdict(list)
    for seen in facts.committed_records:
        send = facts.sends.get(seen.value)
        if send is not None and send.origin is not None:
            outputs[send.origin].append(seen)
    for origin, made in outputs.items():
        if len(made) > 1:
            what = " and ".join(f"{seen.value} at {seen.place}" for seen in made)
            yield Violation("processed twice", f"the input at {origin} has {len(made)} outputs: {what}")
    ends = {(event.topic, event.partition): event for event in facts.history.of(GroupOffset) if event.final}
    inputs = _by_partition(facts.committed_records)
    for partition, event in ends.items():
        for seen in inputs[partition]:
            processed = seen.place.offset < (event.offset or 0)
            if processed and seen.place not in outputs:
                yield Violation(
                    "lost output", f"group {event.group} is past {seen.value} at {seen.place}, and it has no output"
                )
            if not processed and seen.place in outputs:
                made_of = facts.transaction_of(outputs[seen.place][0].value)
                yield Violation(
                    "output without its offset",
                    f"{outputs[seen.place][0].value} was made from {seen.place} in {made_of}, "
                    f"and group {event.group} is at {event.offset}",
                )


CHECKS: tuple[Callable[[Facts], Iterable[Violation]], ...] = (
    *(aborted_reads, precommitted_reads, unknown_values, unstable_ends, lost_writes, torn_transactions),
    *(zombies, duplicates, inconsistent_offsets, wrong_places, nonmonotonic_sends),
    *(nonmonotonic_polls, skipped_polls),
    *(uncommitted_offsets, offsets_that_go_back, processed_once),
)


# --- looking things up


def _read_as_committed(facts: Facts) -> Iterator[tuple[str, Seen]]:
    for poll in facts.polls:
        if poll.isolation == READ_COMMITTED:
            yield from ((poll.who, seen) for seen in poll.records)
    yield from (("the final read", seen) for seen in facts.committed_records)


def _acknowledged_at(facts: Facts, send: Send) -> str:
    event = facts.acknowledged.get(send.value)
    return f"acknowledged at {event.place}" if event else f"sent to {send.topic}/{send.partition}, not acknowledged"


def _by_partition(records: Iterable[Seen]) -> dict[tuple[str, int], list[Seen]]:
    found: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    for seen in sorted(records):
        found[seen.place.topic, seen.place.partition].append(seen)
    return found


def _by_producer(facts: Facts, records: Iterable[Seen]) -> Iterator[tuple[str, list[Seen]]]:
    """The records of each producer's process in each partition, by offset."""
    runs: dict[tuple[str, str, int], list[Seen]] = defaultdict(list)
    for seen in sorted(records):
        send = facts.sends.get(seen.value)
        if send is not None:
            runs[send.who, *seen.place[:2]].append(seen)
    yield from ((who, run) for (who, _, _), run in runs.items())


def _runs(facts: Facts) -> Iterator[tuple[str, str, int, list[Seen]]]:
    """What each reader got of a partition from one position on: who, its isolation level, the position, the records."""
    isolations = {poll.who: poll.isolation for poll in facts.polls}
    positions: dict[tuple[str, str, int], int] = {}
    runs: dict[tuple[str, str, int], list[Seen]] = {}
    for event in facts.history.events:
        if isinstance(event, Position):
            key = (event.who, *event.place[:2])
            if key in runs:
                yield event.who, isolations.get(event.who, READ_COMMITTED), positions[key], runs[key]
            positions[key], runs[key] = event.place.offset, []
        elif isinstance(event, Poll):
            for seen in event.records:
                runs[event.who, *seen.place[:2]].append(seen)
    for key, run in runs.items():
        yield key[0], isolations.get(key[0], READ_COMMITTED), positions[key], run
