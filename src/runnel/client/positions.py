"""Where the records of partitions begin and end, and which offset belongs to a time: of many partitions in one go.

Ends are those of readers of committed records: a partition's last stable offset, before which every transaction has
ended.

    ends = latest(cluster, cluster.topic("orders").places)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runnel.client.cluster import Cluster
from runnel.client.errors import NotServed, OffsetsGone
from runnel.client.metadata import Place, Topic
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL = -1, -2, -3, -4
KNOWS_LOCAL_SINCE = 8  # versions of ListOffsets: brokers before it have no remote tier
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_OFFSET = -1
ITS_OWN_TIME_OUT = 30_000  # a broker's, in milliseconds, for what is in a remote tier
DOING = "finding offsets"


class Found(NamedTuple):
    """An offset, and the time of its record where that was asked for."""

    offset: int
    timestamp: int


def earliest(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """The first offset of each that is still there."""
    return _offsets(listed(cluster, dict.fromkeys(places, EARLIEST)))


def earliest_local(cluster: Cluster, place: Place) -> int:
    """The first offset that its leader has on its own disk; what is before it is in a remote tier."""
    try:
        return listed(cluster, {place: EARLIEST_LOCAL}, least=KNOWS_LOCAL_SINCE)[place].offset
    except NotServed:
        return 0


def latest(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """Where readers of committed records stop in each: the offset that is next."""
    return _offsets(listed(cluster, dict.fromkeys(places, LATEST)))


def written(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """Where each ends with all that was written, also by transactions that are open."""
    return _offsets(listed(cluster, dict.fromkeys(places, LATEST), isolation=READ_UNCOMMITTED))


def at_times(cluster: Cluster, times: Mapping[Place, int]) -> dict[Place, int]:
    """The first offset whose record is not older, in milliseconds since 1970; the end where there is none."""
    found = listed(cluster, times)
    missing = {place: times[place] for place, each in found.items() if each.offset == NO_OFFSET}
    ends = latest(cluster, missing)
    found |= listed(cluster, missing)  # once more: what has come meanwhile lies before these ends
    return _offsets(found) | {place: ends[place] for place in missing if found[place].offset == NO_OFFSET}


def newest(cluster: Cluster, places: Iterable[Place]) -> dict[Place, Found | None]:
    """The record with the largest timestamp of each; None if it is empty."""
    found = listed(cluster, dict.fromkeys(places, NEWEST))
    return {place: None if each.offset == NO_OFFSET else each for place, each in found.items()}


def checked(cluster: Cluster, wanted: Mapping[Place, int]) -> None:
    """Raise OffsetsGone if one of the offsets is before a partition's start or behind its end."""
    starts, ends = earliest(cluster, wanted), latest(cluster, wanted)
    for place, offset in wanted.items():
        if not starts[place] <= offset <= ends[place]:
            raise OffsetsGone(*place, offset, starts[place], ends[place])


def matching(cluster: Cluster, pattern: str) -> dict[str, Topic]:
    """The topics whose whole name fits a regular expression, as they are now; none that Kafka keeps for itself."""
    fits = re.compile(pattern).fullmatch
    return {name: topic for name, topic in cluster.all_topics().items() if fits(name)}


def listed(
    cluster: Cluster, times: Mapping[Place, int], *, isolation: int = READ_COMMITTED, least: int = 0
) -> dict[Place, Found]:
    """What ListOffsets tells of each; a time may be EARLIEST, LATEST or NEWEST, or one that a version is needed for."""
    found: dict[Place, Found] = {}

    def attempt() -> dict[Place, Found]:
        for node, places in cluster.by_leader(place for place in times if place not in found).items():
            request = _request(cluster, {place: times[place] for place in places}, isolation)
            _take(cluster, cluster.ask(node, Api.LIST_OFFSETS, request, DOING, least=least), found)
        return found

    return cluster.settled(attempt) if times else found


def _take(cluster: Cluster, answer: Message, found: dict[Place, Found]) -> None:
    """Put what a node tells into `found`; the error of one partition does not waste the others."""
    failed: list[tuple[int, str]] = []
    for topic in answer["topics"]:
        for told in topic["partitions"]:
            if told["error_code"] == ErrorCode.NONE:
                found[topic["name"], told["partition_index"]] = Found(told["offset"], told["timestamp"])
            else:
                failed.append((told["error_code"], topic["name"]))
    for code, name in failed:
        cluster.check(code, None, DOING, topic=name)


def _request(cluster: Cluster, times: Mapping[Place, int], isolation: int) -> Message:
    topics: dict[str, list[Message]] = {}
    for place, timestamp in times.items():
        epoch = cluster.leader(place).epoch
        asked = {"partition_index": place[1], "current_leader_epoch": epoch, "timestamp": timestamp}
        topics.setdefault(place[0], []).append(asked)
    return {
        "replica_id": -1,
        "isolation_level": isolation,
        "timeout": ITS_OWN_TIME_OUT,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }


def _offsets(found: Mapping[Place, Found]) -> dict[Place, int]:
    return {place: each.offset for place, each in found.items()}
