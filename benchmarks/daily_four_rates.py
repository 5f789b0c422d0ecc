"""Four queries in one app: rows a second of each beside the same query alone.

It needs Java 17. All four read the same stream of JSON events from the broker, in a session that is warm, with as many
tasks at a time as there are cores. Two are views with state, two are derived streams. A query's time is that from the
start of the app until the end of its last batch. The last line is all of the work: side by side, beside one after the
other.
"""

from benchmarks.broker_turns import say
from benchmarks.daily_four import ALONE, TITLES, outputs
from benchmarks.daily_queries import NAMES
from benchmarks.harness import Figure, Options
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import OurStage, few_rounds, our_stage

TOPIC = "clicks"
FULL = 1_000_000

Seconds = dict[str, float]
"""By the query."""


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    count = options.size(full=FULL, quick=5_000)
    together: list[Seconds] = []
    alone: list[Seconds] = []
    with our_stage() as place:
        place.fill(TOPIC, count)
        with place.session() as ours:
            for number in range(options.rounds + 1):  # the first one is not counted: Java gets quicker for minutes
                turns = [(together, [NAMES]), (alone, [(name,) for name in NAMES])]
                for samples, groups in turns if number % 2 else turns[::-1]:
                    samples.append({k: v for group in groups for k, v in _seconds(place, ours, group, count).items()})
    return _figures(count, together[1:], alone[1:])


def _figures(count: int, together: list[Seconds], alone: list[Seconds]) -> list[Figure]:
    def rates(samples: list[Seconds], name: str) -> tuple[float, ...]:
        return tuple(count / each[name] for each in samples)

    every = count * len(NAMES)
    return [
        *(Figure(TITLES[name], "rows/s", ALONE, rates(together, name), rates(alone, name)) for name in NAMES),
        Figure(
            "all four",
            "rows/s",
            "one after the other",
            tuple(every / max(each.values()) for each in together),
            tuple(every / sum(each.values()) for each in alone),
        ),
    ]


def _seconds(place: OurStage, ours: Session, queries: tuple[str, ...], count: int) -> Seconds:
    names = outputs(place, queries)
    told = ours.do("several", topic=TOPIC, names=names)
    if wrong := {query: each["rows"] for query, each in told.items() if each["rows"] != count}:
        raise RuntimeError(f"there are {count:,} rows, and some queries have read others: {wrong}")
    found = {query: float(each["seconds"]) for query, each in told.items()}
    say("; ".join(f"{query} {count / seconds:,.0f} rows/s" for query, seconds in found.items()))
    return found
