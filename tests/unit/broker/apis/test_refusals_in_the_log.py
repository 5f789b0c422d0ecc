"""What a client is refused has one of Kafka's error codes, and a line in the log that a person understands."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.lines import LINES_PER_PERIOD, PERIOD
from runnel.broker.transactions import ProducerEpoch
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.apis.group_stage import GroupStage
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The refusals, without who sent the request."""
    before = " of client None at 127.0.0.1 is refused, "
    return [line.replace(before, ": ") for line in caplog.messages if before in line]


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "runnel.broker")


# --- producers


def test_a_sequence_out_of_order(transactional: Stage, caplog: pytest.LogCaptureFixture) -> None:
    producer = transactional.producer()
    assert not producer.write("orders", b"one")
    assert producer.write("orders", b"three", sequence=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    number = producer.producer.producer_id
    assert told(caplog) == [
        f"PRODUCE v12: OUT_OF_ORDER_SEQUENCE_NUMBER: orders-0: producer {number} epoch 0 sent sequence 2, expected 1 "
        "(a batch before it was lost or is older than the five that are remembered)"
    ]


@pytest.mark.parametrize("generation", [1, 2])
def test_an_epoch_that_is_over(transactional: Stage, caplog: pytest.LogCaptureFixture, generation: int) -> None:
    old = transactional.producer(generation=generation)
    transactional.producer(generation=generation)
    old.write("orders", b"late")
    old.commit_offset(5)
    old.end(committed=True)
    old.initialise(keep=True)
    reason = "epoch 0 of 't' is not in force: somebody else has this id, or a transaction was aborted"
    first = [
        f"ADD_PARTITIONS_TO_TXN v3: PRODUCER_FENCED: {reason}",
        f"ADD_OFFSETS_TO_TXN v3: PRODUCER_FENCED: {reason}",
    ]
    second = [
        f"PRODUCE v12: INVALID_PRODUCER_EPOCH: orders-0: {reason}",
        f"TXN_OFFSET_COMMIT v5: INVALID_PRODUCER_EPOCH: {reason}",
    ]
    versions = (3, 4) if generation == 1 else (5, 5)
    ends = [f"END_TXN v{versions[0]}: PRODUCER_FENCED: {reason}", f"INIT_PRODUCER_ID v{versions[1]}: PRODUCER_FENCED: "]
    assert [line.startswith(end) for line, end in zip(told(caplog)[2:], ends, strict=True)] == [True, True]
    assert told(caplog)[:2] == (first if generation == 1 else second)


def test_a_transactional_id_that_nobody_knows(transactional: Stage, caplog: pytest.LogCaptureFixture) -> None:
    unknown = TransactionalProducer(transactional, "unknown", 2)
    unknown.producer = ProducerEpoch(7, 0)
    assert unknown.write("orders", b"one") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert unknown.end(committed=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    reason = "there is no transactional id 'unknown': no producer was initialised with it, or it has expired"
    assert told(caplog) == [
        f"PRODUCE v12: INVALID_PRODUCER_ID_MAPPING: orders-0: {reason}",
        f"END_TXN v5: INVALID_PRODUCER_ID_MAPPING: {reason}",
    ]


def test_the_producer_of_another_transactional_id(transactional: Stage, caplog: pytest.LogCaptureFixture) -> None:
    producer = transactional.producer()
    producer.producer = ProducerEpoch(producer.producer.producer_id + 1, 0)
    assert producer.write("orders", b"one") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    number = producer.producer.producer_id
    assert told(caplog) == [
        f"PRODUCE v12: INVALID_PRODUCER_ID_MAPPING: orders-0: producer id {number} is not that of 't'"
    ]


def test_a_partition_that_vanishes_inside_of_a_transaction(
    transactional: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    transactional.create("others")
    producer = transactional.producer()
    assert not producer.write("orders", b"one")
    assert not producer.write("others", b"one")
    transactional.delete("orders")
    assert producer.write("orders", b"two") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.add(("orders", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset(5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not producer.end(committed=True)
    assert transactional.values("others") == [b"one"]
    assert told(caplog) == [
        "PRODUCE v12: UNKNOWN_TOPIC_OR_PARTITION: transaction 't' cannot write to orders-0",
        "ADD_PARTITIONS_TO_TXN v3: UNKNOWN_TOPIC_OR_PARTITION: transaction 't' cannot have orders-0",
        "TXN_OFFSET_COMMIT v5: UNKNOWN_TOPIC_OR_PARTITION: transaction 't' cannot commit for group 'g' in orders-0",
    ]
    assert "transaction 't' ends without orders-0: it was deleted, and its records with it" in caplog.messages


def test_what_passes_by_itself_is_not_told(transactional: Stage, caplog: pytest.LogCaptureFixture) -> None:
    producer = transactional.producer()
    assert not producer.write("orders", b"one")
    transactional.files.fail("sync", "/__transaction_state-0/")
    assert producer.end_soon(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert told(caplog) == []


def test_the_log_is_not_filled(transactional: Stage, caplog: pytest.LogCaptureFixture) -> None:
    unknown = TransactionalProducer(transactional, "unknown", 2)
    for _ in range(LINES_PER_PERIOD + 7):
        unknown.end(committed=True)
    assert len(told(caplog)) == LINES_PER_PERIOD
    transactional.clock.advance(PERIOD)
    unknown.end(committed=True)
    assert caplog.messages[-2] == "7 more lines like these were left out"


# --- groups


def beat(stage: GroupStage, group: str = "g", epoch: int = 0, **more: Any) -> ErrorCode:
    """A heartbeat of the consumer protocol by a member called ann."""
    joins = epoch == 0
    fields = {
        "group_id": group,
        "member_id": "ann",
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 30_000 if joins else -1,
        "subscribed_topic_names": ["orders"] if joins else None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [] if joins else None,
    }
    return ErrorCode(stage.ask(Api.CONSUMER_GROUP_HEARTBEAT, 1, **fields | more)["error_code"])


def test_a_regular_expression_that_does_not_compile(stage: GroupStage, caplog: pytest.LogCaptureFixture) -> None:
    assert beat(stage, subscribed_topic_regex="(") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert told(caplog) == [
        "CONSUMER_GROUP_HEARTBEAT v1: INVALID_REGULAR_EXPRESSION: member 'ann' of group 'g': "
        "SubscribedTopicRegex `(` is not a valid regular expression: missing ): (."
    ]


def test_a_member_epoch_out_of_order(stage: GroupStage, caplog: pytest.LogCaptureFixture) -> None:
    assert not beat(stage)
    assert beat(stage, epoch=9) == ErrorCode.FENCED_MEMBER_EPOCH
    (line,) = told(caplog)
    assert line.startswith(
        "CONSUMER_GROUP_HEARTBEAT v1: FENCED_MEMBER_EPOCH: member 'ann' of group 'g': "
        "The consumer group member has a greater member epoch (9) than the one known by the group coordinator (1)."
    )


def test_a_group_of_the_other_type(stage: GroupStage, caplog: pytest.LogCaptureFixture) -> None:
    stage.stable("workers", protocol_type="connect")
    assert beat(stage, "workers") == ErrorCode.GROUP_ID_NOT_FOUND
    assert not beat(stage, "readers")
    joined = stage.join("readers", protocol_type="connect")
    assert joined["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert told(caplog) == [
        "CONSUMER_GROUP_HEARTBEAT v1: GROUP_ID_NOT_FOUND: member 'ann' of group 'workers': Group workers is not a "
        "consumer group: its members are not consumers, or have not found together yet.",
        "JOIN_GROUP v9: INCONSISTENT_GROUP_PROTOCOL: a new member of group 'readers': the group is of another type, "
        "or its members have no protocol in common",
    ]


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_topic_that_is_deleted_under_a_group(stage: GroupStage, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    stage.topic("orders")
    stage.topic("others")
    if kind == "consumer":
        assert not beat(stage)
        member, epoch = "ann", 1
    else:
        joined = stage.stable()
        member, epoch = joined["member_id"], joined["generation_id"]
    assert commit(stage, member, epoch) == ErrorCode.NONE
    gone = stage.ask(Api.DELETE_TOPICS, 5, topic_names=["orders"], timeout=1_000)
    assert [each["error_code"] for each in gone["responses"]] == [ErrorCode.NONE]
    assert "group g: topic orders, which it reads, is deleted, and its offsets with it" in caplog.messages
    assert commit(stage, member, epoch) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(caplog) == ["OFFSET_COMMIT v9: UNKNOWN_TOPIC_OR_PARTITION: group 'g' cannot commit in orders-0"]


@pytest.mark.parametrize(
    ("member", "epoch", "code", "reason"),
    [
        ("ann", 9, "STALE_MEMBER_EPOCH", "'ann' commits in generation or epoch 9 of group 'g', which is over"),
        ("bob", 1, "UNKNOWN_MEMBER_ID", "'bob' is no member of group 'g'"),
        ("", -1, "UNKNOWN_MEMBER_ID", "group 'g' has members, and whoever commits does not say that it is one"),
    ],
)
def test_a_commit_of_somebody_who_may_not(
    stage: GroupStage, caplog: pytest.LogCaptureFixture, member: str, epoch: int, code: str, reason: str
) -> None:
    stage.topic("orders")
    assert not beat(stage)
    assert commit(stage, member, epoch) == ErrorCode[code]
    assert told(caplog) == [f"OFFSET_COMMIT v9: {code}: {reason}"]


def commit(stage: GroupStage, member: str, epoch: int) -> ErrorCode:
    place = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    answer = stage.ask(
        Api.OFFSET_COMMIT,
        9,
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=None,
        topics=[{"name": "orders", "partitions": [place]}],
    )
    return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])
