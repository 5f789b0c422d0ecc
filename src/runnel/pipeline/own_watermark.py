"""A body must not set a watermark: time and lateness belong to the stream.

By one of its own Spark would drop rows in silence, which nobody could tell as late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.plan import WATERMARK, Node, plan_of


def check_watermarks(where: str, frame: DataFrame) -> None:
    if _has_one(plan_of(frame)):
        raise InvalidBody(
            where,
            "the body calls withWatermark",
            hint='leave it out, and declare time and lateness with the stream, such as time="at", late="30 seconds"',
        )


def _has_one(node: Node) -> bool:
    if node.kind == WATERMARK and not node.is_ours:
        return True
    return any(_has_one(child) for child in node.children)
