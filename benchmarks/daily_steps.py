"""Where the time of a row goes, from the call of `produce` until somebody sees it in a view.

Every row is in one batch, by its offset. Its time is cut where that batch went from one step to the next, so the steps
of a row add up to the whole of it; what belongs to no other step is Spark's.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_load import Rows

WAITS = "waits for the batch before"
LOOKS = "the source looks for new offsets"
WRITES = "Spark writes the offsets down"
PLANS = "Spark plans"
READS = "tasks that fetch and parse"
STATE = "tasks with state"
ACCOUNT = "our account of the rows"
KEEP = "kept in the view, and seen"
SPARK = "Spark, the rest"
STEPS = (WAITS, LOOKS, WRITES, PLANS, READS, STATE, ACCOUNT, KEEP, SPARK)
ACCOUNTED = ("disk", "account", "publish")
BAND = 0.005  # the share of all rows on both sides of a percentile that stand for it

Batch = Mapping[str, Any]  # pipeline_batches.Told, as plain data


def steps_of(rows: Rows, batches: Sequence[Batch]) -> list[dict[str, float]]:
    """Of each row that counts, in milliseconds."""
    known = [each for each in batches if each["rows"] and each["start"] is not None]
    found = [_of_row(*row, batch) for row, batch in _with_batches(rows, known)]
    if len(found) < 0.9 * len(rows.latencies):
        raise RuntimeError(f"of {len(rows.latencies):,} rows only {len(found):,} are in a batch that Spark told of")
    return found


def around(rows: Sequence[Mapping[str, float]], share: float) -> dict[str, float]:
    """The mean of each step, over the rows whose time as a whole lies around this percentile."""
    ordered = sorted(rows, key=lambda row: sum(row.values()))
    first, last = int((share - BAND) * len(ordered)), int((share + BAND) * len(ordered))
    chosen = ordered[first : max(last, first + 1)]
    return {step: fmean(row[step] for row in chosen) for step in STEPS}


def _with_batches(rows: Rows, batches: Sequence[Batch]) -> Iterator[tuple[tuple[float, float], Batch]]:
    for partition in range(PARTITIONS):
        ends = [each["ends"].get(str(partition), 0) for each in batches]
        for number in range(partition, len(rows.sent), PARTITIONS):
            at = bisect_right(ends, number // PARTITIONS)
            if number >= rows.warm and at < len(batches):
                yield (rows.sent[number], rows.seen[number]), batches[at]


def _of_row(sent: float, seen: float, batch: Batch) -> dict[str, float]:
    start, spark, steps = batch["start"], batch["spark"], batch["steps"]
    looks, writes = spark.get("latestOffset", 0) / 1e3, spark.get("walCommit", 0) / 1e3
    taken = {
        WAITS: max(start - sent, 0.0),
        # A row that came while the source was looking has waited for no batch, and for a part of the look.
        LOOKS: min(max(start + looks - sent, 0.0), looks),
        WRITES: writes,
        PLANS: max(batch["began"] - start - looks - writes, 0.0),
        **_tasks(batch),
        ACCOUNT: sum(steps.get(name, 0.0) for name in ACCOUNTED),
        KEEP: max(seen - (batch["ended"] - steps.get("keep", 0.0)), 0.0),
    }
    whole = seen - sent
    return {step: 1e3 * seconds for step, seconds in {**taken, SPARK: whole - sum(taken.values())}.items()}


def _tasks(batch: Batch) -> dict[str, float]:
    first, *others = batch["stages"] or [(0.0, 0.0)]
    return {READS: first[1] - first[0], STATE: sum(end - begin for begin, end in others)}
