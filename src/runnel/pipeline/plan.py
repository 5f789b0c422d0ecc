"""The plan that Spark made of a body, read through its Java objects: nodes, and the expressions of each.

Spark analysed it, so that every function is known by its class, however it was written. A plan never changes, and each
question is a way to Java and back: what was asked once is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from runnel.pipeline.source.spec import BEAT

WATERMARK = "EventTimeWatermark"
RELATION = "StreamingRelationV2"
COLUMN = "AttributeReference"

_plans: WeakKeyDictionary[DataFrame, Node] = WeakKeyDictionary()  # several look at the plan of one frame


@dataclass(frozen=True, eq=False)
class Expression:
    """One of Spark's, such as a call of a function."""

    java: Any

    @cached_property
    def kind(self) -> str:
        return str(self.java.getClass().getSimpleName())

    @cached_property
    def name(self) -> str:
        """As people write it, such as `rand`."""
        return str(self.java.name()) if self.kind in ("PythonUDF", "ScalaUDF") else str(self.java.prettyName()).lower()

    @cached_property
    def is_deterministic(self) -> bool:
        return bool(self.java.deterministic())

    @cached_property
    def children(self) -> list[Expression]:
        return [Expression(each) for each in elements(self.java.children())]

    @cached_property
    def json(self) -> str:
        """The whole of it, as Spark writes it."""
        return str(self.java.toJSON())

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Of all that it is made of, itself among them: one question for all, and none for a column as it is."""
        if self.kind == COLUMN:
            return frozenset((COLUMN,))
        return frozenset(part["class"].rpartition(".")[2] for part in json.loads(self.json))

    def __str__(self) -> str:
        return str(self.java.toString())


@dataclass(frozen=True, eq=False)
class Node:
    """A step of the plan, above those that it takes rows from."""

    java: Any

    @cached_property
    def kind(self) -> str:
        return str(self.java.getClass().getSimpleName())

    @cached_property
    def is_streaming(self) -> bool:
        return bool(self.java.isStreaming())

    @cached_property
    def children(self) -> list[Node]:
        """Subqueries among them."""
        return [*self.below, *self.subqueries]

    @cached_property
    def below(self) -> list[Node]:
        return [Node(each) for each in elements(self.java.children())]

    @cached_property
    def subqueries(self) -> list[Node]:
        """Those in its own expressions."""
        return [Node(each) for each in elements(self.java.subqueries())]

    @cached_property
    def expressions(self) -> list[Expression]:
        return [Expression(each) for each in elements(self.java.expressions())]

    @cached_property
    def is_ours(self) -> bool:
        """Part of how an input is read, not of the body: there are the rows that only let the watermark go on."""
        if self.kind == WATERMARK:
            below = self.children[0]
            return below.kind == RELATION and BEAT in str(below.java.output().toString())
        return self.kind == "Filter" and self.children[0].kind == WATERMARK and self.children[0].is_ours


def plan_of(frame: DataFrame) -> Node:
    if frame not in _plans:
        _plans[frame] = Node(frame._jdf.queryExecution().analyzed())
    return _plans[frame]


def elements(found: Any) -> Iterator[Any]:
    """Of a sequence of Scala's."""
    for number in range(found.size()):
        yield found.apply(number)
