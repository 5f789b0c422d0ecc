"""The markers of one transaction on their way."""

from __future__ import annotations

import pytest

from runnel.broker.transactions.ending import Ending
from runnel.broker.transactions.state import Status, TopicPartition, Transaction
from runnel.errors import Closed
from tests.unit.broker.transactions.stage import Stage

OUTAGE = "/orders-1/"


def opened(stage: Stage) -> Ending:
    """Of a transaction with a record in both partitions."""
    producer = stage.producer()
    for number in range(2):
        assert not producer.write("orders", b"x", number=number)
    return Ending(stage.node, "t", stage.get()._replace(status=Status.PREPARE_COMMIT, epoch=1), 0)


def started(stage: Stage, ending: Ending) -> list[BaseException | None]:
    told: list[BaseException | None] = []
    ending.when_done(told.append)
    ending.start()
    return told


def ends(stage: Stage) -> list[int]:
    return [stage.partition(number=number).end_offset for number in range(2)]


def test_whoever_waits_hears_of_it_when_every_partition_has_its_marker(stage: Stage) -> None:
    ending = opened(stage)
    told = started(stage, ending)
    ending.when_done_within(5, told.append)
    assert told == []
    stage.until(lambda: bool(told))
    assert told == [None, None]
    assert ends(stage) == [2, 2]
    stage.advance(6_000)
    assert told == [None, None]


@pytest.mark.parametrize("late", [False, True])
def test_a_defect_in_what_follows_keeps_nobody_else_from_hearing_of_it(
    stage: Stage, caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    ending = opened(stage)
    told: list[BaseException | None] = []

    def fail(_: BaseException | None) -> None:
        raise RuntimeError("a defect")

    if late:
        stage.files.fail("sync", OUTAGE)
    ending.when_done_within(5, fail)
    ending.when_done_within(5, told.append)
    ending.start()
    for _ in range(6 * late):
        stage.advance(1_000)
    stage.until(lambda: bool(told))

    assert [type(each) for each in told] == [TimeoutError if late else type(None)]
    assert "what was to follow the end of transaction 't' failed" in caplog.text
    stage.files.heal()


def test_the_event_loop_is_called_once_for_all_markers(stage: Stage) -> None:
    ending = opened(stage)
    real, calls = stage.node.handover.call, []
    stage.node.handover.call = lambda *call: calls.append(call) or real(*call)  # type: ignore[method-assign]
    told = started(stage, ending)
    stage.until(lambda: bool(told))
    assert len(calls) == 1


def test_a_marker_that_could_not_be_written_is_tried_again_and_the_others_are_not(stage: Stage) -> None:
    ending = opened(stage)
    stage.files.fail("sync", OUTAGE)
    told = started(stage, ending)
    stage.until(lambda: stage.partition(number=1).failed and stage.partition().end_offset == 2)
    stage.files.heal()

    def goes_on() -> bool:
        stage.advance(1_000)
        stage.node.log.maintain()
        return bool(told)

    stage.until(goes_on)
    assert told == [None]
    assert ends(stage) == [2, 2]


def test_who_waits_too_long_is_told_and_the_others_wait_on(stage: Stage) -> None:
    ending = opened(stage)
    stage.files.fail("sync", OUTAGE, times=1_000)
    told = started(stage, ending)
    late: list[BaseException | None] = []
    ending.when_done_within(5, late.append)
    stage.advance(5_000)
    assert [type(error) for error in late] == [TimeoutError]
    assert told == []


def test_who_came_later_is_told_together_with_who_waited_too_long(stage: Stage) -> None:
    """Otherwise he would be let in before the first one comes again."""
    ending = opened(stage)
    told: list[tuple[str, type]] = []
    ending.when_done_within(5, lambda error: told.append(("first", type(error))))
    stage.advance(3_000)
    ending.when_done_within(5, lambda error: told.append(("second", type(error))))
    stage.advance(2_000)
    assert told == [("first", TimeoutError), ("second", TimeoutError)]
    ending.when_done_within(5, lambda error: told.append(("third", type(error))))
    stage.advance(3_000)
    assert len(told) == 2
    ending.start()
    stage.until(lambda: len(told) > 2)
    assert told[2:] == [("third", type(None))]


def test_a_stop_leaves_the_rest_to_the_next_start(stage: Stage) -> None:
    ending = opened(stage)
    stage.files.fail("sync", OUTAGE, times=1_000)
    told = started(stage, ending)
    stage.until(lambda: stage.partition(number=1).failed)
    stage.node.stopping = True

    def goes_on() -> bool:
        stage.advance(1_000)
        return bool(told)

    stage.until(goes_on)
    assert [type(error) for error in told] == [Closed]


def test_partitions_that_are_not_there_need_no_marker(stage: Stage) -> None:
    places = frozenset({TopicPartition("gone", 0), TopicPartition("orders", 7)})
    told = started(stage, Ending(stage.node, "t", Transaction(1, 0, 1, Status.PREPARE_COMMIT, places), 0))
    stage.until(lambda: bool(told))
    assert told == [None]
