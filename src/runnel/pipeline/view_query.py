"""A view: what the body returns is kept by key. Open windows are shown and corrected, where Spark tells them early."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from runnel.graph.inputs import CHANGE
from runnel.graph.view import View
from runnel.pipeline.batch import Batch, Step
from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.open_windows import OpenWindows
from runnel.pipeline.place import Place
from runnel.pipeline.query import Known, Query
from runnel.pipeline.steps.account import Account
from runnel.pipeline.steps.collect import collect
from runnel.pipeline.steps.keep import Keep, PassOver
from runnel.pipeline.steps.publish import PublishAside
from runnel.views.store import Declared, ViewWriter

UPDATE, APPEND = "update", "append"
NEVER_CLOSES = (
    "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"  # as Spark calls an aggregate without a window in append mode
)
CLOSED_ONLY = "only in Append output mode"  # what it says of an outer join
AS_TEXT = {  # what nobody but Spark can read, and how to make something of it that others can
    VariantType: "make it text with F.to_json(column), or take its parts with F.variant_get",
    YearMonthIntervalType: 'cast it to what it counts, such as .cast("int") for months, or to a string',
    CalendarIntervalType: "cast it to a string",
}


class ViewQuery(Query):
    def __init__(self, spark: SparkSession, place: Place, view: View, known: Known) -> None:
        super().__init__(spark, place, view, known)
        self._view = view
        self._writer: ViewWriter | None = None
        for field in self.frame.schema:
            check_readable(str(view), field.name, field.dataType)
        self._windows = OpenWindows.of(to_arrow_schema(self.frame.schema, timezone="UTC"))
        for column in view.key:
            if column not in self.frame.columns:
                hint = f"it returns {', '.join(self.frame.columns)}"
                raise InvalidBody(str(view), f"key names {column}, which the body does not return", hint=hint)

    @property
    def columns(self) -> StructType:
        """Of its rows, for those that read it."""
        return StructType([field for field in self.frame.schema if field.name != CHANGE])

    @cached_property
    def output_mode(self) -> str:
        """Spark refuses early results of session windows and outer joins: there a view shows what is closed."""
        return UPDATE if self._against_early_results is None else APPEND

    def frame_to_run(self) -> DataFrame:
        return self.frame

    def as_run(self, made: DataFrame) -> DataFrame:
        return made

    def is_told(self, number: int) -> bool:
        marker = self._writer.marker() if self._writer is not None else None
        return super().is_told(number) or (marker is not None and marker.batch >= number)

    def check_fit(self) -> None:
        """Also whether Spark can keep it, and whether the table in the store can follow: who is refused has changed
        nothing, and can declare it as it was.
        """
        super().check_fit()
        if self._against_early_results is not None:
            self._check_closed_results(self._against_early_results)
        self.place.store().check(self.kept_as, self.name)

    @property
    def kept_as(self) -> Declared:
        kept = [field for field in to_arrow_schema(self.frame.schema, timezone="UTC") if field.name != CHANGE]
        return Declared(self.name, self._view.key, pa.schema(kept))

    def steps(self) -> tuple[Step, ...]:
        writer = self.place.store().writer(self.kept_as, self.name)
        writer.claim()
        self._writer = writer
        publisher = self.publisher()
        return (
            collect,
            PassOver(writer),
            Account(self.specs, self.cluster),
            PublishAside(publisher),
            Keep(writer),
        )

    def have_seen(self, batch: Batch) -> None:
        super().have_seen(batch)
        if self._windows is not None and batch.rows is not None:
            self._windows.see(batch.rows, batch.moment.watermark)

    @property
    def open_windows(self) -> int | None:
        return None if self._windows is None else self._windows.count

    def reopen(self) -> None:
        super().reopen()
        if self._writer is not None:
            self._writer.close()  # the claim stays
            self._writer.marker()  # Fenced, if another one has claimed the view meanwhile

    def close(self) -> None:
        super().close()
        if self._writer is not None:
            self._writer.close()

    @cached_property
    def _against_early_results(self) -> AnalysisException | None:
        try:
            self._check(UPDATE)
        except AnalysisException as error:
            return error
        return None

    def _check_closed_results(self, against_early_ones: AnalysisException) -> None:
        """A view may aggregate without a window. Where Spark refuses that, the reason is what forbids early results,
        such as an order; unless it is an outer join.
        """
        try:
            self._check(APPEND)
        except AnalysisException as error:
            is_the_reason = error.getCondition() != NEVER_CLOSES or CLOSED_ONLY in str(against_early_ones)
            raise (error if is_the_reason else against_early_ones) from None

    def _check(self, mode: str) -> None:
        """AnalysisException, if Spark cannot keep it in this mode."""
        jvm = self._spark.sparkContext._jvm
        assert jvm is not None
        plan = self.frame._jdf.queryExecution().analyzed()
        modes = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, modes())


def check_readable(view: str, path: str, kind: DataType) -> None:
    """InvalidBody for a type of which other tools could make nothing in a store."""
    match kind:
        case StructType():
            for field in kind:
                check_readable(view, f"{path}.{field.name}", field.dataType)
        case ArrayType():
            check_readable(view, f"{path}[]", kind.elementType)
        case MapType():
            check_readable(view, f"{path}[]", kind.valueType)
        case _ if type(kind) in AS_TEXT:
            what = f"column {path} is of type {kind.simpleString()}, which only Spark can read"
            raise InvalidBody(view, what, hint=AS_TEXT[type(kind)])
