"""The short way of batches that come alone, and what it shares with the long one, in `apis/produce.py`.

A lone batch is the only one of its request, and has not to be admitted to a transaction: nearly every small request is
one. It is checked and appended as any other. But a producer's requests to a partition differ in little more than the
batch, so the rest is looked up once, for a `Lane`; and the answer is written by hand, byte for byte as the long way's.
Whatever is not as it should be goes the long way, which tells the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Encoded
from runnel.broker.topics import Topic
from runnel.clock import Clock
from runnel.errors import RunnelError
from runnel.log import Append, Outcome, Told
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.frames import answer_head
from runnel.protocol.hot import whole_appended_answers
from runnel.protocol.known import Known
from runnel.records import NO_TIMESTAMP, TRANSACTIONAL, BatchHeader, Codec, parse_header, records_of
from runnel.settings import TimestampType, TopicSettings

ZSTD_SINCE = 7
IDS_SINCE = 13
OF_THE_LOG = TimestampType.LOG_APPEND_TIME
WHOLE_HEAD = len(answer_head(0, 0, flexible=True))


class Lane:
    """The way of such batches to one partition, while it `is_open`: until topics or their settings change."""

    __slots__ = (
        *("_after_max", "_answers", "_changes", "_gathers", "_has_earliest", "_index", "_known", "_named", "_node"),
        *("_partition", "_settings", "_topic", "_topics"),
    )

    def __init__(self, node: Node, known: Known, topic: Topic) -> None:
        """IndexError or a RunnelError if there is no such partition now."""
        self._node = node
        self._known = known
        self._named, self._index = {"name": known.topic, "topic_id": known.topic_id}, known.partition
        self._topics, self._changes = node.topics, node.topics.changes
        self._topic, self._settings = topic, topic.settings
        self._partition = topic.partition(known.partition)
        self._answers = whole_appended_answers(known.version, self._named, known.partition)
        self._gathers = topic.settings.keeps_batches
        self._after_max = self._settings.message_timestamp_after_max_ms
        self._has_earliest = self._settings.message_timestamp_before_max_ms < node.clock.now()

    @property
    def is_open(self) -> bool:
        return self._topic.settings is self._settings and self._topics.changes == self._changes

    def begin(self, batch: memoryview, told: Told) -> bool:
        """False if it is no lone batch, or is refused: then it goes the long way."""
        try:
            header = self._admitted(batch)
            if header is None:
                return False
            if not (self._gathers and self._partition.gather(header, batch, told)):
                self._partition.submit(batch, header=header, told=told)
        except (Refusal, RunnelError):
            return False
        return True

    def submit(self, batch: memoryview) -> Append | None:
        """The same, for whoever waits for the append."""
        try:
            header = self._admitted(batch)
            return None if header is None else self._partition.submit(batch, header=header)
        except (Refusal, RunnelError):
            return None

    def _admitted(self, batch: memoryview) -> BatchHeader | None:
        known, clock = self._known, self._node.clock
        header = parse_header(batch)
        if header[5] & TRANSACTIONAL and not is_in_transaction(
            self._node, known.transactional_id, self._topic, self._index, header
        ):
            return None
        if known.version < ZSTD_SINCE:
            refuse_zstd(known.version, header)
        if self._has_earliest or header[8] > clock.now() + self._after_max:
            refuse_by_time(clock, self._settings, header, batch)
        return header

    def throttle(self, size: int) -> int:
        """How many milliseconds the producer is to wait after so many bytes."""
        return self._node.throttle_producer(self._known.client_id, size)

    def whole_answer(self, correlation_id: int, base_offset: int, timestamp: int, throttle: int) -> bytes | None:
        """To what was appended, with what stands around it; None in versions that are not written by hand."""
        if self._answers is None:
            return None
        return self._answers(correlation_id, base_offset, timestamp, self._partition.start_offset, throttle)

    def answer(self, outcome: Outcome, throttle: int) -> Body:
        base_offset, timestamp, error = outcome
        whole = self.whole_answer(0, base_offset, timestamp, throttle) if error is None else None
        if whole is not None:
            return Encoded(whole[WHOLE_HEAD:], throttle)
        result = new_result(self._index)
        result["log_start_offset"] = self._partition.start_offset
        note_outcome(result, outcome)
        return {"responses": [new_response(self._named, [result])], "throttle_time": throttle}


def lane_of(node: Node, known: Known) -> Lane | None:
    """None if these go the long way."""
    topics = node.topics
    topic = topics.find_id(known.topic_id) if known.version >= IDS_SINCE else topics.find(known.topic)
    if known.acks not in (-1, 1) or topic is None or topic.is_internal or topic.settings.compacts:
        return None
    try:
        return Lane(node, known, topic)
    except (IndexError, RunnelError):
        return None


# --- what both ways share


def is_in_transaction(node: Node, name: str | None, topic: Topic, number: int, header: BatchHeader) -> bool:
    """Whether the partition is durably in this batch's transaction, and no batch before it waits to be admitted."""
    if not name:
        return False
    # Plain tuples, which are the same as a ProducerEpoch and a TopicPartition and cost a fifth: every batch asks.
    producer, place = (header.producer_id, header.producer_epoch), (topic.facts.name, number)
    transactions = node.transactions
    is_in = transactions.has(name, producer, place) or (
        # Behind its end, but before the marker: in the first generation that would be of the same epoch.
        topic.partition(number).has_transaction(*producer) and not transactions.is_ending(name)
    )
    return is_in and not transactions.is_admitting(producer[0], place)


def refuse_zstd(version: int, header: BatchHeader) -> None:
    if header.codec is Codec.ZSTD:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"version {version} of Produce does not know zstd")


def refuse_by_time(clock: Clock, settings: TopicSettings, header: BatchHeader, batch: memoryview) -> None:
    if settings.message_timestamp_type is OF_THE_LOG:
        return
    largest = header.max_timestamp
    now = clock.now()
    if largest - now > settings.message_timestamp_after_max_ms:
        limit = f"message.timestamp.after.max.ms = {settings.message_timestamp_after_max_ms}"
        raise Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {largest} is after now, {now}, by more than {limit}")
    if settings.message_timestamp_before_max_ms >= now:  # there is no such time
        return
    # The header tells the first record's time and the latest one: any record between may be older.
    for record in records_of(batch):
        oldest = record.timestamp
        if oldest != NO_TIMESTAMP and now - oldest > settings.message_timestamp_before_max_ms:
            limit = f"message.timestamp.before.max.ms = {settings.message_timestamp_before_max_ms}"
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {oldest} is before now, {now}, by more than {limit}")


def new_response(asked: Mapping[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": asked["name"], "topic_id": asked["topic_id"], "partition_responses": results}


def new_result(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": 0,
        "base_offset": -1,
        "log_append_time": -1,
        "log_start_offset": -1,
        "record_errors": (),
        "error_message": None,
    }


def note_outcome(result: dict[str, Any], outcome: Outcome) -> None:
    base_offset, timestamp, error = outcome
    if error is not None:
        result["error_code"], result["error_message"] = code_of(error), text_of(error)
    else:
        result["base_offset"], result["log_append_time"] = base_offset, timestamp
