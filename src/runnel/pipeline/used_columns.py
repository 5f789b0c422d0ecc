"""Which columns of its inputs a body uses: the others need not be read from the records.

The body is called on empty frames of the same columns, and Spark's optimizer tells what is left of them. Where that
cannot be told, all are used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runnel.pipeline.plan import Node, elements

logger = logging.getLogger(__name__)

CUTTING = ("Project", "Aggregate")  # below them, only what they name is used
PASSING = ("Filter",)


def used_columns(spark: SparkSession, body: Callable[..., Any], schemas: list[str]) -> list[frozenset[str] | None]:
    """For each input the columns that the body uses; None: all."""
    frames = [_empty(spark, schema) for schema in schemas]
    try:
        plan = Node(body(*frames)._jdf.queryExecution().optimizedPlan())
        readings = list(_readings(plan, ()))
        return [_used(frame, readings) for frame in frames]
    except Exception as error:  # the user's: what is wrong with it will be told where it is run
        logger.debug("what columns are used cannot be told: %s", error)
        return [None] * len(schemas)


def _empty(spark: SparkSession, schema: str) -> DataFrame:
    """No rows, of which the optimizer does not know that there are none. Made by Java alone, which is quicker."""
    context, session = spark.sparkContext._jsc, spark._jsparkSession
    assert context is not None
    columns = session.sessionState().sqlParser().parseTableSchema(schema)
    return DataFrame(session.createDataFrame(context.emptyRDD(), columns), spark)


def _used(frame: DataFrame, readings: list[tuple[Node, list[Node] | None]]) -> frozenset[str] | None:
    """An input may be read twice, and by other ids the second time: a reading that is not known may be one of it.

    By the input's own names: what refers to them may have written them in another case.
    """
    own, names = frame._jdf.queryExecution().analyzed().outputSet(), set(frame.columns)
    used: set[str] = set()
    for leaf, above in readings:
        if leaf.java.outputSet().subsetOf(own):
            if above is None:
                return None
            for node in above:
                used |= names - set(_names(getattr(own, "$minus$minus")(node.java.references())))
        elif set(_names(leaf.java.outputSet())) == names:
            return None
    return frozenset(used)


def _readings(node: Node, above: tuple[Node, ...] | None) -> Iterator[tuple[Node, list[Node] | None]]:
    """Each leaf with the nodes above it that say what is used of it; None: all is. A subquery is a plan of its own."""
    if not node.below:
        cut = above is not None and any(each.kind in CUTTING for each in above)
        yield node, list(above or ()) if cut else None
    for child in node.below:
        if node.kind in CUTTING:
            yield from _readings(child, (node,))
        elif node.kind in PASSING and above is not None:
            yield from _readings(child, (*above, node))
        else:
            yield from _readings(child, None)
    for subquery in node.subqueries:
        yield from _readings(subquery, ())


def _names(attributes: Any) -> Iterator[str]:
    return (str(attribute.name()) for attribute in elements(attributes.toSeq()))
