"""DescribeTransactions."""

from __future__ import annotations

from typing import Any

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import TIMEOUT, Stage


def described(stage: Stage, *names: str) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = stage.ask(Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": names})[
        "transaction_states"
    ]
    return states


def test_an_open_transaction_is_told_with_its_partitions(transactional: Stage) -> None:
    producer = transactional.producer()
    producer.write("orders", b"x", number=1)
    producer.write("orders", b"x")
    producer.commit_offset(1)
    (state,) = described(transactional, "t")
    assert state == {
        "error_code": ErrorCode.NONE,
        "transactional_id": "t",
        "transaction_state": "Ongoing",
        "transaction_timeout": TIMEOUT,
        "transaction_start_time": transactional.clock.now(),
        "producer_id": producer.producer.producer_id,
        "producer_epoch": 0,
        "topics": [{"topic": "__consumer_offsets", "partitions": [0]}, {"topic": "orders", "partitions": [0, 1]}],
    }


def test_the_states_have_the_names_that_tools_know(transactional: Stage) -> None:
    for committed, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
        producer = transactional.producer()
        assert described(transactional, "t")[0]["transaction_state"] == "Empty"
        producer.write("orders", b"x")
        producer.end(committed=committed)
        assert described(transactional, "t")[0]["transaction_state"] == state


def test_what_is_unknown_or_no_name_is_an_error_of_its_own(transactional: Stage) -> None:
    transactional.producer()
    codes = [(each["transactional_id"], each["error_code"]) for each in described(transactional, "t", "unknown", "")]
    assert codes == [
        ("t", ErrorCode.NONE),
        ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]


def test_a_disk_that_is_ill_is_an_answer(transactional: Stage) -> None:
    producer = transactional.producer()
    producer.write("orders", b"x")
    transactional.files.fail("sync", "/__transaction_state-0/")
    assert producer.end(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [each["error_code"] for each in described(transactional, "t")] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    answer = transactional.ask(
        Api.LIST_TRANSACTIONS,
        {"state_filters": (), "producer_id_filters": (), "duration_filter": -1, "transactional_id_pattern": None},
    )
    assert answer["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
