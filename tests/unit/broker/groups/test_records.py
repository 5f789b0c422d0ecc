"""The records of `__consumer_offsets`: what is written is read, and Kafka's bytes are Kafka's bytes."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    fits,
    read_group,
    read_key,
    read_offset,
    read_pairs,
    write_group,
    write_group_key,
    write_offset,
    write_offset_key,
    write_pairs,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PLAIN_OFFSETS = st.builds(CommittedOffset, INT64, INT32, TEXT, INT64, st.none(), st.none() | st.uuids(allow_nil=False))
EXPIRING_OFFSETS = st.builds(
    CommittedOffset, INT64, st.just(-1), TEXT, INT64, INT64.filter(lambda time: time != -1), st.none()
)
MEMBERS = st.builds(
    StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, st.binary(max_size=50), st.binary(max_size=50)
)
GROUPS = st.builds(
    StoredGroup, TEXT, INT32, st.none() | TEXT, st.none() | TEXT, INT64, st.lists(MEMBERS, max_size=5).map(tuple)
)
TOPIC_ID = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")


@given(st.builds(OffsetKey, TEXT, TEXT, INT32))
def test_an_offset_key_is_read_as_it_was_written(key: OffsetKey) -> None:
    assert read_key(write_offset_key(key)) == key


@given(TEXT)
def test_a_group_key_is_read_as_it_was_written(group: str) -> None:
    assert read_key(write_group_key(group)) == GroupKey(group)


@given(PLAIN_OFFSETS | EXPIRING_OFFSETS)
def test_an_offset_is_read_as_it_was_written(committed: CommittedOffset) -> None:
    assert read_offset(write_offset(committed)) == committed


@given(GROUPS)
def test_a_group_is_read_as_it_was_written(group: StoredGroup) -> None:
    assert read_group(write_group(group)) == group


@given(GROUPS, st.data())
def test_a_group_that_is_cut_short_is_refused(group: StoredGroup, data: st.DataObject) -> None:
    written = write_group(group)
    size = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises((ValueError, struct.error, IndexError)):
        read_group(written[:size])


@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300))))
def test_pairs_are_read_as_they_were_written(pairs: list[tuple[bytes, bytes]]) -> None:
    assert read_pairs(write_pairs(pairs)) == pairs


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_pairs_that_are_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="in the middle of a record"):
        read_pairs(write_pairs([(b"key", b"value"), (b"k", b"v")])[:-cut])


# --- Kafka's bytes, by hand from its message definitions


def test_an_offset_key_has_version_1() -> None:
    assert write_offset_key(OffsetKey("g", "orders", 3)) == b"\x00\x01\x00\x01g\x00\x06orders\x00\x00\x00\x03"


def test_a_group_key_has_version_2() -> None:
    assert write_group_key("g") == b"\x00\x02\x00\x01g"


def test_an_offset_has_version_4_with_the_topic_id_in_a_tag() -> None:
    written = write_offset(CommittedOffset(7, 2, "note", 1_000, topic_id=TOPIC_ID))
    assert written == (
        b"\x00\x04"
        + struct.pack(">qi", 7, 2)
        + b"\x05note"
        + struct.pack(">q", 1_000)
        + b"\x01\x00\x10"
        + TOPIC_ID.bytes
    )


def test_an_offset_that_expires_has_version_1() -> None:
    written = write_offset(CommittedOffset(7, -1, "note", 1_000, expires_at=9_000))
    assert written == b"\x00\x01" + struct.pack(">q", 7) + b"\x00\x04note" + struct.pack(">qq", 1_000, 9_000)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"\x00\x00" + struct.pack(">q", 7) + b"\x00\x01m" + struct.pack(">q", 9), CommittedOffset(7, -1, "m", 9)),
        (
            b"\x00\x01" + struct.pack(">q", 7) + b"\x00\x01m" + struct.pack(">qq", 9, -1),
            CommittedOffset(7, -1, "m", 9),
        ),
        (b"\x00\x02" + struct.pack(">q", 7) + b"\x00\x01m" + struct.pack(">q", 9), CommittedOffset(7, -1, "m", 9)),
        (b"\x00\x03" + struct.pack(">qi", 7, 4) + b"\x00\x01m" + struct.pack(">q", 9), CommittedOffset(7, 4, "m", 9)),
        (
            b"\x00\x04" + struct.pack(">qi", 7, 4) + b"\x02m" + struct.pack(">q", 9) + b"\x00",
            CommittedOffset(7, 4, "m", 9),
        ),
        (  # with a tag that we do not know
            b"\x00\x04" + struct.pack(">qi", 7, 4) + b"\x02m" + struct.pack(">q", 9) + b"\x01\x05\x02xy",
            CommittedOffset(7, 4, "m", 9),
        ),
    ],
)
def test_every_version_of_an_offset_is_read(written: bytes, expected: CommittedOffset) -> None:
    assert read_offset(written) == expected


def test_the_offset_keys_of_old_are_read() -> None:
    assert read_key(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x02") == OffsetKey("g", "t", 2)


def old_group(version: int) -> bytes:
    """A group with one member, as Kafka's definition has it in each version that is not flexible."""
    state_since = struct.pack(">q", 77) if version >= 2 else b""
    instance = b"\x00\x01i" if version >= 3 else b""
    rebalance = struct.pack(">i", 600) if version >= 1 else b""
    member = b"\x00\x01m" + instance + b"\x00\x01c\x00\x01h" + rebalance + struct.pack(">i", 300)
    member += b"\x00\x00\x00\x01s" + b"\x00\x00\x00\x01a"
    head = struct.pack(">h", version) + b"\x00\x08consumer" + struct.pack(">i", 5) + b"\x00\x05range\x00\x01m"
    return head + state_since + struct.pack(">i", 1) + member


FLEXIBLE_GROUP = (
    b"\x00\x04\x09consumer" + struct.pack(">i", 5) + b"\x06range\x02m" + struct.pack(">q", 77) + b"\x02"
    b"\x02m\x02i\x02c\x02h" + struct.pack(">ii", 600, 300) + b"\x02s\x02a\x00" + b"\x00"
)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    group = read_group(FLEXIBLE_GROUP if version == 4 else old_group(version))
    member = StoredMember("m", "i" if version >= 3 else None, "c", "h", 600 if version >= 1 else 300, 300, b"s", b"a")
    assert group == StoredGroup("consumer", 5, "range", "m", 77 if version >= 2 else -1, (member,))


def test_the_newest_version_of_a_group_is_as_kafka_writes_it() -> None:
    assert write_group(read_group(old_group(3))) == old_group(3)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_key, b"\x00\x03\x00\x01g"),
        (read_key, b"\xff\xff\x00\x01g"),
        (read_offset, b"\x00\x05" + bytes(40)),
        (read_group, b"\x00\x05" + bytes(40)),
        (read_group, b"\xff\xff" + bytes(40)),
        (read_key, b"\x00\x02\xff\xff"),
    ],
)
def test_what_nobody_knows_is_refused(read: object, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"version|null"):
        read(data)  # type: ignore[operator]


def test_a_text_that_does_not_fit_is_refused() -> None:
    assert fits("a" * 32_767, None)
    assert not fits("a" * 32_768)
    assert not fits("ä" * 16_384)
    with pytest.raises(ValueError, match="does not fit"):
        write_group_key("a" * 32_768)
