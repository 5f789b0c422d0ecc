"""Which of Kafka's error codes tells a client of an error of ours."""

from __future__ import annotations

from runnel.errors import (
    BatchTooLarge,
    Closed,
    CorruptBatch,
    DamagedLog,
    InvalidBatch,
    InvalidSetting,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RunnelError,
    StaleProducerEpoch,
    TopicExists,
    Transient,
    UnknownTopic,
    UnreadableRecords,
)
from runnel.log import Partition
from runnel.protocol.error_codes import ErrorCode

# The first that fits counts, so a class stands before those it belongs to.
CODES: tuple[tuple[type[RunnelError], ErrorCode], ...] = (
    (CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    (InvalidBatch, ErrorCode.INVALID_RECORD),
    (OutOfOrderSequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (StaleProducerEpoch, ErrorCode.INVALID_PRODUCER_EPOCH),
    (OffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (DamagedLog, ErrorCode.CORRUPT_MESSAGE),
    (UnreadableRecords, ErrorCode.CORRUPT_MESSAGE),
    (UnknownTopic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TopicExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (InvalidSetting, ErrorCode.INVALID_CONFIG),
    (Closed, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # deleted a moment ago, or the broker stops: look again
    (Transient, ErrorCode.KAFKA_STORAGE_ERROR),  # the disk is low or ill: clients try again
)


def code_of(error: RunnelError) -> ErrorCode:
    if isinstance(error, BatchTooLarge):
        in_segment = error.setting == "segment.bytes"
        return ErrorCode.RECORD_LIST_TOO_LARGE if in_segment else ErrorCode.MESSAGE_TOO_LARGE
    return next((code for kind, code in CODES if isinstance(error, kind)), ErrorCode.UNKNOWN_SERVER_ERROR)


def epoch_mistake(partition: Partition, epoch: int) -> ErrorCode:
    """What is wrong with the leader epoch that a client believes in; -1 believes nothing."""
    if epoch == -1 or epoch == partition.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
