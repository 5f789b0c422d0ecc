"""What passes by itself: errors after which the same question, asked again, may get another answer.

A cluster that moves a leader, starts, or ends a transaction says so by an error code. `Again` carries the error that is
told when it does not pass in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from confluent_kafka import KafkaError

from runnel.client.errors import Busy, TimedOut, Unreachable, told
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

Answer = TypeVar("Answer")

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 1.0

# Whoever was asked does not lead the partition, or does not know of it yet: look for the leader again.
MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.REBOOTSTRAP_REQUIRED,
    }
)
# The one who was asked is right, and asks for patience.
PASSING = MOVED | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}


class Again(Exception):
    """Try again; after `patience` seconds, or when the time is over, tell the error."""

    def __init__(self, error: RunnelError, patience: float | None = None) -> None:
        super().__init__(error.what)
        self.error = error
        self.patience = patience


def settled(
    attempt: Callable[[], Answer],
    timeout: float,
    lost: Callable[[], None],
    is_hurried: Callable[[], bool] = lambda: False,
) -> Answer:
    """What the attempt gives, which is made again while that can help, and there is time.

    `lost` is called when a broker could not be reached or did not answer. Whoever is hurried does not wait for that.
    """
    start = time.monotonic()
    for pause in pauses():
        try:
            return attempt()
        except Again as again:
            error, patience = again.error, timeout if again.patience is None else min(timeout, again.patience)
        except (Unreachable, TimedOut) as unanswered:
            lost()
            error, patience = unanswered, 0.0 if is_hurried() else timeout
        left = start + patience - time.monotonic()
        if left <= 0:
            raise error
        time.sleep(min(pause, left))
    raise AssertionError("pauses never end")


def pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def error_of(code: int, message: str | None, bootstrap: str, doing: str, *, topic: str = "") -> RunnelError | Again:
    """An error code of an answer, as what is to be raised."""
    reason = message or words(code)
    if code in PASSING:
        return Again(Busy(doing, reason))
    return told(KafkaError(code, reason), bootstrap, doing, topic=topic)


def words(code: int) -> str:
    try:
        return ErrorCode(code).name.lower().replace("_", " ")
    except ValueError:
        return f"error {code}"
