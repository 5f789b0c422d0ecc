"""Four queries in one app at 500 rows a second: latency of each beside the same query alone.

It needs Java 17. All four read the same stream, in a session that is warm. Latency counts from the call of `produce`
until the row can be read: in a SQLite view, or as a committed record of a topic. Every sample is an app of its own,
whose first seconds are not counted.
"""

from uuid import uuid4

from benchmarks.broker_turns import say
from benchmarks.daily_four import ALONE, TITLES, outputs
from benchmarks.daily_queries import NAMES, VIEWS
from benchmarks.harness import Figure, Options
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_load import Job, Where, load
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import OurStage, few_rounds, our_stage

RATE = 500  # rows a second
SHARES = ("p50", "p99")

Latencies = dict[str, dict[str, float]]
"""The percentiles in milliseconds, by the query."""


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    seconds, warm_up = options.size(full=14, quick=8), options.size(full=5, quick=4)
    together: list[Latencies] = []
    alone: list[Latencies] = []
    with our_stage() as place, place.session() as ours:
        say("not counted: Java gets quicker for minutes")
        _latencies(place, ours, NAMES, seconds, warm_up)
        for number in range(options.rounds):
            turns = [(together, [NAMES]), (alone, [(name,) for name in NAMES])]
            for samples, groups in turns if number % 2 else turns[::-1]:
                taken = [_latencies(place, ours, group, seconds, warm_up) for group in groups]
                samples.append({query: each for one in taken for query, each in one.items()})
    return [_figure(name, share, together, alone) for name in NAMES for share in SHARES]


def _figure(name: str, share: str, together: list[Latencies], alone: list[Latencies]) -> Figure:
    numbers = tuple(each[name][share] for each in together), tuple(each[name][share] for each in alone)
    return Figure(f"{TITLES[name]}: {share}", "ms", ALONE, *numbers)


def _latencies(place: OurStage, ours: Session, queries: tuple[str, ...], seconds: int, warm_up: int) -> Latencies:
    topic = f"in-{uuid4().hex[:8]}"
    place.broker.create_topic(topic, PARTITIONS)
    names = outputs(place, queries)
    views = ours.do("start_several", topic=topic, names=names)["views"]
    readers = tuple(Where(name, views if query in VIEWS else None) for query, name in names.items())
    rows = load(Job(place.broker.bootstrap, topic, RATE, seconds, warm_up, readers))
    ours.do("stop")
    found = {query: each.percentiles for query, each in zip(names, rows, strict=True)}
    told = "; ".join(f"{query} p50 {each['p50']:.0f}, p99 {each['p99']:.0f} ms" for query, each in found.items())
    say(f"{'beside each other' if len(queries) > 1 else 'alone'}: {told}")
    return found
