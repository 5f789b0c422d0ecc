"""OffsetFetch with `require_stable`: an offset that an open transaction will change is not told."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage

UNSTABLE = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
KNOWING = range(7, 11)  # the versions that have it


def fetched(stage: Stage, version: int, *, stable: bool = True, group: str = "g") -> dict[int, tuple[int, int]]:
    topic = stage.node.topics.find("orders")
    assert topic is not None
    topics = [{"name": "orders", "topic_id": topic.id, "partition_indexes": [0, 1]}]
    asked = {"group_id": group, "topics": topics, "member_id": None, "member_epoch": -1}
    answer = stage.ask(Api.OFFSET_FETCH, {**asked, "groups": [asked], "require_stable": stable}, version)
    if version >= 8:
        (answer,) = answer["groups"]
    assert answer["error_code"] == ErrorCode.NONE
    (found,) = answer["topics"]
    return {each["partition_index"]: (each["error_code"], each["committed_offset"]) for each in found["partitions"]}


def commit(stage: Stage, offset: int, group: str = "g") -> None:
    place = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    body: dict[str, Any] = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    body |= {"group_instance_id": None, "topics": [{"name": "orders", "partitions": [place]}]}
    (topic,) = stage.ask(Api.OFFSET_COMMIT, body, 9)["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("version", KNOWING)
@pytest.mark.parametrize("committed", [True, False])
def test_an_offset_is_told_when_it_is_known_what_counts(transactional: Stage, version: int, committed: bool) -> None:
    commit(transactional, 3)
    producer = transactional.producer()
    producer.commit_offset(7)
    assert fetched(transactional, version) == {0: UNSTABLE, 1: (0, -1)}
    assert fetched(transactional, version, stable=False) == {0: (0, 3), 1: (0, -1)}
    producer.end(committed=committed)
    assert fetched(transactional, version) == {0: (0, 7 if committed else 3), 1: (0, -1)}


@pytest.mark.parametrize("version", range(1, 7))
def test_older_versions_are_told_what_is_committed(transactional: Stage, version: int) -> None:
    commit(transactional, 3)
    transactional.producer().commit_offset(7)
    assert fetched(transactional, version) == {0: (0, 3), 1: (0, -1)}


@pytest.mark.parametrize("version", KNOWING)
def test_the_transaction_of_another_group_does_not_matter(transactional: Stage, version: int) -> None:
    commit(transactional, 3)
    transactional.producer().commit_offset(7, group="other")
    assert fetched(transactional, version) == {0: (0, 3), 1: (0, -1)}
    assert fetched(transactional, version, group="other")[0] == UNSTABLE


def test_a_commit_without_a_transaction_overtakes_one_that_is_pending(transactional: Stage) -> None:
    producer = transactional.producer()
    producer.commit_offset(7)
    commit(transactional, 9)
    assert fetched(transactional, 10) == {0: (0, 9), 1: (0, -1)}
    producer.end(committed=True)
    assert fetched(transactional, 10)[0] == (0, 9)


def test_when_all_offsets_are_asked_for_the_unstable_ones_are_named(transactional: Stage) -> None:
    commit(transactional, 3)
    transactional.producer().commit_offset(7)
    asked = {"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}
    (answer,) = transactional.ask(Api.OFFSET_FETCH, {"groups": [asked], "require_stable": True}, 9)["groups"]
    (topic,) = answer["topics"]
    (partition,) = topic["partitions"]
    assert (partition["error_code"], partition["committed_offset"]) == UNSTABLE


def test_a_topic_that_is_deleted_has_nothing_pending(transactional: Stage) -> None:
    """What was sent for the old topic must not count for a new one of its name."""
    producer = transactional.producer()
    producer.commit_offset(7)
    transactional.delete("orders")
    transactional.create("orders", 2)
    producer.end(committed=True)
    assert fetched(transactional, 10) == {0: (0, -1), 1: (0, -1)}


def test_a_group_that_is_deleted_takes_what_is_pending_along(transactional: Stage) -> None:
    producer = transactional.producer()
    producer.commit_offset(7)
    (gone,) = transactional.ask(Api.DELETE_GROUPS, {"groups_names": ["g"]})["results"]
    assert gone["error_code"] == ErrorCode.NONE
    producer.end(committed=True)
    assert fetched(transactional, 10)[0] == (0, -1)
    transactional.kill()
    assert fetched(transactional, 10)[0] == (0, -1)
    assert "g" not in transactional.node.groups.names()


def test_a_pending_offset_that_is_deleted_does_not_count(transactional: Stage) -> None:
    commit(transactional, 3)
    producer = transactional.producer()
    producer.commit_offset(7)
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    answer = transactional.ask(Api.OFFSET_DELETE, {"group_id": "g", "topics": topics})
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE
    producer.end(committed=True)
    assert fetched(transactional, 10)[0] == (0, -1)


def test_a_group_whose_only_offset_is_pending_is_kept(transactional: Stage) -> None:
    producer = transactional.producer()
    producer.commit_offset(7)
    transactional.node.groups.expire_offsets()
    assert transactional.node.groups.names() == ["g"]
    producer.end(committed=True)
    assert transactional.node.groups.names() == ["g"]
