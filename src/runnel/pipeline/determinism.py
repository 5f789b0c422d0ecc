"""Whether a body remembers the same when a batch is repeated.

A batch is published whole, and once. But Spark keeps what a body remembers, its windows and joins, by running the body;
after a crash it may run again for a batch that was published before. Chance would then remember something else than
what was told. So where it feeds what the body remembers, it is refused by name; elsewhere it does no harm.

An aggregate that depends on the order of its rows is the same as chance: rows of several partitions meet in any order.
The clock of a batch is its own and the same in a repeat, as long as it is asked for by the name that Spark knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame

from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.plan import Expression, Node, plan_of

# What remembers of a stream, and a join of two streams.
REMEMBERING = {
    "Aggregate",
    "Distinct",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "GlobalLimit",
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPySpark",
}
BY_TIME = "say which one, such as F.min_by(value, time) or F.max_by(value, time)"
SORTED = "put it in order where it is made, such as F.sort_array(F.collect_list(value))"
ORDERED = {
    "First": BY_TIME,
    "Last": BY_TIME,
    "AnyValue": BY_TIME,
    "CollectList": SORTED,
    "CollectSet": SORTED,
    "ListAgg": "say in which order, such as listagg(value) within group (order by value)",
    "Mode": "let equals be decided, with F.mode(value, deterministic=True)",
}
SUBQUERIES = {"ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"}  # their plans are looked at by themselves
# Spark gives a batch its own time, but not by these names.
CLOCKS = {"Now": "call F.current_timestamp()", "CurrentTime": 'take it of F.current_timestamp(), as .cast("time")'}
SUSPECTS = CLOCKS.keys() | ORDERED.keys()
COLLECTED = {"CollectList", "CollectSet"}
SORTING = {"SortArray", "ArraySort", "Size", "ArraySize", "ArrayMax", "ArrayMin", "ArrayContains"}
EACH_BY_ITSELF = {"AggregateExpression", "ArrayDistinct", "ArrayTransform", "ArrayFilter", "ArrayCompact", "Cast"}
OF_THE_ROW = (
    "make it of the row itself: a hash of its key, or of _topic, _partition and _offset, which .with_metadata() gives; "
    "or call it on the result"
)
OF_A_UDF = "leave asNondeterministic() out if equal arguments give equal results, or call it on the result"


class Unsteady(NamedTuple):
    """A function that may say something else the next time."""

    name: str
    what: str
    hint: str


def check_determinism(where: str, frame: DataFrame) -> None:
    """InvalidBody names the first function that feeds what the body remembers with chance."""
    for found in _unsteady(plan_of(frame), is_remembered=False):
        raise InvalidBody(where, f"{found.name} {found.what}", hint=found.hint)


def _unsteady(node: Node, *, is_remembered: bool) -> Iterator[Unsteady]:
    if node.is_ours:
        return
    is_remembered = is_remembered or _remembers(node)
    if is_remembered:
        for expression in node.expressions:
            if expression.is_deterministic and not expression.kinds & SUSPECTS:
                continue
            yield from _chance(expression)
            yield from _clock(expression)
            yield from _order(expression, is_settled=False)
    for child in node.children:
        yield from _unsteady(child, is_remembered=is_remembered)


def _remembers(node: Node) -> bool:
    if node.kind == "Join":
        return all(child.is_streaming for child in node.children)
    return node.kind in REMEMBERING and node.is_streaming


def _chance(expression: Expression) -> Iterator[Unsteady]:
    """The functions at the root of it: theirs is the chance that is in those above."""
    if expression.is_deterministic:
        return
    children = expression.children
    for child in children:
        yield from _chance(child)
    is_root = all(child.is_deterministic for child in children)
    if is_root and expression.kind not in ORDERED.keys() | SUBQUERIES:
        hint = OF_A_UDF if expression.kind in ("PythonUDF", "ScalaUDF") else OF_THE_ROW
        what = "gives another value when a batch is repeated, and the body remembers what it gave"
        yield Unsteady(f"{expression.name}()", what, hint)


def _clock(expression: Expression) -> Iterator[Unsteady]:
    if expression.kind in CLOCKS:
        what = "is another time when a batch is repeated, and the body remembers it"
        yield Unsteady(f"{expression.name}()", what, CLOCKS[expression.kind])
    for child in expression.children:
        yield from _clock(child)


def _order(expression: Expression, *, is_settled: bool) -> Iterator[Unsteady]:
    """`is_settled`: what it is part of has the same value for any order."""
    kind = expression.kind
    if kind in ORDERED and not _has_order(expression) and not (is_settled and kind in COLLECTED):
        what = "depends on the order in which rows arrive, which is another when a batch is repeated"
        yield Unsteady(f"{expression.name}()", what, ORDERED[kind])
    settled = kind in SORTING or (is_settled and kind in EACH_BY_ITSELF)
    for child in expression.children:
        yield from _order(child, is_settled=settled)


def _has_order(expression: Expression) -> bool:
    match expression.kind:
        case "ListAgg":
            return bool(expression.java.orderExpressions().size())
        case "Mode":
            return bool(expression.java.reverseOpt().isDefined())
        case _:
            return False
