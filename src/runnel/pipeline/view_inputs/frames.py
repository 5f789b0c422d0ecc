"""A view as an input of a query, on the driver's side: the frame that the body is given."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from runnel.pipeline.source.own_files import OPTION
from runnel.pipeline.tables.static import static_frame
from runnel.pipeline.tables.table_input import MANY
from runnel.pipeline.view_inputs.rows import ViewRows
from runnel.pipeline.view_inputs.source import FORMAT, ViewSource
from runnel.pipeline.view_inputs.spec import ViewSpec
from runnel.views.errors import UnknownView


def frame_of(spark: SparkSession, spec: ViewSpec) -> DataFrame:
    if spec.changes:
        spark.dataSource.register(ViewSource)
        return spark.readStream.format(FORMAT).option(OPTION, spec.to_text()).load()
    frame = static_frame(spark, ViewRows(spec), tasks=1)
    # Spark takes the rows that functions make for few, and would send a view of any size to every task.
    return frame.hint("shuffle_hash") if _rows(spec) > MANY else frame


def _rows(spec: ViewSpec) -> int:
    """How many the view has by now; none before it was kept for the first time."""
    try:
        with spec.open() as reader:
            return reader.count()
    except UnknownView:
        return 0
