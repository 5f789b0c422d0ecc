"""The rows of several small ranges, read at once: one request, one look at the values and one file for all of them.

A small batch would spend most of its task on doing each of these for every partition. It is for records of which
nothing is put aside. Where anything is, or anything else stands out, each range is read by itself, as larger ones are:
so there is one way to tell what becomes of such records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import numpy as np
import pyarrow as pa

from runnel.client.batches import each_batch, extent
from runnel.client.cluster import Cluster
from runnel.client.columns import DamagedRecords, Origin, decode
from runnel.client.fetch import FetchedBatches
from runnel.client.metadata import Place
from runnel.client.small_ranges import SmallRange, read_small
from runnel.pipeline.source import aside
from runnel.pipeline.source.left_out import read_left_out
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.rows import Rows
from runnel.pipeline.source.spec import Spec


class SmallRanges(Rows):
    """Each of another partition."""

    def __init__(self, spec: Spec, cluster: Cluster, ranges: Sequence[Range], moment: Moment | None) -> None:
        super().__init__(spec, cluster, ranges[0], moment)
        self._ranges = ranges
        self._counts: list[int] = []  # of the rows of each range

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        fetched = read_small(self._cluster, map(_asked, self._ranges))
        rows = self._at_once(fetched)
        if rows is None:
            for read in self._ranges:
                given = fetched.get((read.topic, read.partition))
                yield from Rows(self._spec, self._cluster, read, self._moment, given)
            return
        if rows.num_rows:
            yield rows
        if self._moment is not None:
            directory = aside.directory_of(self._spec.path, self._moment.batch)
            aside.write_counts(directory, self._spec.number, dict(zip(self._ranges, self._counts, strict=True)))

    def _at_once(self, fetched: dict[Place, FetchedBatches]) -> pa.RecordBatch | None:
        """None where they must be read one by one."""
        if self._left_out or len(fetched) < len(self._ranges):
            return None
        batches: list[memoryview] = []
        for read in self._ranges:
            own = [each for part in fetched[read.topic, read.partition].parts for each in each_batch(part)]
            extents = [extent(each) for each in own]
            if any(each.first < read.start or each.last >= read.end for each in extents):
                return None
            self._counts.append(sum(each.records for each in extents))
            batches += own
        try:
            blocks = list(decode(batches, self._decoded, Origin(self._range.topic, self._range.partition)))
        except DamagedRecords:
            return None
        if len(blocks) != 1 or blocks[0].num_rows != sum(self._counts):
            return None
        parsed = self._parser.parse(blocks[0].column("value"))
        if parsed.rows.num_rows != blocks[0].num_rows:
            return None
        rows, refused = self._judged(blocks[0], parsed)
        return None if refused else rows

    def _to_be_left_out(self) -> dict[int, str]:
        """Of any range."""
        if self._moment is None:
            return {}
        known = read_left_out(self._spec.path, self._moment.batch)
        return {each.offset: each.reason for each in known if each.input == self._spec.number}

    def _topics(self, count: int) -> pa.Array:  # noqa: ARG002
        return pa.array(np.repeat([read.topic for read in self._ranges], self._counts), pa.string())

    def _partitions(self, count: int) -> pa.Array:  # noqa: ARG002
        return pa.array(np.repeat([read.partition for read in self._ranges], self._counts), pa.int32())


def _asked(read: Range) -> SmallRange:
    topic_id = UUID(read.topic_id) if read.topic_id else None
    return SmallRange(read.topic, read.partition, read.start, read.end, topic_id)
