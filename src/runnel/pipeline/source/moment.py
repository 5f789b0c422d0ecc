"""What a task knows of its micro-batch: its number, its time, and the watermark at its start.

Spark writes the three down before the batch runs (`offsets/N` in the checkpoint), so a repeat sees the same. They reach
the tasks as local properties of the thread that runs the batch.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark import SparkContext, TaskContext

PROPERTY = "runnel.moment"


class Moment(NamedTuple):
    """Milliseconds since 1970. A watermark of 0: there is none yet."""

    batch: int
    time: int
    watermark: int

    def tell(self, context: SparkContext) -> None:
        """To all tasks that this thread starts from now on."""
        context.setLocalProperty(PROPERTY, " ".join(map(str, self)))


def moment_of_the_task() -> Moment | None:
    """None outside of a query of ours."""
    context = TaskContext.get()
    told = context.getLocalProperty(PROPERTY) if context else None
    return Moment(*map(int, told.split())) if told else None
