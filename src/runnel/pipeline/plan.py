"""The plan that Spark made of a body, read through its Java objects: nodes, and the expressions of each.

Spark analysed it, so that every function is known by its class, however it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from runnel.pipeline.source.spec import BEAT

WATERMARK = "EventTimeWatermark"
RELATION = "StreamingRelationV2"


class Expression(NamedTuple):
    """One of Spark's, such as a call of a function."""

    java: Any

    @property
    def kind(self) -> str:
        return str(self.java.getClass().getSimpleName())

    @property
    def name(self) -> str:
        """As people write it, such as `rand`."""
        return str(self.java.name()) if self.kind in ("PythonUDF", "ScalaUDF") else str(self.java.prettyName()).lower()

    @property
    def is_deterministic(self) -> bool:
        return bool(self.java.deterministic())

    @property
    def children(self) -> list[Expression]:
        return [Expression(each) for each in _each(self.java.children())]

    def __str__(self) -> str:
        return str(self.java.toString())


class Node(NamedTuple):
    """A step of the plan, above those that it takes rows from."""

    java: Any

    @property
    def kind(self) -> str:
        return str(self.java.getClass().getSimpleName())

    @property
    def is_streaming(self) -> bool:
        return bool(self.java.isStreaming())

    @property
    def children(self) -> list[Node]:
        """Subqueries among them."""
        return [Node(each) for part in (self.java.children(), self.java.subqueries()) for each in _each(part)]

    @property
    def expressions(self) -> list[Expression]:
        return [Expression(each) for each in _each(self.java.expressions())]

    @property
    def is_ours(self) -> bool:
        """Part of how an input is read, not of the body: there are the rows that only let the watermark go on."""
        if self.kind == WATERMARK:
            below = self.children[0]
            return below.kind == RELATION and BEAT in str(below.java.output().toString())
        return self.kind == "Filter" and self.children[0].kind == WATERMARK and self.children[0].is_ours


def plan_of(frame: DataFrame) -> Node:
    return Node(frame._jdf.queryExecution().analyzed())


def _each(found: Any) -> Iterator[Any]:
    for number in range(found.size()):
        yield found.apply(number)
