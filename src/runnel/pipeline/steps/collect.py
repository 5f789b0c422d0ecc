"""Run the body: bring what it makes of the batch to the driver, as Arrow.

Also when the batch took effect before: what the body remembers, its windows and joins, Spark keeps only if it runs.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.pipeline.batch import Batch


def collect(batch: Batch) -> Batch:
    return replace(batch, rows=batch.frame.toArrow())
