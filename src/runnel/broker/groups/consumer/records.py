"""The records of consumer groups in `__consumer_offsets`, byte for byte Kafka's own.

A key begins with what it is about: 3 the group epoch, 5 a member, 6 the epoch of the target assignment, 7 a member's
target, 8 what a member has now, 16 the topics that a regular expression describes. 4 is of Kafka before 4.1, and read
only. All values are of version 0, which is flexible; what came later is in tagged fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from runnel.broker.groups.consumer.member import ClassicPart, Given, Progress
from runnel.broker.groups.consumer.partitions import Partitions
from runnel.broker.groups.members import GroupProtocol
from runnel.broker.groups.records import INT8, INT16, INT32, INT64, RecordReader, put_text
from runnel.protocol.encode import put_compact_bytes, put_compact_string, put_unsigned_varint
from runnel.protocol.frames import unsigned_varint

VALUE_VERSION = 0
HASH_TAG = CLASSIC_TAG = TIME_TAG = EPOCHS_TAG = 0
NOTHING: Given = {}
PRESENT = 1  # before a structure that could be null


# --- keys


class EpochKey(NamedTuple):
    group: str


class PartitionMetadataKey(NamedTuple):
    """What Kafka before 4.1 wrote of the topics: nobody needs it."""

    group: str


class MemberKey(NamedTuple):
    group: str
    member: str


class TargetEpochKey(NamedTuple):
    group: str


class TargetKey(NamedTuple):
    group: str
    member: str


class CurrentKey(NamedTuple):
    group: str
    member: str


class ExpressionKey(NamedTuple):
    group: str
    expression: str


Key = EpochKey | PartitionMetadataKey | MemberKey | TargetEpochKey | TargetKey | CurrentKey | ExpressionKey

KEYS: dict[int, type[Key]] = {
    3: EpochKey,
    4: PartitionMetadataKey,
    5: MemberKey,
    6: TargetEpochKey,
    7: TargetKey,
    8: CurrentKey,
    16: ExpressionKey,
}
NUMBERS = {kind: number for number, kind in KEYS.items()}


def is_key(data: bytes) -> bool:
    """Whether a key is one of a consumer group."""
    return len(data) >= INT16.size and INT16.unpack_from(data)[0] in KEYS


def write_key(key: Key) -> bytes:
    data = bytearray(INT16.pack(NUMBERS[type(key)]))
    for text in key:
        put_text(data, text)
    return bytes(data)


def read_key(data: bytes) -> Key:
    reader = RecordReader(data)
    kind = KEYS[reader.int16()]
    return kind(*(reader.text() for _ in kind._fields))


# --- values


class Epoch(NamedTuple):
    epoch: int
    topics_hash: int = 0


class Subscribed(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    expression: str | None
    rebalance_timeout: int
    assignor: str | None
    classic: ClassicPart | None = None


class TargetEpoch(NamedTuple):
    epoch: int
    assigned_at: int = 0


class Target(NamedTuple):
    partitions: Partitions


class Current(NamedTuple):
    epoch: int = -1
    previous_epoch: int = -1
    progress: Progress = Progress.STABLE
    assigned: Given = NOTHING
    revoking: Given = NOTHING


class TopicsOfExpression(NamedTuple):
    topics: tuple[str, ...]
    version: int  # of the topics, when it was resolved
    resolved_at: int


Value = Epoch | Subscribed | TargetEpoch | Target | Current | TopicsOfExpression


def write_value(value: Value) -> bytes:
    data = bytearray(INT16.pack(VALUE_VERSION))
    match value:
        case Epoch():
            data += INT32.pack(value.epoch)
            _put_tags(data, {HASH_TAG: INT64.pack(value.topics_hash)} if value.topics_hash else {})
        case TargetEpoch():
            data += INT32.pack(value.epoch)
            _put_tags(data, {TIME_TAG: INT64.pack(value.assigned_at)} if value.assigned_at else {})
        case Subscribed():
            _put_subscribed(data, value)
        case Target():
            put_unsigned_varint(data, len(value.partitions) + 1)
            for topic, numbers in sorted(value.partitions.items()):
                _put_partitions(data, topic, sorted(numbers))
                _put_tags(data, {})
            _put_tags(data, {})
        case Current():
            data += INT32.pack(value.epoch) + INT32.pack(value.previous_epoch) + INT8.pack(value.progress)
            _put_given(data, value.assigned)
            _put_given(data, value.revoking)
            _put_tags(data, {})
        case TopicsOfExpression():
            _put_texts(data, value.topics)
            data += INT64.pack(value.version) + INT64.pack(value.resolved_at)
            _put_tags(data, {})
    return bytes(data)


def _put_subscribed(data: bytearray, value: Subscribed) -> None:
    for text in (value.instance_id, value.rack_id, value.client_id, value.client_host):
        put_compact_string(data, text)
    _put_texts(data, value.topics)
    put_compact_string(data, value.expression)
    data += INT32.pack(value.rebalance_timeout)
    put_compact_string(data, value.assignor)
    tags = {}
    if value.classic is not None:
        classic = bytearray((PRESENT,)) + INT32.pack(value.classic.session_timeout)
        put_unsigned_varint(classic, len(value.classic.protocols) + 1)
        for protocol in value.classic.protocols:
            put_compact_string(classic, protocol.name)
            put_compact_bytes(classic, protocol.metadata)
            _put_tags(classic, {})
        _put_tags(classic, {})
        tags[CLASSIC_TAG] = bytes(classic)
    _put_tags(data, tags)


def _put_given(data: bytearray, given: Given) -> None:
    put_unsigned_varint(data, len(given) + 1)
    for topic, numbers in sorted(given.items()):
        ordered = sorted(numbers)
        _put_partitions(data, topic, ordered)
        epochs = bytearray()
        put_unsigned_varint(epochs, len(ordered) + 1)
        for number in ordered:
            epochs += INT32.pack(numbers[number])
        _put_tags(data, {EPOCHS_TAG: bytes(epochs)})


def _put_partitions(data: bytearray, topic: UUID, numbers: list[int]) -> None:
    data += topic.bytes
    put_unsigned_varint(data, len(numbers) + 1)
    for number in numbers:
        data += INT32.pack(number)


def _put_texts(data: bytearray, texts: tuple[str, ...]) -> None:
    put_unsigned_varint(data, len(texts) + 1)
    for text in texts:
        put_compact_string(data, text)


def _put_tags(data: bytearray, tags: Mapping[int, bytes]) -> None:
    put_unsigned_varint(data, len(tags))
    for tag, content in tags.items():
        put_unsigned_varint(data, tag)
        put_unsigned_varint(data, len(content))
        data += content


# --- reading


def read_value(key: Key, data: bytes) -> Value | None:
    """None for what nobody needs."""
    read = READERS.get(type(key))
    if read is None:
        return None
    reader = RecordReader(data)
    reader.version(VALUE_VERSION, first_flexible=VALUE_VERSION)
    return read(reader)


def _read_epoch(reader: RecordReader) -> Epoch:
    epoch, tags = reader.int32(), reader.tags()
    return Epoch(epoch, _int64(tags.get(HASH_TAG)))


def _read_target_epoch(reader: RecordReader) -> TargetEpoch:
    epoch, tags = reader.int32(), reader.tags()
    return TargetEpoch(epoch, _int64(tags.get(TIME_TAG)))


def _read_subscribed(reader: RecordReader) -> Subscribed:
    instance_id, rack_id = reader.nullable_text(), reader.nullable_text()
    client_id, client_host = reader.text(), reader.text()
    topics, expression = _texts(reader), reader.nullable_text()
    rebalance_timeout, assignor = reader.int32(), reader.nullable_text()
    classic = reader.tags().get(CLASSIC_TAG)
    return Subscribed(
        instance_id,
        rack_id,
        client_id,
        client_host,
        topics,
        expression,
        rebalance_timeout,
        assignor,
        None if classic is None else _read_classic(classic),
    )


def _read_classic(data: bytes) -> ClassicPart | None:
    reader = RecordReader(data, flexible=True)
    if reader.int8() != PRESENT:
        return None
    session_timeout = reader.int32()
    protocols = []
    for _ in range(reader.count()):
        protocols.append(GroupProtocol(reader.text(), reader.block()))
        reader.tags()
    return ClassicPart(session_timeout, tuple(protocols))


def _read_target(reader: RecordReader) -> Target:
    partitions = {}
    for _ in range(reader.count()):
        topic = reader.uuid()
        partitions[topic] = frozenset(_numbers(reader))
        reader.tags()
    return Target(partitions)


def _read_current(reader: RecordReader) -> Current:
    epoch, previous_epoch, progress = reader.int32(), reader.int32(), reader.int8()
    known = Progress(progress) if progress in set(Progress) else Progress.UNKNOWN
    return Current(epoch, previous_epoch, known, _given(reader, epoch), _given(reader, epoch))


def _read_expression(reader: RecordReader) -> TopicsOfExpression:
    return TopicsOfExpression(_texts(reader), reader.int64(), reader.int64())


def _given(reader: RecordReader, member_epoch: int) -> Given:
    """What was given before Kafka 4.3 has no epochs: it counts as given at the member's."""
    given: dict[UUID, dict[int, int]] = {}
    for _ in range(reader.count()):
        topic, numbers = reader.uuid(), _numbers(reader)
        epochs = _epochs(reader.tags().get(EPOCHS_TAG)) or [member_epoch] * len(numbers)
        given[topic] = dict(zip(numbers, epochs, strict=True))
    return given


def _epochs(data: bytes | None) -> list[int]:
    if data is None:
        return []
    size, position = unsigned_varint(data, 0)
    return [INT32.unpack_from(data, position + INT32.size * index)[0] for index in range(size - 1)]


def _numbers(reader: RecordReader) -> list[int]:
    return [reader.int32() for _ in range(reader.count())]


def _texts(reader: RecordReader) -> tuple[str, ...]:
    return tuple(reader.text() for _ in range(reader.count()))


def _int64(data: bytes | None) -> int:
    return 0 if data is None else int(INT64.unpack(data)[0])


READERS: dict[type[Key], Callable[[RecordReader], Value]] = {
    EpochKey: _read_epoch,
    MemberKey: _read_subscribed,
    TargetEpochKey: _read_target_epoch,
    TargetKey: _read_target,
    CurrentKey: _read_current,
    ExpressionKey: _read_expression,
}
