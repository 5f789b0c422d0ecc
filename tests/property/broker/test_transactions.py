"""Random histories of producers that share a transactional id, over crashes and time-outs, against a small model.

What must hold:
- only the producer that was initialised last, and whose transaction did not last too long, writes and ends anything;
- a transaction counts in all of its partitions and with its offset, or nowhere;
- whatever was answered is still true after a crash, and asked again it has the same answer;
- after a while without requests nothing is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from runnel.broker.transactions import ProducerEpoch, Status, Transaction
from runnel.broker.transactions.entries import entry_of
from runnel.broker.transactions.state import LAST_EPOCH
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.replay import Decision
from tests.unit.broker.transactions.stage import TIMEOUT, Stage, TransactionalProducer

NAME = "t"
TOPIC = "orders"
PARTITIONS = 2
LONG = TIMEOUT + 12_000  # longer than a transaction may last, and than it takes to see that
GENERATIONS = (1, 2, 2)  # of the clients
FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}

IN_FORCE = -1  # whoever that is
clients = st.sampled_from([IN_FORCE] * 5 + list(range(len(GENERATIONS))))
partitions = st.integers(0, PARTITIONS - 1)
turns = st.integers(0, 6)
crashes = st.sampled_from(["restart", "kill", "lose_power"])
steps = st.one_of(
    st.tuples(st.just("initialise"), clients, st.booleans()),
    st.tuples(st.just("write"), clients, partitions),
    st.tuples(st.just("write"), clients, partitions),
    st.tuples(st.just("offset"), clients),
    st.tuples(st.just("end"), clients, st.booleans(), st.booleans()),
    st.tuples(st.just("end"), clients, st.booleans(), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1_000, 20_000, LONG])),
    st.tuples(st.just("crash"), crashes),
    st.tuples(st.just("crash in a write"), clients, partitions, turns, crashes),
    st.tuples(st.just("crash in an end"), clients, st.booleans(), turns, crashes),
    st.tuples(st.just("crash in a begin"), clients, turns, crashes),
)


@dataclass
class Written:
    """What a transaction holds, or all that counts."""

    values: dict[int, list[bytes]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})
    offset: int | None = None

    def __bool__(self) -> bool:
        return any(self.values.values()) or self.offset is not None

    def take(self, other: Written) -> None:
        for number, values in other.values.items():
            self.values[number] += values
        if other.offset is not None:
            self.offset = other.offset


@dataclass
class Lost:
    """An end whose answer the client did not get."""

    body: dict[str, Any]
    version: int
    answer: dict[str, Any]


class History:
    def __init__(self, epoch: int) -> None:
        self.stage = Stage()
        self.stage.create(TOPIC, PARTITIONS)
        if epoch:
            self._begin_at(epoch)
        self.clients = [TransactionalProducer(self.stage, NAME, generation) for generation in GENERATIONS]
        self.lost: dict[int, Lost] = {}
        self.in_force: int | None = None
        self.began = 0
        self.open = Written()
        self.counts = Written()
        self.number = 0

    def _begin_at(self, epoch: int) -> None:
        """As if the name had been used many times."""
        stage = self.stage
        producer_id = stage.run(stage.node.producer_ids.next())
        entry = entry_of(0, NAME, Transaction(producer_id, epoch, TIMEOUT, Status.EMPTY, updated=stage.clock.now()))
        stage.run(stage.node.transactions._decided(lambda _: Decision(None, [entry])))

    # --- what the model knows

    def _abort(self) -> None:
        self.open = Written()

    def _ended(self, *, committed: bool) -> None:
        if committed:
            self.counts.take(self.open)
        self._abort()

    def _joins(self) -> None:
        if not self.open:
            self.began = self.stage.clock.now()

    def _pass_time(self) -> None:
        """Nobody can tell whether it was a moment before a sweep or after it."""
        if self.open and self.stage.clock.now() - self.began > TIMEOUT:
            self.stage.advance(11_000)
            self.stage.until_is(Status.COMPLETE_ABORT, NAME)
            self._abort()
            self.in_force = None
            event("timed out")

    # --- what clients do

    def initialise(self, who: int, keep: bool) -> None:
        client = self.clients[who]
        keep = keep and client.producer != ProducerEpoch(-1, -1)
        self.lost.pop(who, None) if not keep else self._hear(who)
        error = client.initialise(keep=keep)
        if keep and (self.in_force != who or self.open):
            assert error == ErrorCode.PRODUCER_FENCED
            if self.in_force == who:  # it aborted its own transaction, and its epoch went with it
                self._abort()
                self.in_force = None
            return
        assert error == ErrorCode.NONE
        self._abort()
        self.in_force = who

    def write(self, who: int, number: int) -> None:
        if not self._hear(who):
            return
        value = self._value(who)
        error = self.clients[who].write(TOPIC, value, number=number)
        if self.in_force != who:
            assert error in FENCED, error
            return
        assert error == ErrorCode.NONE
        self._joins()
        self.open.values[number].append(value)

    def offset(self, who: int) -> None:
        if not self._hear(who):
            return
        self.number += 1
        error = self.clients[who].commit_offset(self.number, TOPIC)
        if self.in_force != who:
            assert error in FENCED, error
            return
        assert error == ErrorCode.NONE
        self._joins()
        self.open.offset = self.number

    def end(self, who: int, committed: bool, lost: bool) -> None:
        if not self._hear(who):
            return
        client = self.clients[who]
        body, version = client.end_body(committed=committed), client.end_version
        if self.in_force == who and not self.open and (committed or client.generation == 1):
            return  # an end of nothing: that is for the tests of the rules
        answer = self.stage.ask(Api.END_TXN, body, version)
        if self.in_force != who:
            assert answer["error_code"] in FENCED
            return
        assert answer["error_code"] == ErrorCode.NONE
        self._ended(committed=committed)
        if lost:
            self.lost[who] = Lost(body, version, answer)
        elif client.generation > 1:
            client._become(answer)

    def _hear(self, who: int) -> bool:
        """A client whose last answer got lost asks again before it does anything else. False if it cannot go on."""
        client = self.clients[who]
        if client.producer == ProducerEpoch(-1, -1):
            return False
        lost = self.lost.pop(who, None)
        if lost is None:
            return True
        answer = self.stage.ask(Api.END_TXN, lost.body, lost.version)
        if self.in_force != who:
            assert answer["error_code"] in FENCED
            return False
        assert answer == lost.answer
        event("asked again")
        if client.generation > 1:
            client._become(answer)
        return True

    def _value(self, who: int) -> bytes:
        self.number += 1
        return b"%d by %d" % (self.number, who)

    # --- what happens to all

    def wait(self, milliseconds: int) -> None:
        self.stage.advance(milliseconds)
        self._pass_time()

    def crash(self, kind: str) -> None:
        {"restart": self.stage.restart, "kill": self.stage.kill, "lose_power": self._lose_power}[kind]()

    def _lose_power(self) -> None:
        self.number += 1
        self.stage.lose_power(self.number)

    def _crash_in(self, under_way: asyncio.Task[Any], passes: int, kind: str) -> None:
        for _ in range(passes):
            self.stage.turn()
        event(f"crash, answered: {under_way.done()}")
        self.crash(kind)
        self.stage.quiet()

    def crash_in_a_write(self, who: int, number: int, passes: int, kind: str) -> None:
        if self.in_force != who or not self._hear(who):
            return
        client = self.clients[who]
        if client.generation == 1:
            assert not client.add((TOPIC, number))
        value = self._value(who)
        sequence = client.sequences.get((TOPIC, number), 0)
        body = client.produce_body(TOPIC, number, client.batch((value,), sequence))
        version = 11 if client.generation == 1 else 12
        self._crash_in(self.stage.begin(Api.PRODUCE, body, version), passes, kind)
        # The client sends it again, and it is there once.
        answer = self.stage.ask(Api.PRODUCE, body, version)
        (result,) = answer["responses"][0]["partition_responses"]
        assert result["error_code"] == ErrorCode.NONE
        client.sequences[TOPIC, number] = sequence + 1
        self._joins()
        self.open.values[number].append(value)

    def crash_in_an_end(self, who: int, committed: bool, passes: int, kind: str) -> None:
        if self.in_force != who or not self._hear(who) or not self.open:
            return
        client = self.clients[who]
        body, version = client.end_body(committed=committed), client.end_version
        self._crash_in(self.stage.begin(Api.END_TXN, body, version), passes, kind)
        answer = self.stage.ask(Api.END_TXN, body, version)
        assert answer["error_code"] == ErrorCode.NONE
        self._ended(committed=committed)
        if client.generation > 1:
            client._become(answer)

    def crash_in_a_begin(self, who: int, passes: int, kind: str) -> None:
        body = {"transactional_id": NAME, "transaction_timeout": TIMEOUT, "producer_id": -1, "producer_epoch": -1}
        body |= {"enable2_pc": False, "keep_prepared_txn": False}
        self._crash_in(self.stage.begin(Api.INIT_PRODUCER_ID, body), passes, kind)
        self.initialise(who, keep=False)

    # --- looking

    def check(self) -> None:
        for number in range(PARTITIONS):
            assert self.stage.values(TOPIC, number) == self.counts.values[number]
        offset = self.stage.committed_offset(TOPIC, stable=False)
        assert offset == (-1 if self.counts.offset is None else self.counts.offset)
        stable = self.stage.committed_offset(TOPIC)
        assert stable == (-2 if self.open.offset is not None else offset)

    def close(self) -> None:
        self.stage.advance(LONG)
        self._pass_time()
        self.stage.quiet()
        self.check()
        assert self.open == Written()
        for number in range(PARTITIONS):
            partition = self.stage.partition(TOPIC, number)
            assert partition.last_stable_offset == partition.end_offset
            assert not partition.open_transactions()
        known = self.stage.node.transactions.get(NAME)
        assert known is None or known.status in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


@settings(max_examples=150)
@given(st.lists(steps, max_size=30), st.sampled_from([0, LAST_EPOCH - 3, LAST_EPOCH - 1, LAST_EPOCH]))
@example([("initialise", 1, False), ("write", 1, 0), ("end", 1, True, True), ("write", 1, 1)], LAST_EPOCH - 1)
@example([("initialise", 1, False), ("write", 1, 0), ("crash in an end", 1, True, 2, "lose_power")], LAST_EPOCH - 1)
def test_a_transaction_is_all_or_nothing_and_only_of_the_producer_in_force(history: list[Any], epoch: int) -> None:
    played = History(epoch)
    try:
        for name, *arguments in history:
            step: Callable[..., None] = getattr(played, name.replace(" ", "_"))
            if name not in ("wait", "crash") and arguments[0] == IN_FORCE:
                arguments[0] = played.in_force or 0
            step(*arguments)
            played.check()
        played.close()
    finally:
        played.stage.close()
