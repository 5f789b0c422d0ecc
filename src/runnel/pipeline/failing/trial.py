"""The body, tried on parts of a batch: the same function, on frames that end. What it makes is thrown away.

Everything is one task, so the plan is made once and run as often as it takes, in hundredths of a second. Where Spark
must move rows between tasks all the same, as the body says `repartition`, it is planned for each trial.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from runnel.pipeline.failing.halving import Part
from runnel.pipeline.failing.noted_calls import Note, Notes
from runnel.pipeline.failing.trial_rows import PART, READING, told

# Of the session that Spark has made for this query alone.
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    # An aggregate takes rows in by one node of the plan, and gives its results by another.
    "spark.sql.execution.combineAdjacentAggregation": "false",
    "spark.sql.execution.bypassPartialAggregation": "false",
}
EVALUATING = ("BatchEvalPythonExec", "ArrowEvalPythonExec")
# Nodes of a plan that give no more rows than they take, in their order.
ONE_BY_ONE = {
    *EVALUATING,
    "WholeStageCodegenExec",
    "InputAdapter",
    "ProjectExec",
    "FilterExec",
    "SortExec",
    "MapInArrowExec",
    "RangeExec",
}
READS = "MapInArrowExec"
# Nodes in which what becomes of a row does not depend on others of its stream.
EACH_ITS_OWN_WAY = (ONE_BY_ONE - {READS}) | {
    "GenerateExec",
    "ExpandExec",
    "UnionExec",
    "CoalesceExec",
    "ShuffleExchangeExec",
}
JOINS = {
    "SortMergeJoinExec",
    "ShuffledHashJoinExec",
    "BroadcastHashJoinExec",
    "BroadcastNestedLoopJoinExec",
    "CartesianProductExec",
}
AGGREGATES = {"HashAggregateExec", "SortAggregateExec", "ObjectHashAggregateExec"}
PARTIAL = "Partial"

_patching = threading.Lock()


class Trial:
    """`said` makes words of an error that the body is to blame for, and raises any other."""

    def __init__(self, spark: SparkSession, frame: DataFrame, notes: Notes, said: Callable[[Exception], str]) -> None:
        self._spark = spark
        self._frame = frame
        self._notes = notes
        self._said = said
        self._rows = _rows_of_one_plan(frame)
        self._rows_by_row = None if self._rows is None else _rows_by_row(frame)
        self.count = 0

    @property
    def calls_are_rows(self) -> bool:
        """Whether functions that are called row by row get the rows as they are read."""
        plan = self._frame._jdf.queryExecution().executedPlan()
        functions = [node for node in _nodes(plan) if _kind(node) in EVALUATING]
        return bool(functions) and all(_kind(below) in ONE_BY_ONE for node in functions for below in _nodes(node))

    def fails(self, part: Part, *, by_row: bool = False) -> str | None:
        """What was said, if it does. `by_row`: only so far as each row goes its own way, before any is aggregated, or
        joined with rows of a stream: whoever fails there fails with whatever others.
        """
        notes, said = self.notes(part, by_row=by_row)
        return said or (notes[0].said if notes else None)

    def notes(self, part: Part, *, by_row: bool = False) -> tuple[list[Note], str | None]:
        """What functions noted, and what else was said."""
        self.count += 1
        context = self._spark.sparkContext
        context.setLocalProperty(PART, told(part))
        said = None
        try:
            self._run_by_row() if by_row else self._run()
        except Exception as error:
            said = self._said(error)
        finally:
            context.setLocalProperty(PART, None)  # type: ignore[arg-type]
            notes = self._notes.taken()
        return notes, said

    def _run(self) -> None:
        if self._rows is None:
            self._frame.write.format("noop").mode("append").save()
        else:
            self._rows.count()

    def _run_by_row(self) -> None:
        known = self._rows_by_row
        for rows in _rows_by_row(self._frame.select("*")) if known is None else known:  # planned anew
            rows.count()


@contextmanager
def settings_for_trials(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


@contextmanager
def duplicates_of_frames_that_end() -> Iterator[None]:
    """Inside of the block, `dropDuplicatesWithinWatermark` is there for frames that end, too. On one batch it is what
    `dropDuplicates` is; those that are streams are not touched.
    """
    with _patching:
        original = ClassicDataFrame.dropDuplicatesWithinWatermark

        def drop(frame: ClassicDataFrame, subset: list[str] | None = None) -> Any:
            return original(frame, subset) if frame.isStreaming else frame.dropDuplicates(subset)

        ClassicDataFrame.dropDuplicatesWithinWatermark = drop  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            ClassicDataFrame.dropDuplicatesWithinWatermark = original  # type: ignore[method-assign]


def _rows_of_one_plan(frame: DataFrame) -> Any | None:
    """Spark's own rows, that it computes anew each time it is asked; None if it would keep a part of them."""
    execution = frame._jdf.queryExecution()
    if _is_kept(execution.executedPlan()):
        return None
    return execution.toRdd().toJavaRDD()


def _is_kept(plan: Any) -> bool:
    """Whether rows of a trial are exchanged, which Spark does once for all."""
    return any(_kind(node).endswith("ExchangeExec") and READING in str(node.toString()) for node in _nodes(plan))


def _rows_by_row(frame: DataFrame) -> list[Any]:
    plan = frame._jdf.queryExecution().executedPlan()
    return [node.execute().toJavaRDD() for node in _by_row(plan)]


def _by_row(plan: Any) -> list[Any]:
    """The largest parts of a plan in which each row goes its own way. An aggregate belongs to them so far as it takes
    rows in.
    """
    if not _reads(plan):
        return []
    if _is_by_row(plan) or (_takes_rows_in(plan) and all(_is_by_row(child) for child in _children(plan))):
        return [plan]
    return [found for child in _children(plan) for found in _by_row(child)]


def _is_by_row(plan: Any) -> bool:
    kind = _kind(plan)
    if kind == READS:
        return READING in str(plan.simpleString(1))  # the body may have some of its own
    reading = [child for child in _children(plan) if _reads(child)]
    if kind not in EACH_ITS_OWN_WAY and not (kind in JOINS and len(reading) == 1):
        return False
    return all(_is_by_row(child) for child in reading)


def _takes_rows_in(plan: Any) -> bool:
    if _kind(plan) not in AGGREGATES:
        return False
    functions = plan.aggregateExpressions()
    return all(str(functions.apply(number).mode().toString()) == PARTIAL for number in range(functions.size()))


def _reads(plan: Any) -> bool:
    """Whether there are rows of a trial in it."""
    return READING in str(plan.toString())


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _children(plan):
        yield from _nodes(child)


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(number) for number in range(children.size())]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
