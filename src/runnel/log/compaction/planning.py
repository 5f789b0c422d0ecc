"""What of a partition may be cleaned, and whether it is time to. Pure: facts in, a decision out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runnel.settings import TopicSettings


class SealedSegment(NamedTuple):
    base_offset: int
    next_offset: int
    size: int
    oldest: int  # milliseconds: the time of its first batch
    newest: int  # the largest time in it
    damaged: bool


class Plan(NamedTuple):
    """The first `segments` may be cleaned, up to before `end`; what is before `first_dirty` is clean.

    `oldest` is the time of the oldest record in the dirty part.
    """

    segments: int
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    oldest: int | None

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def is_due(self, settings: TopicSettings, now: int, horizon: int | None) -> bool:
        """`horizon` is when the first tombstone of the clean part may go, if that is known."""
        if self.segments and horizon is not None and horizon <= now:
            return True
        if not self.dirty_bytes:
            return False
        overdue = self.oldest is not None and now - self.oldest > settings.max_compaction_lag_ms
        return overdue or self.dirty_ratio >= settings.min_cleanable_dirty_ratio


def planned(
    sealed: Sequence[SealedSegment], first_dirty: int, stable_offset: int, settings: TopicSettings, now: int
) -> Plan:
    """`sealed` are all segments but the active one; transactions have ended up to before `stable_offset`.

    A damaged segment stops it, too: whether a record behind it is the newest of its key is not known.
    """
    count = 0
    for segment in sealed:
        young = segment.next_offset > first_dirty and segment.newest > now - settings.min_compaction_lag_ms
        if segment.damaged or segment.next_offset > stable_offset or (young and settings.min_compaction_lag_ms):
            break
        count += 1
    cleanable = sealed[:count]
    dirty = [segment for segment in cleanable if segment.next_offset > first_dirty]
    return Plan(
        segments=count,
        first_dirty=first_dirty,
        end=max(first_dirty, cleanable[-1].next_offset) if cleanable else first_dirty,
        clean_bytes=sum(segment.size for segment in cleanable if segment.next_offset <= first_dirty),
        dirty_bytes=sum(segment.size for segment in dirty),
        oldest=min((segment.oldest for segment in dirty), default=None),
    )
