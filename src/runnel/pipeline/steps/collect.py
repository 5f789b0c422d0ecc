"""Run the body: bring what it makes of the batch to the driver, as Arrow.

Also when the batch took effect before: what the body remembers, its windows and joins, Spark keeps only if it runs.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from runnel.graph.types import quoted
from runnel.pipeline.batch import Batch


def collect(batch: Batch) -> Batch:
    with batch.watch.step("body"):
        return replace(batch, rows=as_arrow(batch.frame))


def as_arrow(frame: DataFrame) -> pa.Table:
    """A struct that is null, though its fields never are, as behind an outer join, would be refused by PySpark: it is
    told that the fields may be null as well.
    """
    wanted = {field.name: _nullable(field.dataType) for field in frame.schema}
    if any(wanted[field.name] != field.dataType for field in frame.schema):
        frame = frame.select(*(F.col(quoted(name)).cast(kind).alias(name) for name, kind in wanted.items()))
    return frame.toArrow()


def _nullable(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([StructField(field.name, _nullable(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
