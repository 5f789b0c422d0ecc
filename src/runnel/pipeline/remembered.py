"""What a body remembers, in a form that can be compared with that of another start.

One entry for each operator of the plan that keeps state, from the top: what kind it is, its keys and its values, each
as the expression that it is made of, down to the columns of the inputs and their types. A column that was computed
below stands there as it was computed: the windows of one minute and those of five have the same name and type, and are
told apart by that. Numbers that Spark gives anew each time are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from runnel.pipeline.plan import COLUMN, Expression, Node, elements, plan_of

AGGREGATE, JOIN, DISTINCT = "Aggregate", "Join", "Distinct"
DEDUPLICATE = ("Deduplicate", "DeduplicateWithinWatermark")
LIMIT = "GlobalLimit"
VARIABLE = "NamedLambdaVariable"
OTHERS = (
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPySpark",
)
# Of the expressions: given anew each time, or said of a column beside what it is.
LEFT_OUT = {"exprId", "resultId", "qualifier", "metadata", "explicitMetadata", "nonInheritableMetadataKeys", "nullable"}

Told: TypeAlias = dict[str, Any]
Tree: TypeAlias = dict[str, Any]


def remembered(frame: DataFrame) -> list[Told]:
    """From the top of the plan to its inputs."""
    plan = plan_of(frame)
    made = _made(plan)
    found = [_numbered(_told(node, made), {}) for node in _streaming(plan) if not node.is_ours and _remembers(node)]
    if any(each["operator"] == JOIN for each in found):
        found += _kept_by_joins(frame)
    return found


def _remembers(node: Node) -> bool:
    if node.kind == JOIN:
        return all(child.is_streaming for child in node.children)
    return node.kind in (AGGREGATE, DISTINCT, LIMIT, *DEDUPLICATE, *OTHERS)


def _told(node: Node, made: dict[int, Tree]) -> Told:
    found: Told = {"operator": node.kind}
    if node.kind == AGGREGATE:
        keys = [_tree(each.toJSON()) for each in elements(node.java.groupingExpressions())]
        found["keys"] = [_resolved(each, made) for each in keys]
        functions = [part for each in _computed(node) for part in _functions(_tree(each.json))]
        found["values"] = _once([_resolved(each, made) for each in functions])
    elif node.kind == DISTINCT:
        found["keys"] = str(node.java.schema().simpleString())
    elif node.kind != LIMIT:  # which remembers how many there were: the number itself may be another
        expressions = [_resolved(_tree(each.json), made) for each in node.expressions]
        found["of"] = sorted(expressions, key=json.dumps) if node.kind in DEDUPLICATE else expressions
        if node.kind == JOIN:
            found["how"] = str(node.java.joinType().toString())
    return found


def _kept_by_joins(frame: DataFrame) -> list[Told]:
    """A join keeps the rows of both sides, with the columns that are used: only the optimizer knows."""
    session = frame.sparkSession._jsparkSession
    plan = Node(session.sessionState().optimizer().execute(plan_of(frame).java))
    joins = [node for node in _streaming(plan) if node.kind == JOIN and _remembers(node)]
    sides = [[str(side.java.schema().simpleString()) for side in node.children] for node in joins]
    return [{"operator": "rows of a join", "values": each} for each in sides]


def _streaming(node: Node) -> Iterator[Node]:
    if not node.is_streaming:
        return
    yield node
    for child in node.children:
        yield from _streaming(child)


# --- expressions


def _made(plan: Node) -> dict[int, Tree]:
    """What the columns are made of that are computed somewhere in the plan, by their numbers."""
    found: dict[int, Tree] = {}
    for node in _streaming(plan):
        for expression in () if node.is_ours else _computed(node):
            for part in _parts(_tree(expression.json)):
                if part["class"] == "Alias":
                    found[part["exprId"]["id"]] = part["children"][0]
    return found


def _computed(node: Node) -> list[Expression]:
    """Its expressions without the columns that it takes as they are: Spark needs long to write one down."""
    return [each for each in node.expressions if each.kind != COLUMN]


def _tree(text: str) -> Tree:
    return _nested(json.loads(text))


def _nested(flat: list[dict[str, Any]]) -> Tree:
    """Spark writes a tree as a list, each node before its children."""
    nodes = iter(flat)

    def take() -> Tree:
        told = dict(next(nodes))
        count = told.pop("num-children")
        told["class"] = told["class"].rpartition(".")[2]
        told["children"] = [take() for _ in range(count)]
        return told

    return take()


def _parts(tree: Tree) -> Iterator[Tree]:
    yield tree
    for child in tree["children"]:
        yield from _parts(child)


def _functions(tree: Tree) -> Iterator[Tree]:
    """The aggregates in it: what is made of their results is not remembered."""
    return (part for part in _parts(tree) if part["class"] == "AggregateExpression")


def _resolved(tree: Tree, made: dict[int, Tree]) -> Any:
    kind = tree["class"]
    if kind == COLUMN:
        known = made.get(tree["exprId"]["id"])
        return f"{tree['name']}: {_plain(tree['dataType'], made)}" if known is None else _resolved(known, made)
    if kind == "Alias":
        return _resolved(tree["children"][0], made)
    own = {name: _plain(value, made) for name, value in tree.items() if not _is_left_out(name, value)}
    return {kind: {**own, "of": [_resolved(child, made) for child in tree["children"]]}}


def _is_left_out(name: str, value: Any) -> bool:
    is_a_place = isinstance(value, int) and not isinstance(value, bool)  # of a child, among the children
    return is_a_place or name in LEFT_OUT or name in ("class", "children")


def _plain(value: Any, made: dict[int, Tree]) -> Any:
    """Trees inside of a value as trees."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            return _resolved(_nested(value), made)
        return [_plain(each, made) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, made) for name, each in value.items() if name not in LEFT_OUT}
    return value


def _numbered(told: Any, names: dict[str, int]) -> Any:
    """The variables of lambdas, whose names hold a number that Spark gives anew each time, by their order."""
    if isinstance(told, list):
        return [_numbered(each, names) for each in told]
    if not isinstance(told, dict):
        return told
    if VARIABLE in told:
        name = names.setdefault(told[VARIABLE]["name"], len(names))
        return {VARIABLE: {**told[VARIABLE], "name": name}}
    return {name: _numbered(each, names) for name, each in told.items()}


def _once(found: list[Any]) -> list[Any]:
    """Spark keeps what is asked for twice only once."""
    return [each for number, each in enumerate(found) if each not in found[:number]]
