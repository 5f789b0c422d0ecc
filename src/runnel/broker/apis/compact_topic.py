"""CompactTopic (10001), version 0: an API of our own, see `runnel.protocol.own`. Compact a partition at once.

- It is answered when the work is done, however long it takes, with what came of it. A `dry_run` does nothing and tells
  how clean the partition is.
- `clean_offset`: before it no key has two records. `clean_time`: all that was written before it is clean, in
  milliseconds; -1 if everything is. The counts are those of all records that were looked at.
- What is in an open transaction, and what follows it, is left for later; so is what is younger than
  `min.compaction.lag.ms`. What some producer was told is committed is not: the work begins behind the markers that are
  on their way.
- Four can be asked for at a time, and are done one after the other: another one is THROTTLING_QUOTA_EXCEEDED.

Errors: UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION (the topic's cleanup policy does not compact, so it would lose
records), KAFKA_STORAGE_ERROR (it failed, or the broker is stopping: nothing is lost, and it can be asked for again).
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import TopicPartition
from runnel.errors import RunnelError
from runnel.log import Partition
from runnel.log.compaction.compactor import Compaction
from runnel.protocol.error_codes import ErrorCode

MOST_AT_ONCE = 4  # each has a thread, which mostly waits
SECONDS_BETWEEN_LOOKS = 0.2

_turns = threading.BoundedSemaphore(MOST_AT_ONCE)


async def handle(node: Node, request: Request) -> Body:
    body = request.body
    if node.transactions.are_ending:
        await node.transactions.readable({TopicPartition(body["name"], body["partition_index"])})
    try:
        partition = await node.in_thread(_partition, node, body["name"], body["partition_index"])
        done = None if body["dry_run"] else await _compacted(node, partition)
        return await node.in_thread(_answer, partition, done)
    except (Refusal, RunnelError) as error:
        return _refused(code_of(error), text_of(error))
    except OSError as error:
        return _refused(ErrorCode.KAFKA_STORAGE_ERROR, text_of(error))


def _partition(node: Node, name: str, number: int) -> Partition:
    topic = node.topics.find(name)
    if topic is None or not 0 <= number < topic.count:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}")
    partition = topic.partition(number)
    if not partition.settings.compacts:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"the cleanup policy of topic {name} does not compact")
    return partition


async def _compacted(node: Node, partition: Partition) -> Compaction:
    """In a thread of its own: it can take hours, and a stop of the broker must not wait for it."""
    if not _turns.acquire(blocking=False):
        raise Refusal(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{MOST_AT_ONCE} compactions are asked for already; try again later"
        )
    work: Future[Compaction] = Future()
    threading.Thread(target=_compact, args=[partition, work], name="runnel-compact-topic", daemon=True).start()
    answer = asyncio.wrap_future(work, loop=node.loop)
    try:
        while not answer.done():
            await asyncio.wait((answer,), timeout=SECONDS_BETWEEN_LOOKS)
            if node.stopping:
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the broker is stopping; ask again when it is back")
        return answer.result()
    finally:
        answer.cancel()  # if it is not there yet: the work goes on, and its end is told to nobody


def _compact(partition: Partition, work: Future[Compaction]) -> None:
    work.set_running_or_notify_cancel()
    try:
        work.set_result(partition.compact())
    except BaseException as error:
        work.set_exception(error)
    finally:
        _turns.release()


def _answer(partition: Partition, done: Compaction | None) -> Body:
    since = partition.dirty_since
    answer = {
        "throttle_time": 0,
        "error_code": ErrorCode.NONE,
        "clean_offset": partition.cleaned_up_to,
        "clean_time": -1 if since is None else since,
        "end_offset": partition.end_offset,
    }
    if done is None:
        return answer
    return answer | {
        "records_before": done.records_before,
        "records_after": done.records_after,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }


def _refused(code: ErrorCode, message: str) -> Body:
    return {"throttle_time": 0, "error_code": code, "error_message": message}
