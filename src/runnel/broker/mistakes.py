"""What a client is told of a mistake: one of Kafka's error codes, and a text where the answer has room for it."""

from __future__ import annotations

from runnel.errors import (
    BatchTooLarge,
    Closed,
    CoordinatorFenced,
    CorruptBatch,
    DamagedLog,
    InvalidBatch,
    InvalidSetting,
    InvalidTimestamp,
    InvalidTransactionState,
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
    (InvalidTimestamp, ErrorCode.INVALID_TIMESTAMP),
    (InvalidBatch, ErrorCode.INVALID_RECORD),
    (OutOfOrderSequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (StaleProducerEpoch, ErrorCode.INVALID_PRODUCER_EPOCH),
    (InvalidTransactionState, ErrorCode.INVALID_TXN_STATE),
    (CoordinatorFenced, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (OffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (DamagedLog, ErrorCode.CORRUPT_MESSAGE),
    (UnreadableRecords, ErrorCode.CORRUPT_MESSAGE),
    (UnknownTopic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TopicExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (InvalidSetting, ErrorCode.INVALID_CONFIG),
    (Closed, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # deleted a moment ago, or the broker stops: look again
    (Transient, ErrorCode.KAFKA_STORAGE_ERROR),  # the disk is low or ill: clients try again
)


# What passes by itself, or belongs to every rebalance: clients wait a moment and try again.
CLIENTS_TRY_AGAIN = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
LONGEST_TEXT = 2_000  # a name that a client sent may be in it, and names have up to 32,767 bytes


class Refusal(Exception):
    """One item of a request is refused; the others are answered on their own."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def text_of(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " ..."


def code_of(error: RunnelError | Refusal) -> ErrorCode:
    if isinstance(error, Refusal):
        return error.code
    if isinstance(error, BatchTooLarge):
        in_segment = error.setting == "segment.bytes"
        return ErrorCode.RECORD_LIST_TOO_LARGE if in_segment else ErrorCode.MESSAGE_TOO_LARGE
    return next((code for kind, code in CODES if isinstance(error, kind)), ErrorCode.UNKNOWN_SERVER_ERROR)


def epoch_mistake(partition: Partition, epoch: int) -> ErrorCode:
    """What is wrong with the leader epoch that a client believes in; -1 believes nothing."""
    if epoch == -1 or epoch == partition.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
