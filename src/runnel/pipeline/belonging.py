"""Whether an output and a data directory belong together, asked before anybody is fenced.

To open a publisher, or to claim a view, stops whoever writes there now. A copy of the app that was started with another
directory cannot go on with these outputs: it must find that out first, and leave the other one alone. What is committed
at this very moment is not seen here, so only what cannot change is refused; when the older writers are fenced, every
batch is compared again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runnel.client.cluster import Cluster
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.errors import OtherCheckpoint
from runnel.pipeline.markers import read_marker
from runnel.pipeline.place import Place
from runnel.views.errors import UnknownView


def check_outputs(place: Place, outputs: Iterable[Derived | View]) -> None:
    """OtherCheckpoint if one of them was made from another directory, or from a later state of this one."""
    with place.kafka.cluster() as cluster:
        topics = cluster.all_topics()
        for output in outputs:
            marker = _of_view(place, output) if isinstance(output, View) else _of_stream(place, output, cluster, topics)
            checkpoint = Checkpoint(place.checkpoint_of(output.name))
            if marker is not None:
                _check(output.name, checkpoint, marker)


def _of_stream(place: Place, stream: Derived, cluster: Cluster, topics: Iterable[str]) -> Any:
    marks = place.marks_of(stream.name)
    return read_marker(cluster, marks, stream.name) if marks in topics else None


def _of_view(place: Place, view: View) -> Any:
    try:
        with place.store().reader(view.name) as reader:
            return reader.marker()
    except UnknownView:
        return None


def _check(query: str, checkpoint: Checkpoint, marker: Any) -> None:
    if not checkpoint.is_begun:
        raise OtherCheckpoint(
            query, f"its output was made by checkpoint {marker.checkpoint}, and this directory has none"
        )
    if marker.checkpoint != checkpoint.id:
        raise OtherCheckpoint(
            query, f"its output was made by checkpoint {marker.checkpoint}, and this is {checkpoint.id}"
        )
    if marker.batch > checkpoint.last:
        raise OtherCheckpoint(query, f"its output is at batch {marker.batch}, and the checkpoint at {checkpoint.last}")
