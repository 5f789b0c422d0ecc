"""Whether two streams are joined by something that is equal in both.

Spark keeps the rows of each for those of the other by what is equal. It says that it cannot do without in the first
batch alone, which is planned by then: who mended the join would be refused for what the batch remembers. So a join
is refused before, if there is no equality at all in it or in what is above it, of which Spark may make a part of the
join; but not of a `crossJoin`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.plan import Node, plan_of

EQUALITIES = {"EqualTo", "EqualNullSafe", "In"}


def check_joins(where: str, frame: DataFrame) -> None:
    """InvalidBody, if two streams are joined each row with each."""
    if _is_joined_without_equality(plan_of(frame), ()):
        raise InvalidBody(
            where,
            "two streams are joined by nothing that is equal in both",
            hint="join them by a column, such as clicks.page == orders.page, or read one of them as a table",
        )


def _is_joined_without_equality(node: Node, above: tuple[Node, ...]) -> bool:
    nodes = (*above, node)
    if node.kind == "Join" and all(child.is_streaming for child in node.below):
        is_cross = str(node.java.joinType()) == "Cross"
        if is_cross or not any(map(_has_equality, nodes)):
            return True
    return any(_is_joined_without_equality(child, nodes) for child in node.below)


def _has_equality(node: Node) -> bool:
    return any(each.kinds & EQUALITIES for each in node.expressions)
