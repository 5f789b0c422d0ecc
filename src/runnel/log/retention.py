"""Which segments are too old or too many. Pure: facts in, a decision out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runnel.settings import TopicSettings


class SegmentFacts(NamedTuple):
    size: int
    newest: int  # milliseconds: the largest timestamp in it, or when it was last written if it has none


def expired(segments: Sequence[SegmentFacts], settings: TopicSettings, now: int) -> int:
    """How many segments, from the oldest on, are to be deleted; none of a topic that is compacted only."""
    if not settings.deletes:
        return 0
    return max(_too_old(segments, settings.retention_ms, now), _too_many(segments, settings.retention_bytes))


def _too_old(segments: Sequence[SegmentFacts], retention_ms: int, now: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    while count < len(segments) and now - segments[count].newest > retention_ms:
        count += 1
    return count


def _too_many(segments: Sequence[SegmentFacts], retention_bytes: int) -> int:
    """As Kafka does, a segment goes only if what is left is still at least `retention_bytes`."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    while count < len(segments) and excess >= segments[count].size > 0:
        excess -= segments[count].size
        count += 1
    return count
