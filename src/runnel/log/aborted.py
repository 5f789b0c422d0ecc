"""Which aborted transactions concern a reader: the search through the segments' `.txnindex` files.

The index of a segment is looked into when it is first asked for, and checked against what the snapshot at the
segment's end says of it. One that is missing or wrong is made anew from the markers in the segment; where their
transactions began is known to the newest snapshot before the segment, or else to the log from its start on.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from runnel.files import Files
from runnel.log.producers import Producers
from runnel.log.segment import Replaced, Segment
from runnel.log.segments import Segments
from runnel.log.snapshots import newest_snapshot, read_snapshot, write_snapshot
from runnel.log.txn_index import Aborted, Entry

logger = logging.getLogger(__name__)

_looking = threading.Lock()


class AbortedTransactions:
    __slots__ = ("_directory", "_files", "_segments")

    def __init__(self, files: Files, directory: str, segments: Segments) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments

    def between(self, first_offset: int, end_offset: int) -> list[Aborted]:
        """Those with a marker at `first_offset` or after it that began before `end_offset`, by their beginning."""
        found: list[Aborted] = []
        for segment, limit in self._segments.with_limits_from(first_offset):
            try:
                more, is_all = self._search(segment, limit, first_offset, end_offset)
            except (FileNotFoundError, Replaced):
                self._segments.refuse_if_gone()
                if segment.retired:  # compaction has put another one in its place
                    time.sleep(0.001)
                    return self.between(first_offset, end_offset)
                if segment.base_offset in self._segments.base_offsets:
                    raise
                continue  # retention removed it meanwhile
            found += more
            if is_all:
                break
        self._segments.refuse_if_gone()
        return sorted(found, key=lambda aborted: aborted.first_offset)

    def _search(
        self, segment: Segment, limit: int | None, first_offset: int, end_offset: int
    ) -> tuple[list[Aborted], bool]:
        if limit is not None and not segment.aborted.known:
            with _looking:
                if not segment.aborted.known:
                    self._look_into(segment, limit)
        return segment.aborted.search(first_offset, end_offset)

    def _look_into(self, segment: Segment, limit: int) -> None:
        index = segment.aborted
        snapshot = read_snapshot(self._files, self._directory, limit)
        index.stable_end = snapshot.stable_before(limit) if snapshot is not None else 0
        believed = index.believable(snapshot.indexed if snapshot is not None else None, limit)
        if believed is not None:
            index.begin(believed)
            return
        logger.warning("%s is missing or does not fit the segment, and is made anew", index.path)
        index.begin(entries=entries_of(self._files, self._directory, self._segments, segment))
        if segment.retired:
            raise Replaced(segment.path)
        with contextlib.suppress(OSError):  # it is good enough in memory
            index.save()
            if snapshot is not None:
                write_snapshot(self._files, self._directory, limit, snapshot, index.content)


def entries_of(files: Files, directory: str, segments: Segments, segment: Segment) -> list[Entry]:
    """What the index of a segment is to hold, by the markers in it."""
    offset, producers = state_before(files, directory, segments, segment.base_offset)
    for other in segments.from_offset(offset):
        entries = list(replayed(other, offset, producers, now=0))
        if other is segment:
            return entries
    raise FileNotFoundError(segment.path)  # retention removed it meanwhile


def state_before(files: Files, directory: str, segments: Segments, offset: int) -> tuple[int, Producers]:
    """The newest state of producers that was saved before `offset`, or none, and from where to replay."""
    return newest_snapshot(files, directory, offset) or (segments.base_offsets[0], Producers())


def replayed(segment: Segment, offset: int, producers: Producers, now: int) -> Iterator[Entry]:
    """Replay the batches of a segment from `offset` on; the answer is which transactions were aborted there."""
    for header, marker in segment.marked_headers_from(offset):
        ended = producers.ended_by(header, marker) if marker is not None else None
        producers.replay(header, now, marker)
        if ended is not None and not ended.committed:
            yield Entry(*ended[:4])
