"""What the two programs with four queries share: the queries' outputs, and how each stands beside itself alone."""

from uuid import uuid4

from benchmarks.daily_queries import NAMES, STREAMS
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_stage import OurStage

ALONE = "the same alone"
TITLES = {
    "per_minute": "view, counts per page and minute",
    "per_page": "view, counts per page",
    "changed": "stream, a column changed",
    "chosen": "stream, rows and columns chosen",
}


def outputs(place: OurStage, queries: tuple[str, ...] = NAMES) -> dict[str, str]:
    """New ones, with the topics of streams, by the query."""
    found = {query: f"{query}_{uuid4().hex[:8]}" for query in queries}
    for query in STREAMS:
        if query in found:
            place.broker.create_topic(found[query], PARTITIONS)
    return found
