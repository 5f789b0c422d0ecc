"""How long a row takes at 500 rows a second, beside plain PySpark with the JVM connector, at least once.

It needs what `pipeline_counts` needs. Two apps of ours: topic to topic exactly once, and a stateful count per page and
minute into a SQLite view. The peer copies from topic to topic at least once. Four partitions each. Every sample is a
query of its own in a session that is warm, after two rounds that are thrown away; its first seconds are not counted.
The steps of a batch are medians: those that Spark tells of both, and our own, which stand on stderr.

The limit is what Spark needs for a batch by itself, in the same session: of rows that it makes, through the same
operators, to Python as Arrow; without a source or a sink of ours, and with nobody else at work.
"""

import statistics
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from benchmarks.broker_turns import say
from benchmarks.harness import Figure, Options, at_most
from benchmarks.pipeline_environment import PEER
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_load import VIEW, Job, Where, load
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import Stage, few_rounds, stage

RATE = 500  # rows a second
WARM_UP = 2  # rounds: Java gets quicker for minutes, on both sides
AGAINST = f"{PEER}, at least once"
ALONE = "Spark alone, with rows of its own"
ROWS = {"start_copy": 60, "start_view": 130}  # of a batch, as many as come meanwhile


@dataclass(frozen=True)
class Sample:
    """In milliseconds."""

    p50: float
    p95: float
    p99: float
    p100: float
    steps: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {value:.1f}" for name, value in self.steps.items())
        return f"p50 {self.p50:.0f}, p95 {self.p95:.0f}, p99 {self.p99:.0f}, most {self.p100:.0f} ms; {steps}"


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    seconds, warm_up = options.size(full=16, quick=6), options.size(full=6, quick=3)
    copies: list[Sample] = []
    views: list[Sample] = []
    peers: list[Sample] = []
    limits: dict[str, list[float]] = {job: [] for job in ROWS}
    with stage() as place, place.sessions() as (ours, peer):
        turns = [(ours, "start_copy", copies), (ours, "start_view", views), (peer, "start_copy", peers)]
        for number in range(options.rounds + WARM_UP):
            for side, job, samples in turns if number % 2 else turns[::-1]:
                samples.append(_sample(place, side, job, seconds, warm_up))
            for job, found in limits.items():
                found.append(_alone(ours, job, seconds))
    copies, views, peers = (each[WARM_UP:] for each in (copies, views, peers))
    return [
        *_figures("topic to topic, exactly once", copies, peers),
        *_figures("view", views, peers),
        _batches("topic to topic, exactly once", copies, limits["start_copy"][WARM_UP:]),
        _batches("view", views, limits["start_view"][WARM_UP:]),
    ]


def _batches(what: str, ours: list[Sample], alone: list[float]) -> Figure:
    whole = tuple(each.steps["triggerExecution"] for each in ours)
    return Figure(f"{what}, {RATE} rows/s: a batch", "ms", ALONE, whole, tuple(alone))


def _alone(ours: Session, job: str, seconds: int) -> float:
    told = ours.do("alone", rows=ROWS[job], seconds=seconds, stateful=job == "start_view")
    steps = _medians(told["steps"])
    say(f"{job}, Spark alone: {', '.join(f'{name} {value:.1f}' for name, value in steps.items())}")
    return steps["triggerExecution"]


def _figures(what: str, ours: list[Sample], peer: list[Sample]) -> list[Figure]:
    def figure(name: str, taken: Any, target: Any = None) -> Figure:
        values = tuple(max(taken(each), 0.1) for each in ours), tuple(max(taken(each), 0.1) for each in peer)
        return Figure(f"{what}, {RATE} rows/s: {name}", "ms", AGAINST, *values, target)

    return [
        figure("p50", lambda sample: sample.p50, at_most(0.3)),
        figure("p99", lambda sample: sample.p99, at_most(0.3)),
        *(figure(step, lambda sample, step=step: sample.steps[step]) for step in peer[0].steps),
    ]


def _sample(place: Stage, side: Session, job: str, seconds: int, warm_up: int) -> Sample:
    topic, to = f"in-{uuid4().hex[:8]}", f"out_{uuid4().hex[:8]}"
    place.broker.create_topic(topic, PARTITIONS)
    if job == "start_view":
        where = Where(VIEW, side.do(job, topic=topic)["views"])
    else:
        place.broker.create_topic(to, PARTITIONS)
        side.do(job, topic=topic, to=to)
        where = Where(to)
    (rows,) = load(Job(place.broker.bootstrap, topic, RATE, seconds, warm_up, (where,)))
    told = side.do("stop")
    sample = Sample(**rows.percentiles, steps=_medians(told["steps"]))
    own = ", ".join(f"{name} {value:.1f}" for name, value in _medians(told.get("own", {})).items())
    batches = len(told["steps"]["addBatch"])
    say(f"{job}, {side.name}: {sample}{'; ' + own if own else ''}; {batches} batches")
    return sample


def _medians(steps: dict[str, list[float]]) -> dict[str, float]:
    return {step: statistics.median(values) for step, values in steps.items() if values}
