"""What a task knows of its micro-batch: its number, its time, and the watermark at its start.

Spark writes the three down before the batch is even planned (`offsets/N` in the checkpoint), so a repeat sees the same.
A task is told the number by Spark, and looks the others up.

Our watermark is the newest time that was seen, less the lateness that was declared: what lies below is late. Spark
drops rows at its own watermark, too, and trusts that all to come lie above it: so it is told a lateness that is one
millisecond longer, and its watermark lies that much below ours. No row that we let pass can be one that it drops.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext

BATCH_NUMBER = "streaming.sql.batchId"  # a local property, which Spark sets before it plans the batch
HELD_BACK = 1  # milliseconds that Spark's watermark lies below ours


class Moment(NamedTuple):
    """Milliseconds since 1970. The watermark is ours."""

    batch: int
    time: int
    watermark: int

    @property
    def has_watermark(self) -> bool:
        """Spark's is 0 until it has seen a row of every input. (It would drop a row of 1970 or before even so.)"""
        return self.watermark > HELD_BACK


def batch_of_the_task() -> int | None:
    """The number of the micro-batch; None outside of any."""
    context = TaskContext.get()
    told = context.getLocalProperty(BATCH_NUMBER) if context else None
    return int(told) if told else None
