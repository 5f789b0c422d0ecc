from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.broker.quotas import CONSUME, PRODUCE
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.node_stage import NEWEST, NodeStage

EXACT, DEFAULT, ANY = 0, 1, 2
OK = (ErrorCode.NONE, None)

Part = tuple[str, str | None]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NodeStage]:
    stage = NodeStage(tmp_path / "data")
    yield stage
    stage.close()


def altered(
    stage: NodeStage,
    entity: list[Part],
    *,
    validate_only: bool = False,
    version: int = NEWEST,
    **quotas: float | None,
) -> tuple[int, str | None]:
    operations = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    body = {"entries": [{"entity": parts, "ops": operations}], "validate_only": validate_only}
    (entry,) = stage.ask(Api.ALTER_CLIENT_QUOTAS, body, version)["entries"]
    assert entry["entity"] == parts
    return entry["error_code"], entry["error_message"]


def described(
    stage: NodeStage, *components: tuple[str, int, str | None], strict: bool = False, version: int = NEWEST
) -> dict[str, Any]:
    asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
    return stage.ask(Api.DESCRIBE_CLIENT_QUOTAS, {"components": asked, "strict": strict}, version)


def entities(answer: dict[str, Any]) -> list[tuple[Part, ...]]:
    return [
        tuple((part["entity_type"], part["entity_name"]) for part in entry["entity"]) for entry in answer["entries"]
    ]


# --- altering


def test_a_quota_is_in_force_at_once_and_after_a_restart(stage: NodeStage) -> None:
    assert altered(stage, [("client-id", "a")], producer_byte_rate=1000.0) == OK
    assert stage.node.quotas.limit(PRODUCE, "a") == 1000

    stage.restart()

    assert stage.node.quotas.limit(PRODUCE, "a") == 1000
    assert stage.node.throttle_producer("a", 10**6) > 0


def test_quotas_of_an_entity_are_changed_one_by_one(stage: NodeStage) -> None:
    altered(stage, [("user", None)], producer_byte_rate=1.0, consumer_byte_rate=2.0)

    assert altered(stage, [("user", None)], producer_byte_rate=None) == OK

    assert (stage.node.quotas.limit(PRODUCE, "a"), stage.node.quotas.limit(CONSUME, "a")) == (None, 2)


def test_an_entity_without_quotas_is_gone(stage: NodeStage) -> None:
    altered(stage, [("user", None)], producer_byte_rate=1.0)

    altered(stage, [("user", None)], producer_byte_rate=None)

    assert described(stage)["entries"] == []


def test_the_order_of_an_entitys_parts_means_nothing(stage: NodeStage) -> None:
    altered(stage, [("user", "u"), ("client-id", "c")], producer_byte_rate=1.0)
    altered(stage, [("client-id", "c"), ("user", "u")], producer_byte_rate=2.0)

    (entry,) = described(stage)["entries"]
    assert entry["values"] == [{"key": "producer_byte_rate", "value": 2.0}]


def test_a_check_changes_nothing(stage: NodeStage) -> None:
    assert altered(stage, [("client-id", "a")], validate_only=True, producer_byte_rate=1.0) == OK

    assert stage.node.quotas.limit(PRODUCE, "a") is None


