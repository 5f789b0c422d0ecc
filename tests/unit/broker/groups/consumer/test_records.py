"""The records of consumer groups: each is read as it was written, and has Kafka's own bytes."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.member import ClassicPart, Progress
from runnel.broker.groups.consumer.records import (
    Current,
    CurrentKey,
    Epoch,
    EpochKey,
    ExpressionKey,
    Key,
    MemberKey,
    PartitionMetadataKey,
    Subscribed,
    Target,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    TopicsOfExpression,
    Value,
    is_key,
    read_key,
    read_value,
    write_key,
    write_value,
)
from runnel.broker.groups.members import GroupProtocol
from runnel.broker.groups.state import GroupsState, replay
from runnel.replay import Entry

TOPIC = UUID(int=1)

texts = st.text(max_size=20)
maybe = st.none() | texts
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
numbers = st.integers(0, 1000)
partitions = st.dictionaries(st.uuids(), st.frozensets(numbers, min_size=1))
given_partitions = st.dictionaries(st.uuids(), st.dictionaries(numbers, numbers, min_size=1))
classic = st.builds(
    ClassicPart, numbers, st.lists(st.builds(GroupProtocol, texts, st.binary(max_size=9)), min_size=1).map(tuple)
)
subscribed = st.builds(
    Subscribed, maybe, maybe, texts, texts, st.lists(texts).map(tuple), maybe, int32, maybe, st.none() | classic
)
current = st.builds(Current, int32, int32, st.sampled_from(Progress), given_partitions, given_partitions)
records = st.one_of(
    st.tuples(st.builds(EpochKey, texts), st.builds(Epoch, int32, int64)),
    st.tuples(st.builds(MemberKey, texts, texts), subscribed),
    st.tuples(st.builds(TargetEpochKey, texts), st.builds(TargetEpoch, int32, int64)),
    st.tuples(st.builds(TargetKey, texts, texts), st.builds(Target, partitions)),
    st.tuples(st.builds(CurrentKey, texts, texts), current),
    st.tuples(
        st.builds(ExpressionKey, texts, texts),
        st.builds(TopicsOfExpression, st.lists(texts).map(tuple), int64, int64),
    ),
)


@given(record=records)
def test_a_record_is_read_as_it_was_written(record: tuple[Key, Value]) -> None:
    key, value = record
    assert is_key(write_key(key))
    assert read_key(write_key(key)) == key
    assert read_value(key, write_value(value)) == value


@pytest.mark.parametrize(
    ("key", "value", "key_bytes", "value_bytes"),
    [
        (EpochKey("g"), Epoch(7), "0003 0001 67", "0000 00000007 00"),
        (EpochKey("g"), Epoch(7, 9), "0003 0001 67", "0000 00000007 01 00 08 0000000000000009"),
        (TargetEpochKey("g"), TargetEpoch(7, 9), "0006 0001 67", "0000 00000007 01 00 08 0000000000000009"),
        (
            TargetKey("g", "m"),
            Target({TOPIC: frozenset({2, 0})}),
            "0007 0001 67 0001 6d",
            "0000 02" + TOPIC.hex + "03 00000000 00000002 00 00",
        ),
        (
            CurrentKey("g", "m"),
            Current(3, 2, Progress.UNREVOKED, {TOPIC: {1: 3}}, {}),
            "0008 0001 67 0001 6d",
            "0000 00000003 00000002 02 02" + TOPIC.hex + "02 00000001 01 00 05 02 00000003 01 00",
        ),
        (
            MemberKey("g", "m"),
            Subscribed(None, None, "c", "/h", ("t",), None, 5, "uniform"),
            "0005 0001 67 0001 6d",
            "0000 00 00 02 63 03 2f68 02 02 74 00 00000005 08 756e69666f726d 00",
        ),
        (
            MemberKey("g", "m"),
            Subscribed("i", "r", "", "", (), "a", -1, None, ClassicPart(9, (GroupProtocol("p", b"x"),))),
            "0005 0001 67 0001 6d",
            "0000 02 69 02 72 01 01 01 02 61 ffffffff 00 01 00 0c 01 00000009 02 02 70 02 78 00 00",
        ),
        (
            ExpressionKey("g", "a"),
            TopicsOfExpression(("t",), 1, 2),
            "0010 0001 67 0001 61",
            "0000 02 02 74 0000000000000001 0000000000000002 00",
        ),
    ],
)
def test_a_record_has_these_bytes(key: Key, value: Value, key_bytes: str, value_bytes: str) -> None:
    assert write_key(key).hex() == key_bytes.replace(" ", "")
    assert write_value(value).hex() == value_bytes.replace(" ", "")


def test_what_kafka_before_4_1_wrote_of_topics_is_passed_over() -> None:
    state = GroupsState()
    replay(state, Entry(write_key(EpochKey("g")), write_value(Epoch(1)), 0))
    replay(state, Entry(write_key(PartitionMetadataKey("g")), b"whatever", 0))
    assert state.consumer == {"g": ConsumerGroup(epoch=1)}


def test_partitions_without_epochs_count_as_given_at_the_members_epoch() -> None:
    value = bytes.fromhex("0000 00000003 00000002 01 02" + TOPIC.hex + "02 00000001 00 01 00")
    assert read_value(CurrentKey("g", "m"), value) == Current(3, 2, Progress.STABLE, {TOPIC: {1: 3}}, {})


def test_a_value_of_a_newer_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 1"):
        read_value(EpochKey("g"), b"\x00\x01\x00\x00\x00\x07\x00")


@given(member=subscribed, has=current, target=partitions)
def test_the_records_of_a_member_may_come_in_any_order(
    member: Subscribed, has: Current, target: dict[UUID, frozenset[int]]
) -> None:
    """In a compacted log each is where it was written last."""
    records = [
        (EpochKey("g"), Epoch(5, 7)),
        (MemberKey("g", "m"), member),
        (TargetKey("g", "m"), Target(target)),
        (CurrentKey("g", "m"), has),
    ]
    groups = []
    for order in itertools.permutations(records):
        state = GroupsState()
        for key, value in order:
            replay(state, Entry(write_key(key), write_value(value), 0))
        groups.append(state.consumer["g"])
    assert all(group == groups[0] for group in groups)
    assert groups[0].targets == {"m": target}
    assert (groups[0].members["m"].topics, groups[0].members["m"].assigned) == (member.topics, has.assigned)


def test_whoever_is_no_member_owns_nothing() -> None:
    state = GroupsState()
    subscribed_to_nothing = Subscribed("one", None, "", "", (), None, -1, None)
    for key, value in (
        (MemberKey("g", "m"), subscribed_to_nothing),
        (TargetKey("g", "m"), Target({TOPIC: frozenset({0})})),
        (CurrentKey("g", "m"), Current(1, 0, Progress.STABLE, {TOPIC: {0: 1}}, {})),
    ):
        replay(state, Entry(write_key(key), write_value(value), 0))
    assert state.consumer["g"].owners == {(TOPIC, 0): "m"}
    replay(state, Entry(write_key(MemberKey("g", "m")), None, 0))
    assert state.consumer["g"] == ConsumerGroup()
