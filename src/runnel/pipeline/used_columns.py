"""Which columns of its inputs a body uses: the others need not be read from the records.

The body is called on empty frames of the same columns, and Spark's optimizer tells what is left of them. Where that
cannot be told, all are used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

CUTTING = (".Project", ".Aggregate")  # below them, only what they name is used
PASSING = (".Filter",)


class Node(NamedTuple):
    """Of a plan: what it says of itself, and the nodes below it."""

    told: dict[str, Any]
    below: list[Node]

    @property
    def kind(self) -> str:
        return str(self.told["class"])


def used_columns(spark: SparkSession, body: Callable[..., Any], schemas: list[str]) -> list[frozenset[str] | None]:
    """For each input the columns that the body uses; None: all."""
    frames = [_empty(spark, schema) for schema in schemas]
    try:
        plan = _plan(body(*frames)._jdf.queryExecution().optimizedPlan().toJSON())
    except Exception as error:  # the user's: what is wrong with it will be told where it is run
        logger.debug("what columns are used cannot be told: %s", error)
        return [None] * len(schemas)
    readings = list(_readings(plan, ()))
    return [_used(frame, readings) for frame in frames]


def _empty(spark: SparkSession, schema: str) -> DataFrame:
    """No rows, of which the optimizer does not know that there are none. Made by Java alone, which is quicker."""
    context, session = spark.sparkContext._jsc, spark._jsparkSession
    assert context is not None
    columns = session.sessionState().sqlParser().parseTableSchema(schema)
    return DataFrame(session.createDataFrame(context.emptyRDD(), columns), spark)


def _used(frame: DataFrame, readings: list[tuple[Node, list[Node] | None]]) -> frozenset[str] | None:
    """An input may be read twice, and by other ids the second time: a reading that is not known may be one of it."""
    own = dict(_references(_plan(frame._jdf.queryExecution().analyzed().toJSON()).told))
    used: set[str] = set()
    for leaf, above in readings:
        numbers = {number for number, _ in _references(leaf.told)}
        if numbers <= own.keys():
            if above is None:
                return None
            used |= {own[number] for node in above for number, _ in _references(node.told) if number in own}
        elif {name for _, name in _references(leaf.told)} == set(own.values()):
            return None
    return frozenset(used)


def _readings(node: Node, above: tuple[Node, ...] | None) -> Iterator[tuple[Node, list[Node] | None]]:
    """Each leaf with the nodes above it that say what is used of it; None: all is."""
    if not node.below:
        cut = above is not None and any(each.kind.endswith(CUTTING) for each in above)
        yield node, list(above or ()) if cut else None
    for child in node.below:
        if node.kind.endswith(CUTTING):
            yield from _readings(child, (node,))
        elif node.kind.endswith(PASSING) and above is not None:
            yield from _readings(child, (*above, node))
        else:
            yield from _readings(child, None)


def _plan(text: str) -> Node:
    nodes = iter(json.loads(text))

    def take() -> Node:
        told = next(nodes)
        return Node(told, [take() for _ in range(told["num-children"])])

    return take()


def _references(told: Any) -> Iterator[tuple[int, str]]:
    """The columns that are named anywhere in it, by their number."""
    if isinstance(told, dict):
        if told.get("class", "").endswith(".AttributeReference"):
            yield told["exprId"]["id"], told["name"]
        told = list(told.values())
    if isinstance(told, list):
        for each in told:
            yield from _references(each)