@pytest.mark.parametrize(
    ("entity", "quotas", "says"),
    [
        ([], {"producer_byte_rate": 1.0}, "the entity is empty"),
        (
            [("user", "a"), ("user", "b")],
            {"producer_byte_rate": 1.0},
            "the entity has 'user' more than once",
        ),
        (
            [("team", "a")],
            {"producer_byte_rate": 1.0},
            "there are no quotas of the type 'team': expected user or client-id",
        ),
        ([("user", "")], {"producer_byte_rate": 1.0}, "the name of a user is empty"),
        (
            [("ip", "127.0.0.1")],
            {"connection_creation_rate": 1.0},
            "quotas of addresses are not enforced here: see max.connections.per.ip",
        ),
        (
            [("user", "a")],
            {"request_percentage": 1.0},
            "request_percentage is not enforced here: expected producer_byte_rate or consumer_byte_rate",
        ),
        (
            [("user", "a")],
            {"speed": 1.0},
            "there is no quota 'speed': expected producer_byte_rate or consumer_byte_rate",
        ),
        (
            [("user", "a")],
            {"producer_byte_rate": -1.0},
            "producer_byte_rate has to be greater than 0, and is -1",
        ),
        (
            [("user", "a")],
            {"producer_byte_rate": float("nan")},
            "producer_byte_rate has to be greater than 0, and is nan",
        ),
        (
            [("user", "a")],
            {"producer_byte_rate": 1e30},
            "producer_byte_rate has to be at most 9.22337e+18, and is 1e+30",
        ),
        (
            [("user", "a")],
            {"producer_byte_rate": float("inf")},
            "producer_byte_rate has to be at most 9.22337e+18, and is inf",
        ),
        (
            [("user", "a")],
            {"consumer_byte_rate": 1.5},
            "consumer_byte_rate has to be a whole number, and is 1.5",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_refused(
    stage: NodeStage, entity: list[Part], quotas: dict[str, float], says: str
) -> None:
    assert altered(stage, entity, **quotas) == (ErrorCode.INVALID_REQUEST, says)
    assert described(stage)["entries"] == []


def test_the_largest_number_of_kafkas_clients_is_a_quota(stage: NodeStage) -> None:
    assert altered(stage, [("client-id", "a")], consumer_byte_rate=float(2**63 - 1)) == OK
    assert stage.node.quotas.limit(CONSUME, "a") == 2.0**63


# --- describing


@pytest.fixture
def filled(stage: NodeStage) -> NodeStage:
    both: list[Part] = [("client-id", "a"), ("user", "u")]
    for entity in ([("client-id", "a")], [("client-id", None)], both):
        altered(stage, entity, producer_byte_rate=1.0)  # type: ignore[arg-type]
    return stage


A: tuple[Part, ...] = (("client-id", "a"),)
EVERY: tuple[Part, ...] = (("client-id", None),)
BOTH: tuple[Part, ...] = (("client-id", "a"), ("user", "u"))


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [A, EVERY, BOTH]),
        ([], True, []),
        ([("client-id", EXACT, "a")], False, [A, BOTH]),
        ([("client-id", EXACT, "a")], True, [A]),
        ([("client-id", DEFAULT, None)], False, [EVERY]),
        ([("client-id", ANY, None)], True, [A, EVERY]),
        ([("client-id", ANY, None), ("user", ANY, None)], False, [BOTH]),
        ([("user", EXACT, "w")], False, []),
        ([("ip", ANY, None)], False, []),
    ],
)
def test_a_filter_finds_what_fits(
    filled: NodeStage, components: list[tuple[str, int, str | None]], strict: bool, expected: list[tuple[Part, ...]]
) -> None:
    assert entities(described(filled, *components, strict=strict)) == expected


@pytest.mark.parametrize(
    ("components", "code", "says"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST, "a component of the filter has no type"),
        ([("team", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "there are no quotas of the type 'team'"),
        (
            [("user", EXACT, "a"), ("user", EXACT, "b")],
            ErrorCode.INVALID_REQUEST,
            "the filter has 'user' more than once",
        ),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST, "there is no match type 7"),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST, "'user' needs a name to match with match type 0"),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST, "'user' needs no name to match with match type 1"),
        (
            [("user", EXACT, "a"), ("ip", EXACT, "b")],
            ErrorCode.INVALID_REQUEST,
            "an address cannot be combined with users or client ids",
        ),
    ],
)
def test_a_filter_that_cannot_be_is_refused(
    stage: NodeStage, components: list[tuple[str, int, str | None]], code: ErrorCode, says: str
) -> None:
    answer = described(stage, *components)

    assert (answer["error_code"], answer["error_message"], answer["entries"]) == (code, says, None)


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_is_answered(stage: NodeStage, version: int) -> None:
    assert altered(stage, [("client-id", "a")], version=version, producer_byte_rate=1.0) == OK
    assert entities(described(stage, version=version)) == [A]
