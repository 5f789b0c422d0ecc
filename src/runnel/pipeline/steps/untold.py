"""For a copy of a view: what it has rejected of a table, and the view has not read, is kept until it can be told."""

from __future__ import annotations

import pyarrow as pa

from runnel.pipeline.batch import Batch
from runnel.pipeline.source import aside
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.told import AllTold, keep_untold, read_told, told_of, untold
from runnel.pipeline.tables.topic_table import ranges_read


class KeepUntold:
    """`specs` are those of the query's inputs. To be called when the batch was accounted for, and before its rows are
    kept. Of a table that the view does not read at all, nothing is kept: as with other topics that are new to it.
    """

    def __init__(self, specs: tuple[Spec, ...]) -> None:
        self._tables = [spec for spec in specs if spec.is_static]

    def __call__(self, batch: Batch) -> Batch:
        for root in {spec.path for spec in self._tables}:
            told = read_told(root)
            found = [rows for spec in self._tables for rows in _untold(spec, batch.number, told)]
            rows = pa.concat_tables(found) if found else aside.SCHEMA.empty_table()
            if rows.num_rows:
                keep_untold(root, batch.number, rows)
        return batch


def _untold(spec: Spec, batch: int, told: AllTold) -> list[pa.Table]:
    directory = aside.directory_of(spec.path, batch)
    known = [(read, told_of(read, told)) for read in ranges_read(spec, batch)]
    found = [(aside.read_aside(directory, spec.number, read), each) for read, each in known if each]
    return [untold(one.rows, each) for one, each in found if one is not None]
