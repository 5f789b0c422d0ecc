"""The messages that come thousands of times a second, read and written by hand: a Produce of a single batch, the
partitions of one topic that join a transaction, and its end.

What is here gives exactly what `decode` and `encode` give, in a quarter of the time, or None: then they are asked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from runnel.protocol.frames import NO_TAGS as NO_HEADER_TAGS
from runnel.protocol.frames import unsigned_varint
from runnel.protocol.versions import Api

FLEXIBLE_SINCE = 9
IDS_SINCE = 13

ACKS_AND_TIMEOUT = struct.Struct(">hi")
INDEX = struct.Struct(">i")
RESULT = struct.Struct(">ihqqq")  # index, error code, base offset, append time, start offset
THROTTLE = struct.Struct(">i")
ONE = 2  # as a compact array's length is written
LONGEST_NAME = 0x7F  # whose length is one byte
LONGEST_STRING = 2**15 - 1
SHORT = struct.Struct(">h")
ADDING_IS_FLEXIBLE_SINCE = 3
ADDING_PRODUCER = struct.Struct(">qhih")  # producer id, epoch, number of topics, length of the first one's name
ADDED_HEAD = struct.Struct(">iih")  # throttle time, number of topics, length of the first one's name
ENDING_IS_FLEXIBLE_SINCE = 3
ENDING_PRODUCER = struct.Struct(">qh?")  # producer id, epoch, whether it commits
ENDED = struct.Struct(">ih")  # throttle time, error code
MOST_ADDED = 100  # partitions; more are rare
NO_TAGS = (0, 0, 0)  # of the partition, of the topic, of the request
NO_LEADER = {"leader_id": -1, "leader_epoch": -1}
NO_ERRORS = b"\x01\x00\x00\x00"  # no record errors, no message; no tags of the partition, none of the topic


def read_single_produce(data: bytes, start: int, end: int, version: int) -> dict[str, Any] | None:
    """The body from `start` to `end` of a Produce of one batch for one partition."""
    try:
        if version < FLEXIBLE_SINCE:
            return None
        transactional_id, position = None, start + 1
        if size := data[start]:
            if size >= 0x80:
                return None
            position = start + size
            transactional_id = data[start + 1 : position].decode()
        if data[position + 6] != ONE:
            return None
        acks, timeout = ACKS_AND_TIMEOUT.unpack_from(data, position)
        position += 7
        name, topic_id = "", None
        if version >= IDS_SINCE:
            topic_id = UUID(bytes=data[position : position + 16])
            position += 16
            if topic_id.int == 0:
                return None
        else:
            size = data[position]
            if not 2 <= size < 0x80:
                return None
            name = data[position + 1 : position + size].decode()
            position += size
        if data[position] != ONE:
            return None
        (index,) = INDEX.unpack_from(data, position + 1)
        size, position = unsigned_varint(data, position + 5)
        stop = position + size - 1
        if size == 0 or stop + 3 != end or (data[stop], data[stop + 1], data[stop + 2]) != NO_TAGS:
            return None
    except (IndexError, ValueError, struct.error):
        return None
    partition = {"index": index, "records": memoryview(data)[position:stop]}
    topic = {"name": name, "topic_id": topic_id, "partition_data": [partition]}
    return {"transactional_id": transactional_id, "acks": acks, "timeout": timeout, "topic_data": [topic]}


def single_produce_answer(version: int, body: Mapping[str, Any]) -> bytes | None:
    """The answer to a Produce of one batch that was appended."""
    if version < FLEXIBLE_SINCE or len(body["responses"]) != 1:
        return None
    (topic,) = body["responses"]
    if len(topic["partition_responses"]) != 1:
        return None
    (result,) = topic["partition_responses"]
    try:
        if result["error_code"] or _tells_more(body, result):
            return None
        appended = (result["base_offset"], result["log_append_time"], result["log_start_offset"])
        return appended_answer(version, topic, result["index"], appended, body["throttle_time"])
    except KeyError:  # it has a default
        return None


def appended_answer(
    version: int, topic: Mapping[str, Any], index: int, appended: tuple[int, int, int], throttle: int
) -> bytes | None:
    """The same from its parts: the topic by name and id, its partition, base offset, append time and start offset."""
    if version < FLEXIBLE_SINCE:
        return None
    named = _named(topic, version)
    if named is None:
        return None
    return b"\x02%b\x02%b%b%b\x00" % (named, RESULT.pack(index, 0, *appended), NO_ERRORS, THROTTLE.pack(throttle))


def whole_appended_answers(version: int, topic: Mapping[str, Any], index: int) -> Callable[..., bytes] | None:
    """The same with what stands around it, for one partition: made of a correlation id and as of `appended_answer` the
    base offset, append time, start offset, and throttle time."""
    named = _named(topic, version) if version >= FLEXIBLE_SINCE else None
    if named is None:
        return None
    before = b"%b\x02%b\x02%b\x00\x00" % (NO_HEADER_TAGS, named, INDEX.pack(index))
    whole = struct.Struct(f">ii{len(before)}sqqq{len(NO_ERRORS)}six")
    size = whole.size - INDEX.size

    def made(correlation_id: int, offset: int, time: int, start_offset: int, throttle: int) -> bytes:
        return whole.pack(size, correlation_id, before, offset, time, start_offset, NO_ERRORS, throttle)

    return made


def _tells_more(body: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Than that it was appended."""
    return (
        result.get("error_message") is not None
        or bool(result.get("record_errors"))
        or result.get("current_leader", NO_LEADER) != NO_LEADER
        or bool(body.get("node_endpoints"))
    )


