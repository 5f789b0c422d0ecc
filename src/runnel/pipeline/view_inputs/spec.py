"""Everything that must be known to read a view, as one value: it travels to the processes in which Spark reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from runnel.graph.inputs import CHANGE
from runnel.pipeline.errors import ViewRebuilt
from runnel.pipeline.source.own_files import OwnFiles
from runnel.views.layout import parts
from runnel.views.opening import open_store
from runnel.views.store import ViewReader
from runnel.views.waiting import VIEW


@dataclass(frozen=True)
class ViewSpec(OwnFiles):
    """`number` is the place among the query's inputs, `address` the store's. `columns` are those that the view's body
    returns, but for `_change`. `directory` is where the input keeps what is its own, beside the query's checkpoint.
    `held` is the directory of a test that holds the app.
    """

    query: str
    number: int
    view: str
    address: str
    columns: StructType
    directory: str
    changes: bool = False
    held: str = ""
    run: str = ""

    @cached_property
    def schema(self) -> StructType:
        """Of the rows, for Spark. Every column may be null: what is kept is not asked whether it was."""
        plain = self.columns.toNullable()
        return plain.add(CHANGE, StringType()) if self.changes else plain

    @property
    def ddl_for_the_body(self) -> str:
        """To be asked for in the driver: Spark itself writes it."""
        return self.schema.toDDL()

    @cached_property
    def rows(self) -> pa.Schema:
        """The same for Arrow, without `_change`."""
        return to_arrow_schema(self.columns.toNullable(), timezone="UTC")

    @property
    def place(self) -> tuple[str, int]:
        """What its position is kept under, among those of topics."""
        return VIEW + self.view, 0

    @property
    def snapshot_file(self) -> Path:
        """The rows of the view when the source began."""
        return self.path / f"start-{self.number}.arrow"

    def using(self, columns: frozenset[str]) -> ViewSpec:  # noqa: ARG002  # all are read: they are typed already
        return self

    def check(self, kept: pa.Table) -> None:
        """ViewRebuilt, if a column is gone: the view has been rebuilt since this app was started."""
        known = set(kept.column_names)
        for name in (part.name for field in self.rows for part in parts(field)):
            if name not in known:
                raise ViewRebuilt(self.query, self.view, name)

    def open(self) -> ViewReader:
        return open_store(self.address).reader(self.view)
