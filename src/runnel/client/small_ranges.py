"""Several small ranges by one request to each leader: one for each range would take longer than the records in it.

What comes whole is told, and nothing is asked twice. A range that is missing, because its leader has moved, its records
were deleted or are larger than most, or for whatever other reason, is for `Fetcher`: that waits and follows, and says
what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from runnel.client.again import Again
from runnel.client.cluster import Cluster
from runnel.client.fetch import FETCH_BYTES, FetchedBatches, bytes_for, fetch_request, partition_asked, seen_in
from runnel.client.metadata import Leader, Node, Place
from runnel.errors import CorruptBatch, RunnelError
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api


class SmallRange(NamedTuple):
    """Offsets from `start` to before `end` of a partition; the topic's id where it is known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID | None = None

    @property
    def place(self) -> Place:
        return self.topic, self.partition


class _Asked(NamedTuple):
    range: SmallRange
    leader: Leader
    topic_id: UUID | None  # the one that it has now


def read_small(cluster: Cluster, ranges: Iterable[SmallRange]) -> dict[Place, FetchedBatches]:
    """Those that came whole, by their partitions. All of them must be committed, and each in another partition."""
    led: dict[Node, list[_Asked]] = {}
    for each in sorted(ranges):
        try:
            leader, topic_id = cluster.leader(each.place), cluster.topic(each.topic).id
        except (Again, RunnelError):
            continue
        if each.topic_id in (None, topic_id):
            led.setdefault(leader.node, []).append(_Asked(each, leader, topic_id))
    found: dict[Place, FetchedBatches] = {}
    for node, asked in led.items():
        try:
            answer = cluster.ask(node, Api.FETCH, _request(asked), "reading small ranges")
            found |= _whole(answer, asked)
        except (Again, RunnelError):
            continue
    return found


def _request(asked: Iterable[_Asked]) -> Message:
    topics = [
        {"topic": topic, "topic_id": topic_id, "partitions": [_partition(each) for each in group]}
        for (topic, topic_id), group in groupby(asked, lambda each: (each.range.topic, each.topic_id))
    ]
    return fetch_request(topics, max_bytes=FETCH_BYTES, max_wait=0)


def _partition(asked: _Asked) -> Message:
    _, number, start, end, _ = asked.range
    return partition_asked(number, asked.leader.epoch, start, bytes_for(end - start))


def _whole(answer: Message, asked: Collection[_Asked]) -> dict[Place, FetchedBatches]:
    by_place = {each.range.place: each.range for each in asked}
    names = {each.topic_id: each.range.topic for each in asked}
    found: dict[Place, FetchedBatches] = {}
    for topic in answer["responses"]:
        name = topic["topic"] or names.get(topic["topic_id"], "")
        for told in topic["partitions"]:
            wanted = by_place.get((name, told["partition_index"]))
            if wanted is not None and (fetched := _fetched(told, wanted)) is not None:
                found[wanted.place] = fetched
    return found


def _fetched(told: Message, wanted: SmallRange) -> FetchedBatches | None:
    """None where not all of it came."""
    if told["error_code"] != ErrorCode.NONE:
        return None
    try:
        seen = seen_in(told, wanted.start, wanted.end)
    except CorruptBatch:
        return None
    return FetchedBatches(seen.parts, wanted.start, wanted.end) if seen.next_offset >= wanted.end else None
