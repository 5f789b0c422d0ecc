"""ListTransactions in all its versions."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage

FILTERS = {"state_filters": (), "producer_id_filters": (), "duration_filter": -1, "transactional_id_pattern": None}


def listed(stage: Stage, version: int = 2, **filters: Any) -> dict[str, str]:
    answer = stage.ask(Api.LIST_TRANSACTIONS, FILTERS | filters, version)
    assert answer["error_code"] == ErrorCode.NONE
    return {each["transactional_id"]: each["transaction_state"] for each in answer["transaction_states"]}


@pytest.fixture
def three(transactional: Stage) -> Stage:
    transactional.producer("idle")
    transactional.producer("open", timeout=900_000).write("orders", b"x")
    done = transactional.producer("done")
    done.write("orders", b"x")
    done.end(committed=True)
    return transactional


@pytest.mark.parametrize("version", range(3))
def test_all_are_told_with_their_state_and_producer(three: Stage, version: int) -> None:
    assert listed(three, version) == {"idle": "Empty", "open": "Ongoing", "done": "CompleteCommit"}
    answer = three.ask(Api.LIST_TRANSACTIONS, FILTERS, version)
    for each in answer["transaction_states"]:
        assert each["producer_id"] == three.get(each["transactional_id"]).producer_id


@pytest.mark.parametrize("version", range(3))
def test_states_and_producers_can_be_asked_for(three: Stage, version: int) -> None:
    assert listed(three, version, state_filters=["Ongoing", "Empty"]) == {"idle": "Empty", "open": "Ongoing"}
    mine = three.get("done").producer_id
    assert listed(three, version, producer_id_filters=[mine]) == {"done": "CompleteCommit"}
    assert listed(three, version, producer_id_filters=[mine], state_filters=["Ongoing"]) == {}


@pytest.mark.parametrize("version", range(3))
def test_a_state_that_does_not_exist_is_told_back(three: Stage, version: int) -> None:
    answer = three.ask(Api.LIST_TRANSACTIONS, FILTERS | {"state_filters": ["Ongoing", "ongoing", "Wrong"]}, version)
    assert sorted(answer["unknown_state_filters"]) == ["Wrong", "ongoing"]
    assert [each["transactional_id"] for each in answer["transaction_states"]] == ["open"]


@pytest.mark.parametrize("version", [1, 2])
def test_those_that_are_open_for_long_can_be_asked_for(three: Stage, version: int) -> None:
    three.clock.advance(5_000)
    assert "open" in listed(three, version, duration_filter=4_999)
    assert listed(three, version, duration_filter=5_001) == {}
    assert "idle" not in listed(three, version, duration_filter=0)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("open", {"open"}), ("ope", set()), (".*n.*", {"open", "done"}), ("", {"idle", "open", "done"})],
)
def test_names_can_be_asked_for_by_a_regular_expression(three: Stage, pattern: str, found: set[str]) -> None:
    assert set(listed(three, transactional_id_pattern=pattern)) == found


def test_a_regular_expression_that_is_none_is_refused_and_logged(
    three: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    answer = three.ask(Api.LIST_TRANSACTIONS, FILTERS | {"transactional_id_pattern": "("})
    assert (answer["error_code"], answer["transaction_states"]) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
    assert "TransactionalIdPattern `(` is not a valid regular expression: missing )" in caplog.text
