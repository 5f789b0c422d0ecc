"""The power may go out at any file operation of a transaction: its client asks again, and all of it counts once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

Step = tuple[Api, Callable[[TransactionalProducer], dict[str, Any]], int]  # a request: its body and version


def produce(number: int, value: bytes) -> Callable[[TransactionalProducer], dict[str, Any]]:
    return lambda producer: producer.produce_body("orders", number, producer.batch((value,), 0))


def steps_of(generation: int, *, committed: bool) -> list[Step]:
    """One transaction: records in two partitions, and an offset."""
    first = generation == 1
    added: list[Step] = [
        (Api.ADD_PARTITIONS_TO_TXN, lambda producer: producer.add_body(("orders", 0), ("orders", 1)), 3),
        (Api.ADD_OFFSETS_TO_TXN, lambda producer: producer.offset_body(7), 3),
    ]
    return [
        *(added if first else []),
        (Api.PRODUCE, produce(0, b"one"), 11 if first else 12),
        (Api.PRODUCE, produce(1, b"two"), 11 if first else 12),
        (Api.TXN_OFFSET_COMMIT, lambda producer: producer.offset_body(7), 4 if first else 5),
        (Api.END_TXN, lambda producer: producer.end_body(committed=committed), 3 if first else 5),
    ]


def asked(stage: Stage, producer: TransactionalProducer, step: Step) -> dict[str, Any] | None:
    """The answer; None if the power goes out before it comes."""
    api, body, version = step
    under_way = stage.begin(api, body(producer), version)
    files = stage.files
    stage.until(lambda: under_way.done() or bool(files._off))
    if not under_way.done() or under_way.exception() is not None:
        return None
    return stage.answer_of(api, version, under_way.result())


def codes_in(answer: Any) -> set[int]:
    """All error codes that stand in an answer."""
    if isinstance(answer, dict):
        own = {code for name, code in answer.items() if name.endswith("error_code")}
        return own.union(*map(codes_in, answer.values()))
    return set().union(*map(codes_in, answer)) if isinstance(answer, list | tuple) else set()


def begun(generation: int) -> tuple[Stage, TransactionalProducer]:
    stage = Stage()
    stage.create("orders", 2)
    return stage, stage.producer(generation=generation)


def operations_of(generation: int, *, committed: bool) -> int:
    """How many file operations a transaction takes, with its markers."""
    stage, producer = begun(generation)
    before = stage.files.operations
    for step in steps_of(generation, committed=committed):
        assert asked(stage, producer, step) is not None
    stage.until(lambda: not stage.node.transactions.are_ending)
    operations = stage.files.operations - before
    stage.close()
    return operations


def lived(generation: int, *, committed: bool, crash_at: int) -> Stage:
    """A transaction with a power cut at that file operation; what was not answered is asked for again."""
    stage, producer = begun(generation)
    stage.files.crash_at = stage.files.operations + crash_at
    for step in steps_of(generation, committed=committed):
        answer = asked(stage, producer, step)
        if answer is None:
            stage.lose_power(crash_at)
            answer = asked(stage, producer, step)
        assert answer is not None
        assert codes_in(answer) == {ErrorCode.NONE}, (step[0], answer)
    if stage.files.crash_at is not None:  # all was answered: it is with the markers, or behind them
        stage.until(lambda: bool(stage.files._off) or not stage.node.transactions.are_ending)
        stage.lose_power(crash_at)
    stage.quiet()
    return stage


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("generation", [1, 2])
def test_a_transaction_counts_once_or_not_at_all_wherever_the_power_goes_out(generation: int, committed: bool) -> None:
    operations = operations_of(generation, committed=committed)
    assert operations > len(steps_of(generation, committed=committed))
    for crash_at in range(1, operations + 1):
        stage = lived(generation, committed=committed, crash_at=crash_at)
        seen = (stage.values(), stage.values(number=1), stage.committed_offset())
        expected = ([b"one"], [b"two"], 7) if committed else ([], [], -1)
        assert seen == expected, f"the power went out at file operation {crash_at} of {operations}"
        stage.close()
