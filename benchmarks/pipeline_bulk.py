"""Raw reads, and topic to topic exactly once, beside plain PySpark with the JVM connector, whose sink is at least once.

It needs what `pipeline_counts` needs; both sides are warm. Topic to topic parses JSON, changes a column, and writes
JSON with a key: ours in one transaction for each batch.
"""

from uuid import uuid4

from benchmarks.harness import Figure, Options, at_least, side_by_side
from benchmarks.pipeline_environment import PEER
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_sessions import Session
from benchmarks.pipeline_stage import Stage, few_rounds, rate, stage


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    raw, copied = options.size(full=5_000_000, quick=20_000), options.size(full=2_000_000, quick=20_000)
    warm_up = options.size(full=500_000, quick=5_000)
    with stage() as place:
        for topic, count in (("raw", raw), ("copied", copied), ("warm-up", warm_up)):
            place.fill(topic, count)
        with place.sessions() as (ours, peer):
            for side in (ours, peer):
                rate(side, "raw", warm_up, topic="warm-up")
                _copy(place, side, "warm-up", warm_up)
            return [
                side_by_side(
                    f"read and count raw values, {raw:,} rows",
                    unit="rows/s",
                    against=PEER,
                    ours=lambda: rate(ours, "raw", raw, topic="raw"),
                    peer=lambda: rate(peer, "raw", raw, topic="raw"),
                    target=at_least(1.2),
                    options=options,
                ),
                side_by_side(
                    f"topic to topic, exactly once, {copied:,} rows",
                    unit="rows/s",
                    against=f"{PEER}, at least once",
                    ours=lambda: _copy(place, ours, "copied", copied),
                    peer=lambda: _copy(place, peer, "copied", copied),
                    target=at_least(1),
                    options=options,
                ),
            ]


def _copy(place: Stage, side: Session, topic: str, count: int) -> float:
    to = f"copy_{uuid4().hex[:8]}"
    place.broker.create_topic(to, PARTITIONS)
    copied = rate(side, "copy", count, topic=topic, to=to)
    written = sum(place.broker.end_offsets(to, PARTITIONS).values())
    if written < count:
        raise RuntimeError(f"{side.name} wrote {written:,} of {count:,} rows")
    place.broker.delete_topic(to)
    return copied
