"""Counting JSON events per page and minute, beside plain PySpark with the JVM connector: same broker, same data.

It needs Java 17, Maven (which fetches the connector once), and the network for the first run. Both sides are warm: each
has one session, whose first runs are thrown away, until one is hardly quicker than those before. Ours ends in a view,
exactly once; the peer's result goes nowhere (the `noop` sink). RUNNEL_BENCH_EVENTS chooses the sizes, such as
5000000,20000000.
"""

from benchmarks.harness import Figure, Options, at_least, side_by_side
from benchmarks.pipeline_environment import PEER
from benchmarks.pipeline_events import Kind, broken
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import Stage, few_rounds, rate, sizes, stage

HARDLY_QUICKER = 1.05
LEAST_WARM_UPS, MOST_WARM_UPS = 3, 6
VARIED = 1_000_000
VARIANTS = {
    Kind.BROKEN: ("count", "one event in a hundred broken"),
    Kind.RICH: ("rich", "zstd, keys, headers and metadata columns"),
    Kind.NESTED: ("nested", "nested schema"),
}


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    with stage() as place, place.sessions() as (ours, peer):
        figures = [_against_the_peer(options, place, ours, peer, count) for count in sizes(options)]
        few = min(VARIED, *sizes(options))
        place.fill("clean", few)
        return [*figures, *(_against_clean(options, place, ours, kind, few) for kind in VARIANTS)]


def _against_the_peer(options: Options, place: Stage, ours: Session, peer: Session, count: int) -> Figure:
    topic = f"clean-{count}"
    place.fill(topic, count)
    for side in (ours, peer):
        _warm_up(options, side, count, topic)
    return side_by_side(
        f"count per page and minute, {count:,} JSON events",
        unit="rows/s",
        against=PEER,
        ours=lambda: rate(ours, "count", count, topic=topic),
        peer=lambda: rate(peer, "count", count, topic=topic),
        target=at_least(3),
        options=options,
    )


def _warm_up(options: Options, side: Session, count: int, topic: str) -> None:
    """Java gets quicker for minutes."""
    best = 0.0
    for done in range(1, options.size(full=MOST_WARM_UPS, quick=1) + 1):
        before, best = best, max(best, rate(side, "count", count, topic=topic))
        if done >= LEAST_WARM_UPS and best < before * HARDLY_QUICKER:
            return


def _against_clean(options: Options, place: Stage, ours: Session, kind: Kind, count: int) -> Figure:
    job, what = VARIANTS[kind]
    topic = str(kind)
    place.fill(topic, count, kind)
    rejected = broken(count) if kind is Kind.BROKEN else 0
    rate(ours, job, count, topic=topic, rejected=rejected)  # another plan than before: its first run is thrown away
    return side_by_side(
        f"the same, {what}, {count:,} events",
        unit="rows/s",
        against="ours, clean",
        ours=lambda: rate(ours, job, count, topic=topic, rejected=rejected),
        peer=lambda: rate(ours, "count", count, topic="clean"),
        target=at_least(0.5),
        options=options,
    )