def read_added_partitions(data: bytes, start: int, end: int, version: int) -> dict[str, Any] | None:
    """The body of an AddPartitionsToTxn for partitions of one topic, as it was before it became flexible."""
    if version >= ADDING_IS_FLEXIBLE_SINCE:
        return None
    try:
        (size,) = SHORT.unpack_from(data, start)
        position = start + SHORT.size + size
        producer_id, epoch, topics, name_size = ADDING_PRODUCER.unpack_from(data, position)
        if size < 0 or topics != 1 or name_size < 0:
            return None
        transactional_id = data[start + SHORT.size : position].decode()
        name_at = position + ADDING_PRODUCER.size
        position = name_at + name_size
        (count,) = INDEX.unpack_from(data, position)
        position += INDEX.size
        if not 0 <= count <= MOST_ADDED or position + count * INDEX.size != end:
            return None
        topic = {
            "name": data[name_at : name_at + name_size].decode(),
            "partitions": list(struct.unpack_from(f">{count}i", data, position)),
        }
    except (ValueError, struct.error):
        return None
    return {
        "transactions": (),
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": [topic],
    }


def added_partitions_answer(version: int, body: Mapping[str, Any]) -> bytes | None:
    """The answer to it."""
    if version >= ADDING_IS_FLEXIBLE_SINCE or len(body["results_by_topic_v3_and_below"]) != 1:
        return None
    (topic,) = body["results_by_topic_v3_and_below"]
    results = topic["results_by_partition"]
    name = topic["name"].encode()
    if len(results) > MOST_ADDED or len(name) > LONGEST_STRING:
        return None
    try:
        numbers = [each[field] for each in results for field in ("partition_index", "partition_error_code")]
        throttle = body["throttle_time"]
    except KeyError:  # it has a default
        return None
    head = ADDED_HEAD.pack(throttle, 1, len(name))
    return b"%b%b%b%b" % (head, name, INDEX.pack(len(results)), struct.pack(">" + "ih" * len(results), *numbers))


def _named(topic: Mapping[str, Any], version: int) -> bytes | None:
    if version >= IDS_SINCE:
        return None if topic["topic_id"] is None else topic["topic_id"].bytes
    return _short(topic["name"])


@lru_cache(1024)
def _short(name: str) -> bytes | None:
    """With its length in one byte, or None."""
    data = name.encode()
    return bytes((len(data) + 1,)) + data if len(data) < LONGEST_NAME else None


def read_end(data: bytes, start: int, end: int, version: int) -> dict[str, Any] | None:
    """The body of an EndTxn, as it was before it became flexible."""
    if version >= ENDING_IS_FLEXIBLE_SINCE:
        return None
    try:
        (size,) = SHORT.unpack_from(data, start)
        position = start + SHORT.size + size
        if size < 0 or position + ENDING_PRODUCER.size != end:
            return None
        producer_id, epoch, committed = ENDING_PRODUCER.unpack_from(data, position)
        transactional_id = data[start + SHORT.size : position].decode()
    except (ValueError, struct.error):
        return None
    return {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "committed": committed,
    }


def end_answer(version: int, body: Mapping[str, Any]) -> bytes | None:
    """The answer to it."""
    if version >= ENDING_IS_FLEXIBLE_SINCE or "throttle_time" not in body or "error_code" not in body:
        return None
    return ENDED.pack(body["throttle_time"], body["error_code"])


ReadByHand = Callable[[bytes, int, int, int], dict[str, Any] | None]  # from start to end, in a version
WriteByHand = Callable[[int, Mapping[str, Any]], bytes | None]

READ_BY_HAND: Mapping[int, ReadByHand] = {
    Api.PRODUCE: read_single_produce,
    Api.ADD_PARTITIONS_TO_TXN: read_added_partitions,
    Api.END_TXN: read_end,
}
WRITTEN_BY_HAND: Mapping[int, WriteByHand] = {
    Api.PRODUCE: single_produce_answer,
    Api.ADD_PARTITIONS_TO_TXN: added_partitions_answer,
    Api.END_TXN: end_answer,
}
