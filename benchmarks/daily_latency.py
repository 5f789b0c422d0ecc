"""From produce to readable in a view at 500 rows a second, step by step.

It needs Java 17. A stateful count per page and minute goes into a SQLite view, from four partitions, in a session that
is warm; every round is an app of its own, whose first seconds are not counted. p50 and p99 stand beside the mean time
from one batch to the next. A step's time is the mean over the rows around that percentile, and stands beside the
whole: its ratio is its share, and the shares add up to 1.
"""

from uuid import uuid4

from benchmarks.broker_turns import say
from benchmarks.daily_steps import STEPS, around, steps_of
from benchmarks.harness import Figure, Options
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_load import VIEW, Job, Where, load
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import OurStage, few_rounds, our_stage

RATE = 500  # rows a second
SHARES = {"p50": 0.5, "p99": 0.99}
LEAST = 0.01  # milliseconds: what is less has no ratio

Steps = dict[str, float]
Sample = tuple[float, dict[str, float], dict[str, Steps]]
"""Milliseconds from batch to batch; the percentiles; the steps of the rows around them."""


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    seconds, warm_up = options.size(full=24, quick=8), options.size(full=6, quick=4)
    with our_stage() as place, place.session() as ours:
        _sample(place, ours, seconds, warm_up)  # not counted: Java gets quicker for minutes
        samples = [_sample(place, ours, seconds, warm_up) for _ in range(options.rounds)]
    return [figure for share in SHARES for figure in _figures(share, samples)]


def _figures(share: str, samples: list[Sample]) -> list[Figure]:
    batches = tuple(batch for batch, _, _ in samples)
    wholes = tuple(sum(steps[share].values()) for _, _, steps in samples)
    return [
        Figure(
            f"view, {RATE} rows/s: {share}",
            "ms",
            "from batch to batch",
            tuple(taken[share] for _, taken, _ in samples),
            batches,
        ),
        *(
            Figure(
                f"{share}: {step}",
                "ms",
                f"all of {share}",
                tuple(max(steps[share][step], LEAST) for _, _, steps in samples),
                wholes,
            )
            for step in STEPS
        ),
    ]


def _sample(place: OurStage, ours: Session, seconds: int, warm_up: int) -> Sample:
    topic = f"in-{uuid4().hex[:8]}"
    place.broker.create_topic(topic, PARTITIONS)
    views = ours.do("start_view", topic=topic)["views"]
    (rows,) = load(Job(place.broker.bootstrap, topic, RATE, seconds, warm_up, (Where(VIEW, views),)))
    batches = ours.do("stop")["batches"]
    each = steps_of(rows, batches)
    since = rows.sent[rows.warm]
    ends = [batch["ended"] for batch in batches if batch["rows"] and batch["ended"] > since]
    between = 1e3 * (max(ends) - since) / len(ends)
    taken = {share: rows.percentiles[share] for share in SHARES}
    steps = {share: around(each, at) for share, at in SHARES.items()}
    for share in SHARES:
        parts = ", ".join(f"{step} {value:.1f}" for step, value in steps[share].items())
        say(f"{share} {taken[share]:.0f} ms, steps {sum(steps[share].values()):.0f} ms: {parts}")
    say(f"{len(ends)} batches, one in {between:.0f} ms")
    return between, taken, steps
