"""The records of `__consumer_offsets`, byte for byte Kafka's own: committed offsets and the metadata of classic groups.

A key begins with its version, which says what it is about: 0 and 1 an offset, 2 a group. A value begins with its own
version. Every version that Kafka ever wrote is read; the newest that Kafka 4.3 writes is written.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from uuid import UUID

from runnel.counted import counted
from runnel.protocol.encode import put_compact_string, put_unsigned_varint
from runnel.protocol.frames import unsigned_varint

INT8 = struct.Struct(">b")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
MOST_BYTES_OF_A_TEXT = 2**15 - 1  # its length is an int16

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
OFFSET_VALUE = 4
OFFSET_VALUE_THAT_EXPIRES = 1  # the only version that says when
GROUP_VALUE = 3
FIRST_FLEXIBLE = 4  # of both values
TOPIC_ID_TAG = 0


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: str


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int  # -1: not told
    metadata: str
    committed_at: int
    expires_at: int | None = None  # None: after the broker's retention
    topic_id: UUID | None = None  # of the topic that had the name then; None: not told


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes  # its metadata for the group's protocol
    assignment: bytes


class StoredGroup(NamedTuple):
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_since: int  # -1: not told
    members: tuple[StoredMember, ...]


# --- writing


def write_offset_key(key: OffsetKey) -> bytes:
    data = bytearray(INT16.pack(1))
    put_text(data, key.group)
    put_text(data, key.topic)
    data += INT32.pack(key.partition)
    return bytes(data)


def write_offset(value: CommittedOffset) -> bytes:
    if value.expires_at is not None:
        data = bytearray(INT16.pack(OFFSET_VALUE_THAT_EXPIRES) + INT64.pack(value.offset))
        put_text(data, value.metadata)
        return bytes(data + INT64.pack(value.committed_at) + INT64.pack(value.expires_at))
    data = bytearray(INT16.pack(OFFSET_VALUE) + INT64.pack(value.offset) + INT32.pack(value.leader_epoch))
    put_compact_string(data, value.metadata)
    data += INT64.pack(value.committed_at)
    if value.topic_id is None:
        data.append(0)
    else:
        data += bytes((1, TOPIC_ID_TAG, 16)) + value.topic_id.bytes
    return bytes(data)


def write_group_key(group: str) -> bytes:
    data = bytearray(INT16.pack(GROUP_KEY))
    put_text(data, group)
    return bytes(data)


def write_group(value: StoredGroup) -> bytes:
    data = bytearray(INT16.pack(GROUP_VALUE))
    put_text(data, value.protocol_type)
    data += INT32.pack(value.generation)
    put_text(data, value.protocol_name)
    put_text(data, value.leader)
    data += INT64.pack(value.state_since) + INT32.pack(len(value.members))
    for member in value.members:
        put_text(data, member.member_id)
        put_text(data, member.instance_id)
        put_text(data, member.client_id)
        put_text(data, member.client_host)
        data += INT32.pack(member.rebalance_timeout) + INT32.pack(member.session_timeout)
        _put_bytes(data, member.subscription)
        _put_bytes(data, member.assignment)
    return bytes(data)


def fits(*texts: str | None) -> bool:
    """Whether the texts are short enough for a record."""
    return all(text is None or len(text.encode()) <= MOST_BYTES_OF_A_TEXT for text in texts)


def put_text(data: bytearray, text: str | None) -> None:
    if text is None:
        data += INT16.pack(-1)
        return
    encoded = text.encode()
    if len(encoded) > MOST_BYTES_OF_A_TEXT:
        raise ValueError(f"a text of {len(encoded):,} bytes does not fit into a record of __consumer_offsets")
    data += INT16.pack(len(encoded)) + encoded


def _put_bytes(data: bytearray, value: bytes) -> None:
    data += INT32.pack(len(value)) + value


# --- reading


def read_key(data: bytes) -> OffsetKey | GroupKey:
    reader = RecordReader(data)
    version = reader.int16()
    if version in OFFSET_KEYS:
        return OffsetKey(reader.text(), reader.text(), reader.int32())
    if version == GROUP_KEY:
        return GroupKey(reader.text())
    raise ValueError(f"a key of version {version}: it was written by a newer version of Runnel, or by Apache Kafka")


def read_offset(data: bytes) -> CommittedOffset:
    reader = RecordReader(data)
    version = reader.version(OFFSET_VALUE)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.text()
    committed_at = reader.int64()
    expires_at = reader.int64() if version == OFFSET_VALUE_THAT_EXPIRES else -1
    topic_id = reader.tags().get(TOPIC_ID_TAG)
    return CommittedOffset(
        offset,
        leader_epoch,
        metadata,
        committed_at,
        None if expires_at == -1 else expires_at,
        UUID(bytes=topic_id) if topic_id else None,
    )


def read_group(data: bytes) -> StoredGroup:
    reader = RecordReader(data)
    version = reader.version(FIRST_FLEXIBLE)
    protocol_type, generation = reader.text(), reader.int32()
    protocol_name, leader = reader.nullable_text(), reader.nullable_text()
    state_since = reader.int64() if version >= 2 else -1
    members = tuple(_read_member(reader, version) for _ in range(reader.count()))
    reader.tags()
    return StoredGroup(protocol_type, generation, protocol_name, leader, state_since, members)


def _read_member(reader: RecordReader, version: int) -> StoredMember:
    member_id = reader.text()
    instance_id = reader.nullable_text() if version >= 3 else None
    client_id, client_host = reader.text(), reader.text()
    rebalance_timeout = reader.int32() if version >= 1 else -1
    session_timeout = reader.int32()
    if version == 0:
        rebalance_timeout = session_timeout
    subscription, assignment = reader.block(), reader.block()
    reader.tags()
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout,
        session_timeout,
        subscription,
        assignment,
    )


class RecordReader:
    """Reads one field after the other; beyond the end it raises struct.error, IndexError or ValueError."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._position = 0
        self._flexible = flexible

    def version(self, most: int, first_flexible: int = FIRST_FLEXIBLE) -> int:
        version = self.int16()
        if not 0 <= version <= most:
            raise ValueError(f"a value of version {version}: versions 0 to {most} are known")
        self._flexible = version >= first_flexible
        return version

    def int8(self) -> int:
        return self._number(INT8)

    def int16(self) -> int:
        return self._number(INT16)

    def int32(self) -> int:
        return self._number(INT32)

    def int64(self) -> int:
        return self._number(INT64)

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise ValueError("a text that must be there is null")
        return text

    def nullable_text(self) -> str | None:
        size = self._varint() - 1 if self._flexible else self.int16()
        return None if size < 0 else self._take(size).decode()

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def block(self) -> bytes:
        return self._take(max(0, self.count()))

    def count(self) -> int:
        return self._varint() - 1 if self._flexible else self.int32()

    def tags(self) -> dict[int, bytes]:
        """The tagged fields of a structure, if its version has some."""
        if not self._flexible:
            return {}
        return {self._varint(): self._take(self._varint()) for _ in range(self._varint())}

    def _number(self, packed: struct.Struct) -> int:
        (number,) = packed.unpack_from(self._data, self._position)
        self._position += packed.size
        return int(number)

    def _varint(self) -> int:
        number, self._position = unsigned_varint(self._data, self._position)
        return number

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError(f"it ends in the middle of a field, after {counted(len(self._data), 'byte')}")
        taken = self._data[self._position : end]
        self._position = end
        return taken


# --- a list of records, for the snapshot


def write_pairs(pairs: list[tuple[bytes, bytes]]) -> bytes:
    data = bytearray()
    for part in (part for pair in pairs for part in pair):
        put_unsigned_varint(data, len(part))
        data += part
    return bytes(data)


def read_pairs(data: bytes) -> list[tuple[bytes, bytes]]:
    parts = []
    position = 0
    while position < len(data):
        size, position = unsigned_varint(data, position)
        parts.append(data[position : position + size])
        position += size
    if position > len(data) or len(parts) % 2:
        raise ValueError("it ends in the middle of a record")
    return list(zip(parts[::2], parts[1::2], strict=True))
