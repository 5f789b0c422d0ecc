"""What an app needs of its Kafka: that it answers, serves what is needed, and has the topics; and a clock that agrees
with the times of the records in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from runnel.app.app import App
from runnel.app.finding import Finding, note, well, wrong
from runnel.app.finding import told as told_as
from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.errors import Unreachable
from runnel.client.metadata import Topic
from runnel.client.wire import api_name
from runnel.clock import SYSTEM_CLOCK
from runnel.errors import RunnelError
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.pipeline.kafka import Kafka
from runnel.protocol.decode import Message
from runnel.protocol.schemas import versions
from runnel.protocol.versions import Api

NEEDED = (
    Api.METADATA,
    Api.FETCH,
    Api.LIST_OFFSETS,
    Api.PRODUCE,
    Api.FIND_COORDINATOR,
    Api.INIT_PRODUCER_ID,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.END_TXN,
    Api.OFFSET_COMMIT,
    Api.CREATE_TOPICS,
)
LEVEL = "metadata.version"
# The first level of Apache Kafka's `metadata.version` that belongs to a release.
RELEASES = {
    7: "3.3", 8: "3.4", 9: "3.5", 12: "3.6", 15: "3.7", 20: "3.8", 21: "3.9", 22: "4.0", 26: "4.1", 28: "4.2",
    30: "4.3", 31: "4.4", 34: "4.5",
}  # fmt: skip
BUILT = 1_750_000_000_000  # a clock that is before this month of 2025 is wrong
MINUTE = 60_000
UP = "`runnel up APP.py` starts a broker beside the app, `runnel broker start --data DIR` one alone"


def broker_checks(kafka: Kafka, app: App | None, *, is_chosen: bool) -> Iterator[Finding]:
    """`is_chosen`: somebody named the address, so that a broker should be there."""
    with kafka.cluster() as cluster:
        try:
            cluster.reach()
            yield served(kafka.bootstrap, cluster.versions())
            topics = cluster.all_topics()
        except RunnelError as error:
            is_due = is_chosen or not isinstance(error, Unreachable)
            yield told_as("broker", error) if is_due else note("broker", error.what, UP)
            yield clock([])
            return
        for noun in nouns(app):
            yield topic_of(noun, topics)
        there = [noun for noun in nouns(app) if isinstance(noun, Stream) and noun.topic in topics]
        yield clock([(stream, newest(cluster, topics[stream.topic])) for stream in there])


def served(bootstrap: str, told: Message) -> Finding:
    level = next((each["max_version_level"] for each in told["finalized_features"] if each["name"] == LEVEL), None)
    release = max((first for first in RELEASES if level is not None and first <= level), default=None)
    known = {row["api_key"]: range(row["min_version"], row["max_version"] + 1) for row in told["api_keys"]}
    missing = [api_name(api) for api in NEEDED if not any(each in known.get(api, ()) for each in versions(api))]
    if missing:
        hint = "use a Runnel broker, or Apache Kafka 2.5 or newer"
        return wrong("broker", f"{bootstrap} does not serve {', '.join(missing)}", hint)
    name = "Kafka's protocol" if release is None else f"Apache Kafka, {LEVEL} of {RELEASES[release]}"
    return well("broker", f"{bootstrap} answers: {name}, Fetch up to version {known[Api.FETCH][-1]}")


def nouns(app: App | None) -> list[Stream | Table]:
    """What the outputs of the app read from topics of others."""
    outputs = app.graph.outputs if app is not None else ()
    captures = app.captures if app is not None else ()
    written = {output.name for output in outputs} | {topic for each in captures for topic in each.topics}
    inputs = [each.noun for output in outputs for each in output.inputs]
    found = [each for each in inputs if isinstance(each, Stream | Table)]
    return [each for each in dict.fromkeys(found) if each.reading.topics is None and each.topic not in written]


def topic_of(noun: Stream | Table, topics: dict[str, Topic]) -> Finding:
    if noun.topic not in topics:
        hint = f"runnel topics create {noun.topic}; `runnel up` makes it by itself"
        return wrong(f"topic {noun.topic}", "it is not there", hint)
    count = len(topics[noun.topic].places)
    return well(f"topic {noun.topic}", f"{count} {'partition' if count == 1 else 'partitions'}")


def newest(cluster: Cluster, topic: Topic) -> int:
    """The time of its newest record; 0 if it has none."""
    found = positions.newest(cluster, topic.places).values()
    return max((each.timestamp for each in found if each is not None), default=0)


def clock(streams: Iterable[tuple[Stream, int]], now: int | None = None) -> Finding:
    """By the times of the newest records: what lies too far ahead of it is rejected."""
    now = SYSTEM_CLOCK.now() if now is None else now
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now / 1000))
    hint = "set the clocks by NTP, here and where records are made"
    if now < BUILT:
        return wrong("clock", f"it says {shown}", hint)
    most, stream = max(((at - now, stream) for stream, at in streams), key=lambda each: each[0], default=(0, None))
    if most <= MINUTE or stream is None:
        return well("clock", shown)
    found_ahead = f"the newest record of {stream.topic} lies {most / 1000:,.0f} s ahead of this machine's clock"
    limit = stream.time.ahead if stream.time is not None else None
    if limit is not None and most > limit:
        return wrong("clock", f"{found_ahead}, and rows further ahead than {limit / 1000:,.0f} s are rejected", hint)
    return note("clock", found_ahead, hint)
