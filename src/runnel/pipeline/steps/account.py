"""Count every record that the batch read: in time, late or rejected; and gather those that were put aside.

A task leaves a file when it has read its range to the end. Spark may end a task early, as for a `limit`: the rest of
such a range is read here, so that the count holds whatever the body is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from runnel.client.cluster import Cluster
from runnel.pipeline.batch import Batch, Counts
from runnel.pipeline.errors import NotInTime
from runnel.pipeline.source import aside
from runnel.pipeline.source.aside import Aside
from runnel.pipeline.source.offsets import Range, ranges
from runnel.pipeline.source.rows import Rows
from runnel.pipeline.source.spec import Spec


class Account:
    """`specs` are those of the query's inputs."""

    def __init__(self, specs: tuple[Spec, ...], cluster: Cluster) -> None:
        self._specs = specs
        self._cluster = cluster

    def __call__(self, batch: Batch) -> Batch:
        found = [self._of(batch, spec, read) for spec, read in self._ranges(batch)]
        rows = pa.concat_tables([each.rows for each in found]) if found else aside.SCHEMA.empty_table()
        counts = Counts(
            sum(each.in_time for each in found), sum(each.late for each in found), sum(each.rejected for each in found)
        )
        strict = [spec.topic for spec in self._specs if spec.reading.strict]
        wrong = rows.filter(pc.is_in(rows["stream"], pa.array(strict, pa.string()))) if strict else rows.slice(0, 0)
        if wrong.num_rows:
            raise NotInTime(batch.query, counts.late, counts.rejected, _shown(wrong))
        for root in {spec.path for spec in self._specs}:
            aside.forget_before(root, batch.number)
        return replace(batch, aside=rows, counts=counts)

    def _ranges(self, batch: Batch) -> list[tuple[Spec, Range]]:
        return [
            (spec, read)
            for spec in self._specs
            if spec.number in batch.ends
            for read in ranges(batch.starts[spec.number], batch.ends[spec.number])
        ]

    def _of(self, batch: Batch, spec: Spec, read: Range) -> Aside:
        directory = aside.directory_of(spec.path, batch.number)
        found = aside.read_aside(directory, spec.number, read)
        if found is None:
            deque(Rows(spec, self._cluster, read, batch.moment), maxlen=0)
            found = aside.read_aside(directory, spec.number, read)
        assert found is not None
        return found


def _shown(rows: pa.Table) -> str:
    first = rows.slice(0, 1).to_pylist()[0]
    place = f"{first['topic']}-{first['partition']} at offset {first['offset']}"
    return f"{place}, {first['kind']}: {first['reason']}" if first["kind"] == aside.REJECTED else f"{place}, late"
