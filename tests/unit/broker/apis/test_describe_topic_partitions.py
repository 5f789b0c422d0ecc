from typing import Any

import pytest

from runnel import Broker
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.broker_wire import Wire, create_topic, metadata

Page = list[tuple[str, list[int]]]  # topics, and the numbers of their partitions


def ask(wire: Wire, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Message:
    place = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return wire.ask(Api.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=place)


def page(answer: Message) -> Page:
    return [(each["name"], [one["partition_index"] for one in each["partitions"]]) for each in answer["topics"]]


def next_place(answer: Message) -> tuple[str, int] | None:
    cursor: dict[str, Any] | None = answer["next_cursor"]
    return None if cursor is None else (cursor["topic_name"], cursor["partition_index"])


@pytest.fixture
def letters(wire: Wire, topic: str) -> list[str]:
    """Three topics with 3, 2 and 1 partitions, made in another order than that of their names."""
    for letter, count in (("c", 1), ("a", 3), ("b", 2)):
        create_topic(wire, f"{topic}-{letter}", count)
    return [f"{topic}-{letter}" for letter in "abc"]


def test_a_topic_has_its_partitions(wire: Wire, letters: list[str]) -> None:
    answer = ask(wire, letters[0])
    (found,) = answer["topics"]
    assert (found["error_code"], found["name"], found["is_internal"]) == (ErrorCode.NONE, letters[0], False)
    assert found["topic_id"] == metadata(wire, letters[0])["topics"][0]["topic_id"]
    node = metadata(wire)["controller_id"]
    for number, partition in enumerate(found["partitions"]):
        assert (partition["partition_index"], partition["error_code"]) == (number, ErrorCode.NONE)
        assert (partition["leader_id"], partition["replica_nodes"], partition["isr_nodes"]) == (node, [node], [node])
        assert partition["offline_replicas"] == []
    assert found["topic_authorized_operations"] > 0
    assert answer["next_cursor"] is None


def test_topics_come_in_the_order_of_their_names(wire: Wire, letters: list[str]) -> None:
    answer = ask(wire, letters[2], letters[0], letters[1])
    assert page(answer) == [(letters[0], [0, 1, 2]), (letters[1], [0, 1]), (letters[2], [0])]


def test_no_list_means_all(wire: Wire, letters: list[str]) -> None:
    names = [name for name, _ in page(ask(wire))]
    assert names == sorted(names)
    assert set(letters) < set(names)
    assert "__runnel_metadata" not in names


def test_a_topic_that_is_named_twice_is_told_once(wire: Wire, letters: list[str]) -> None:
    assert page(ask(wire, letters[2], letters[2])) == [(letters[2], [0])]


@pytest.mark.parametrize(
    ("limit", "expected", "after"),
    [
        (2, [("a", [0, 1])], ("a", 2)),
        (4, [("a", [0, 1, 2]), ("b", [0])], ("b", 1)),
        (5, [("a", [0, 1, 2]), ("b", [0, 1])], ("c", 0)),
        (6, [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None),
    ],
)
def test_a_page_has_so_many_partitions_and_names_the_next_one(
    wire: Wire, letters: list[str], limit: int, expected: Page, after: tuple[str, int] | None
) -> None:
    named = {name[-1]: name for name in letters}
    answer = ask(wire, *letters, limit=limit)
    assert page(answer) == [(named[letter], numbers) for letter, numbers in expected]
    assert next_place(answer) == (None if after is None else (named[after[0]], after[1]))


@pytest.mark.parametrize("limit", range(1, 8))
def test_page_after_page_gives_everything_once(wire: Wire, letters: list[str], limit: int) -> None:
    found: list[tuple[str, int]] = []
    cursor = None
    while True:
        answer = ask(wire, *letters, limit=limit, cursor=cursor)
        numbers = [(name, number) for name, some in page(answer) for number in some]
        assert len(numbers) <= limit
        found += numbers
        cursor = next_place(answer)
        if cursor is None:
            break
    assert [(name[-1], number) for name, number in found] == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)
    ]  # fmt: skip


def test_a_cursor_to_a_topic_that_was_deleted_goes_on_with_the_next(wire: Wire, letters: list[str]) -> None:
    answer = ask(wire, letters[0], letters[2], cursor=(letters[1], 1))
    assert page(answer) == [(letters[2], [0])]


def test_a_limit_that_is_no_limit_gives_one_partition_at_least(wire: Wire, letters: list[str]) -> None:
    for limit in (0, -1):
        assert len(page(ask(wire, *letters, limit=limit))[0][1]) >= 1


def test_the_broker_has_a_limit_of_its_own() -> None:
    with Broker(settings={"max.request.partition.size.limit": 2}) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "orders", 5)
        answer = ask(wire, "orders")
        assert page(answer) == [("orders", [0, 1])]
        assert next_place(answer) == ("orders", 2)


def test_an_unknown_topic_is_told_and_not_made(wire: Wire, letters: list[str]) -> None:
    missing = f"{letters[0]}-missing"
    for _ in range(2):
        answer = ask(wire, missing, letters[2])
        codes = {each["name"]: each["error_code"] for each in answer["topics"]}
        assert codes == {missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, letters[2]: ErrorCode.NONE}


def test_a_name_that_no_topic_can_have_is_invalid(wire: Wire, letters: list[str]) -> None:
    codes = {each["name"]: each["error_code"] for each in ask(wire, "a b", letters[2])["topics"]}
    assert codes == {"a b": ErrorCode.INVALID_TOPIC, letters[2]: ErrorCode.NONE}


def test_a_cursor_to_a_partition_that_cannot_be_is_refused(wire: Wire, letters: list[str]) -> None:
    (found,) = ask(wire, letters[0], cursor=(letters[0], -1))["topics"]
    assert (found["error_code"], found["partitions"]) == (ErrorCode.INVALID_REQUEST, [])
