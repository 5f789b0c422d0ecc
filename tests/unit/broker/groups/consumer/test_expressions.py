"""Subscriptions by regular expression."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from runnel.broker.groups.consumer.expressions import described_topics, topic_filter
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import ConsumerStage, Reader


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create("orders", 2)
    stage.topics.create("bills", 1)
    return stage


def test_all_of_a_name_must_match() -> None:
    assert described_topics("a|b.", ["a", "b", "bc", "abc"]) == ("a", "bc")


@pytest.mark.parametrize("expression", ["(", "a{2,1}", "[", r"\8", "(?=a)", "a**b(", "(a{1000}){1000}"])
def test_what_re2_does_not_take_is_refused_with_a_reason(expression: str) -> None:
    with pytest.raises(Refusal, match=r"^SubscribedTopicRegex .* is not a valid regular expression") as refused:
        topic_filter(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_that_python_would_take_for_ever_is_done_at_once() -> None:
    assert described_topics("(a*)*b", ["a" * 249]) == ()


def test_a_start_does_not_load_re2() -> None:
    code = "import sys, runnel.broker.node, runnel.broker.groups.consumer.running; print('re2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_member_gets_the_topics_that_its_expression_describes(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", expression="ord.*")
    assert ann.heartbeat().assignment == {}  # they are looked for beside the request
    ann.heartbeat()
    assert ann.has == {("orders", 0), ("orders", 1)}


def test_names_and_an_expression_are_added_up(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "bills", expression="ord.*")
    ann.heartbeat()
    ann.heartbeat()
    assert ann.has == {("orders", 0), ("orders", 1), ("bills", 0)}


def test_the_brokers_own_topics_are_described_as_others(stage: ConsumerStage) -> None:
    stage.topics.create("__consumer_offsets", 1, is_internal=True)
    ann = Reader(stage, "ann", expression="__consumer.*")
    ann.heartbeat()
    ann.heartbeat()
    assert ann.has == {("__consumer_offsets", 0)}


def test_a_topic_that_comes_and_is_described_is_given(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", expression="ord.*")
    ann.heartbeat()
    ann.heartbeat()
    stage.topics.create("orders-2", 1)
    ann.heartbeat()
    ann.heartbeat()
    assert ("orders-2", 0) in ann.has


def test_a_topic_that_comes_and_is_not_described_raises_nothing(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", expression="ord.*")
    ann.heartbeat()
    ann.heartbeat()
    epoch = ann.epoch
    stage.topics.create("others", 1)
    ann.heartbeat()
    assert ann.heartbeat().epoch == epoch


def test_an_expression_that_the_group_knows_counts_at_once(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", expression="ord.*"), Reader(stage, "bob", expression="ord.*")
    ann.heartbeat()
    ann.heartbeat()
    epoch = ann.epoch
    assert bob.heartbeat().epoch == epoch + 1
    stage.settled(ann, bob)
    assert (ann.numbers, bob.numbers) in (([0], [1]), ([1], [0]))


def test_an_empty_expression_ends_the_subscription_by_one(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "bills", expression="ord.*")
    ann.heartbeat()
    ann.heartbeat()
    ann.heartbeat(expression="")
    stage.settled(ann)
    assert ann.has == {("bills", 0)}
    assert stage.consumer_group().expressions == {}


def test_an_expression_that_nobody_uses_any_more_is_forgotten(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", expression="ord.*"), Reader(stage, "bob", "bills")
    ann.heartbeat()
    bob.heartbeat()
    assert set(stage.consumer_group().expressions) == {"ord.*"}
    ann.leave()
    assert stage.consumer_group().expressions == {}


def test_only_one_look_at_the_topics_is_under_way_and_a_late_one_harms_nobody(stage: ConsumerStage) -> None:
    waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def later(work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        waiting.append((future, work))
        return future

    stage.groups.consumer._apart = later
    ann = Reader(stage, "ann", expression="ord.*")
    ann.heartbeat()
    ann.heartbeat()
    assert len(waiting) == 1
    ann.leave()
    future, work = waiting.pop()
    future.set_result(work())
    stage.settle()
    assert stage.consumer_group().expressions == {}


def test_expressions_are_looked_at_again_after_a_while(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", expression="ord.*")
    ann.heartbeat()
    looks = 0
    resolve = stage.groups.consumer._apart

    def counted(work: Callable[[], Any]) -> Future[Any]:
        nonlocal looks
        looks += 1
        return resolve(work)

    stage.groups.consumer._apart = counted
    for _ in range(30):
        stage.advance(20_000)
        ann.heartbeat()
    assert looks == 1  # in ten minutes
