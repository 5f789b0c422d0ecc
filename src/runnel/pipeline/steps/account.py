"""Count every record that the batch read: in time, late or rejected; and gather those that were put aside.

A task leaves a file when it has read its range to the end. Spark may end a task early, as for a `limit`: the rest of
such a range is read here, so that the count holds whatever the body is.
"""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.errors import OffsetsGone, UnknownTopic
from runnel.client.fetch import Fetcher
from runnel.pipeline.batch import Batch, Counts
from runnel.pipeline.errors import NotInTime, NotLeftOut, RunAgain
from runnel.pipeline.source import aside, left_out
from runnel.pipeline.source.aside import Aside
from runnel.pipeline.source.offsets import Range, ranges
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.changes import rows_of
from runnel.pipeline.tables.told import read_told, told_of, untold
from runnel.pipeline.tables.topic_table import ranges_read

logger = logging.getLogger(__name__)


class Account:
    """`specs` are those of the query's inputs."""

    def __init__(self, specs: tuple[Spec, ...], cluster: Cluster) -> None:
        self._specs = specs
        self._cluster = cluster
        self._begun_anew: tuple[int, int] | None = None  # a batch, and how many rows it was to leave out and did not

    def __call__(self, batch: Batch) -> Batch:
        with batch.watch.step("account"):
            return self._counted(batch)

    def _counted(self, batch: Batch) -> Batch:
        read = self._ranges(batch)
        found = [self._of(batch, spec, each) for spec, each in read]
        rows = pa.concat_tables([each.rows for each in found]) if found else aside.SCHEMA.empty_table()
        counts = Counts(
            sum(each.in_time for each in found),
            sum(each.late for each in found),
            sum(each.rejected for each in found),
            _tell_gone(batch.query, {each.name: one.gone for (_, each), one in zip(read, found, strict=True)}),
        )
        strict = [spec.topic for spec in self._specs if spec.reading.strict]
        wrong = rows.filter(pc.is_in(rows["stream"], pa.array(strict, pa.string()))) if strict else rows.slice(0, 0)
        if wrong.num_rows:
            late = sum(kind == aside.LATE for kind in wrong["kind"].to_pylist())
            raise NotInTime(batch.query, late, wrong.num_rows - late, _shown(wrong))
        for root in {spec.path for spec in self._specs}:
            self._check_left_out(root, batch, read, rows)
            aside.forget_before(root, batch.number)
            left_out.forget_before(root, batch.number)
        return replace(batch, aside=_to_tell(read, found, rows), counts=counts)

    def _ranges(self, batch: Batch) -> list[tuple[Spec, Range]]:
        streams = [
            (spec, read)
            for spec in self._specs
            if spec.number in batch.ends
            for read in ranges(batch.starts[spec.number], batch.ends[spec.number])
        ]
        tables = [spec for spec in self._specs if spec.is_static]
        return streams + [(spec, read) for spec in tables for read in ranges_read(spec, batch.number)]

    def _of(self, batch: Batch, spec: Spec, read: Range) -> Aside:
        directory = aside.directory_of(spec.path, batch.number)
        found = aside.read_aside(directory, spec.number, read)
        if found is None:
            deque(rows_of(spec, self._cluster, read, batch.moment), maxlen=0)
            found = aside.read_aside(directory, spec.number, read)
        assert found is not None
        return found

    def _check_left_out(self, root: Path, batch: Batch, read: Sequence[tuple[Spec, Range]], rows: pa.Table) -> None:
        """What was to be left out is among what was put aside, unless Spark used what it had read before: it begins the
        batch anew then, and reads all of it. A row that is not in the batch any more is none that could be missing.
        """
        wanted = [
            each
            for each in left_out.read_left_out(root, batch.number)
            if any(spec.number == each.input and each.is_in(one) for spec, one in read)
        ]
        if not wanted:
            return
        known = {tuple(each.values()) for each in rows.select(["topic", "partition", "offset"]).to_pylist()}
        missing = [each for each in wanted if each.place not in known and _is_there(self._cluster, each.place)]
        if not missing:
            return
        shutil.rmtree(aside.directory_of(root, batch.number), ignore_errors=True)  # a task that ends early leaves it
        before, self._begun_anew = self._begun_anew, (batch.number, len(missing))
        if before != self._begun_anew:
            raise RunAgain(batch.query, len(wanted))
        first = missing[0]
        place = f"{first.topic}-{first.partition} at offset {first.offset}"
        raise NotLeftOut(batch.query, len(missing), place, str(left_out.path_of(root, batch.number)))


def _to_tell(read: Sequence[tuple[Spec, Range]], found: Sequence[Aside], rows: pa.Table) -> pa.Table:
    """All `rows`, but for those of tables that another copy of the view has told."""
    told = {spec.path: read_told(spec.path) for spec, _ in read if spec.is_static} if rows.num_rows else {}
    if not any(told.values()):
        return rows
    return pa.concat_tables(
        [
            untold(one.rows, told_of(each, told[spec.path])) if spec.is_static else one.rows
            for (spec, each), one in zip(read, found, strict=True)
        ]
    )


def _is_there(cluster: Cluster, place: left_out.Place) -> bool:
    """Whether the log still has the record: retention or compaction may have removed it, or the topic is gone."""
    topic, partition, offset = place
    origin = Origin(topic, partition, offset, offset + 1)
    try:
        for fetched in Fetcher(cluster).read(topic, partition, offset, offset + 1):
            batches = [each for part in fetched.parts for each in each_batch(part)]
            if any(block.num_rows for block in decode(batches, ("offset",), origin)):
                return True
    except (OffsetsGone, UnknownTopic):
        pass
    return False


def _tell_gone(query: str, gone: dict[str, tuple[aside.Gone, ...]]) -> int:
    """How many offsets."""
    for place, ranges_of_it in gone.items():
        for first, end in ranges_of_it:
            logger.warning(
                "%s: offsets %s to %s of %s were deleted before they were read: they are skipped",
                query,
                f"{first:,}",
                f"{end - 1:,}",
                place,
            )
    return sum(end - first for each in gone.values() for first, end in each)


def _shown(rows: pa.Table) -> str:
    first = rows.slice(0, 1).to_pylist()[0]
    place = f"{first['topic']}-{first['partition']} at offset {first['offset']}"
    return f"{place}, {first['kind']}: {first['reason']}" if first["kind"] == aside.REJECTED else f"{place}, late"
