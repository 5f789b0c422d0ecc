"""Whether an output and a data directory belong together, asked before anybody is fenced.

To open a publisher, or to claim a view, stops whoever writes there now. A copy of the app that was started with another
directory cannot go on with these outputs: it must find that out first, and leave the other one alone. What is committed
at this very moment is not seen here, so only what cannot change is refused; when the older writers are fenced, every
batch is compared again.

A view has two outputs: its rows, in a store that may lie in the directory itself, and what was put aside, in topics.
And an input belongs to the directory, too: a topic that was made again has other records at the offsets that are kept.

What an app has in Kafka has its name: under another name, nobody would find the markers, and fence whoever writes. So a
directory is of the app that began it. And a newer Spark reads what an older one wrote, not the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.version import __version__ as spark_version

from runnel.client.cluster import Cluster
from runnel.client.errors import TopicReplaced
from runnel.client.metadata import Topic
from runnel.graph.derived import Derived
from runnel.graph.graph import Noun
from runnel.graph.stream import Stream
from runnel.graph.view import View
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.errors import OtherCheckpoint, OtherMaker, ViewGone
from runnel.pipeline.fitting import maker_of
from runnel.pipeline.markers import read_marker
from runnel.pipeline.place import Place
from runnel.views.addresses import shown
from runnel.views.errors import UnknownView


def check_outputs(place: Place, outputs: Sequence[Derived | View]) -> None:
    """OtherMaker if the directory is of another app, or of a newer Spark; OtherCheckpoint if one of them was made from
    another directory, from a later state of this one, or is gone; TopicReplaced if an input is another topic now.
    """
    for output in outputs:
        check_app(place, output)
        _check_spark(place, output)
    with place.kafka.cluster() as cluster:
        topics = cluster.all_topics()
        for output in outputs:
            checkpoint = Checkpoint(place.checkpoint_of(output.name))
            done = checkpoint.last_done  # before the markers are read: the app may run
            or_else = _begin_anew(place.marks_of(output.name)) if isinstance(output, View) else ""
            kept = _of_store(place, output) if isinstance(output, View) else None
            told = _of_topics(place, output, cluster, topics)
            _check(output.name, checkpoint, kept)
            _check(output.name, checkpoint, told, or_else)
            if done >= 0 and (kept if isinstance(output, View) else told) is None:
                raise _output_gone(place, output, done)
            _check_inputs(output, checkpoint, done, topics)


def check_app(place: Place, output: Derived | View) -> None:
    """OtherMaker if the output's checkpoint is of another app."""
    app = maker_of(place.directory_of(output.name)).app
    if app and app != place.app and _is_begun(place, output):
        raise OtherMaker(
            output.name,
            f'its checkpoint is of app "{app}", and this is app "{place.app}"',
            hint="give each app a data directory of its own by --data; an app that has run keeps its name",
        )


def _check_spark(place: Place, output: Derived | View) -> None:
    spark = maker_of(place.directory_of(output.name)).spark
    if _release(spark) > _release(spark_version) and _is_begun(place, output):
        raise OtherMaker(
            output.name,
            f"its checkpoint is of Spark {spark}, and this is Spark {spark_version}, which is older",
            hint="run it with the Spark that it had; nothing was changed",
        )


def _is_begun(place: Place, output: Derived | View) -> bool:
    return Checkpoint(place.checkpoint_of(output.name)).last >= 0


def _release(version: str) -> list[int]:
    """Within one, every Spark reads what the others wrote."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def _begin_anew(marks: str) -> str:
    return (
        f"; if the view was to be made anew and its other directory is gone, delete the topic {marks}: "
        "late and rejected rows are told once more then"
    )


def _of_topics(place: Place, output: Derived | View, cluster: Cluster, topics: Mapping[str, Topic]) -> Any:
    marks = place.marks_of(output.name)
    return read_marker(cluster, marks, output.name) if marks in topics else None


def _of_store(place: Place, view: View) -> Any:
    try:
        with place.store().reader(view.name) as reader:
            return reader.marker()
    except UnknownView:
        return None


def _check(query: str, checkpoint: Checkpoint, marker: Any, or_else: str = "") -> None:
    if marker is None:
        return
    made = f"its output was made by checkpoint {marker.checkpoint}"
    if not checkpoint.is_begun:
        raise OtherCheckpoint(query, f"{made}, and this directory has none", or_else=or_else)
    if marker.checkpoint != checkpoint.id:
        raise OtherCheckpoint(query, f"{made}, and this is {checkpoint.id}", or_else=or_else)
    if marker.batch > checkpoint.last:
        raise OtherCheckpoint(query, f"its output is at batch {marker.batch}, and the checkpoint at {checkpoint.last}")


def _output_gone(place: Place, output: Derived | View, done: int) -> OtherCheckpoint | ViewGone:
    """Of what was made by batches that came to their end, nothing is known where it should be."""
    if isinstance(output, View):
        directory, marks = place.directory_of(output.name), place.marks_of(output.name)
        return ViewGone(output.name, shown(place.views), done, str(directory), marks)
    return OtherCheckpoint(output.name, f"its output has no mark of any batch, and the checkpoint is at batch {done}")


def _check_inputs(output: Derived | View, checkpoint: Checkpoint, done: int, topics: Mapping[str, Topic]) -> None:
    """Of those that have a position. One that is no longer declared is compared elsewhere."""
    ends = checkpoint.logged(done).ends if done >= 0 else {}
    for number, each in enumerate(output.inputs):
        known = ends[number].ids if number in ends else {}
        for topic, identity in known.items():
            found = topics.get(topic)
            if found is None or found.id is None or not identity or not _reads(each.noun, topic):
                continue
            if str(found.id) != identity:
                raise TopicReplaced(topic, identity, str(found.id))


def _reads(noun: Noun, topic: str) -> bool:
    """Not the log of a view, whose position is kept by its own name."""
    if isinstance(noun, Stream):
        return noun.reads(topic)
    return not isinstance(noun, View) and noun.topic == topic
