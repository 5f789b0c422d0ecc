"""A rebuild's rows a second beside those of the query itself, over the same log, and what readers feel of it.

It needs Java 17. Counts per page and minute, in a session that is warm. First nobody else is at work: the query reads
the whole log, and then a rebuild reads it again, until the copy has taken the view's place. Then the app goes on at
500 rows a second, and another process rebuilds its view: the rebuild's rate, and how long a row takes meanwhile from
`produce` to readable, the change of places included, beside the seconds before.
"""

import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from benchmarks.broker_turns import percentile, say
from benchmarks.harness import Figure, Options
from benchmarks.pipeline_load import VIEW, Job, Rows, Where, result, start
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import OurStage, few_rounds, our_stage

ITSELF = "the query itself"
BEFORE = "before the rebuild"
RATE = 500  # rows a second
FULL = 1_000_000
SHARES = {"p50": 0.5, "p99": 0.99, "longest": 1.0}


@dataclass(frozen=True)
class Sample:
    """Rows a second, and milliseconds."""

    itself: float
    alone: float
    beside: float
    before: dict[str, float]
    during: dict[str, float]


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    count = options.size(full=FULL, quick=5_000)
    with our_stage() as place, place.session("app") as app, place.session("other") as other:
        samples = [_sample(place, app, other, count, options) for _ in range(options.rounds + 1)]
    samples = samples[1:]  # Java gets quicker for minutes
    itself = tuple(each.itself for each in samples)
    return [
        Figure(f"rebuild, {count:,} rows, the app at rest", "rows/s", ITSELF, tuple(s.alone for s in samples), itself),
        Figure(f"rebuild, {count:,} rows, the app at work", "rows/s", ITSELF, tuple(s.beside for s in samples), itself),
        *(
            Figure(
                f"view, {RATE} rows/s, during the rebuild: {share}",
                "ms",
                BEFORE,
                tuple(each.during[share] for each in samples),
                tuple(each.before[share] for each in samples),
            )
            for share in SHARES
        ),
    ]


def _sample(place: OurStage, app: Session, other: Session, count: int, options: Options) -> Sample:
    topic = f"in-{uuid4().hex[:8]}"
    place.fill(topic, count)
    itself = app.do("view", topic=topic)
    alone = app.do("rebuild", app=itself["app"], data=itself["data"], topic=topic)
    _check(count, itself, alone)
    say(f"the query {_rate(itself):,.0f} rows/s, a rebuild {_rate(alone):,.0f} rows/s")
    beside, rows = _at_work(place, app, other, topic, options)
    before, during = rows.between(0.0, beside["begin"]), rows.between(beside["begin"], beside["end"])
    sample = Sample(_rate(itself), _rate(alone), _rate(beside), _percentiles(before), _percentiles(during))
    say(f"beside the app {sample.beside:,.0f} rows/s, {_told(sample.during)} meanwhile, {_told(sample.before)} before")
    return sample


def _at_work(
    place: OurStage, app: Session, other: Session, topic: str, options: Options
) -> tuple[dict[str, Any], Rows]:
    """What the rebuild of a view that the app goes on writing tells, and the rows that were sent all the while."""
    warm_up, begin = options.size(full=10, quick=6), options.size(full=18, quick=10)
    started = app.do("start_view", topic=topic)
    where = Where(VIEW, started["views"])
    job = Job(place.broker.bootstrap, topic, RATE, options.size(full=36, quick=24), warm_up, (where,))
    with start(job) as process:
        try:
            time.sleep(begin)
            told = other.do("rebuild", app=started["app"], data=started["data"], topic=topic)
        except BaseException:
            process.kill()
            raise
        (rows,) = result(job, process)
    app.do("stop")
    return told, rows


def _check(count: int, *told: dict[str, Any]) -> None:
    if any(each["rows"] != count or each["counted"] != count for each in told):
        raise RuntimeError(f"there are {count:,} rows, and the query and its rebuild tell of {told}")


def _rate(told: dict[str, Any]) -> float:
    return float(told["rows"] / told["seconds"])


def _percentiles(taken: list[float]) -> dict[str, float]:
    return {name: percentile(taken, share) for name, share in SHARES.items()}


def _told(taken: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f}" for name, value in taken.items()) + " ms"
