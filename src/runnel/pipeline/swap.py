"""A copy takes the place of its view: rows, markers and checkpoint, by steps that can be repeated.

A view is at home in three places that no transaction spans: its store, its marker in Kafka, its directory. What is to
be done is written down first (`swap.json`). Who dies in between leaves it to the next one, who does what is not yet
done; each step sees that for itself. Readers see the store alone, where it is one transaction.

    DATA/rebuilds/NAME/queries/NAME   the checkpoint of the copy, while it is made or brought up to date
    DATA/rebuilds/NAME/old            that of the copy that is kept for a rollback
    DATA/rebuilds/NAME/away           that of the view, for a moment
"""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from runnel.client.cluster import Cluster
from runnel.durable import durable
from runnel.files import DISK, replace_file
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in
from runnel.pipeline.errors import OtherCheckpoint
from runnel.pipeline.markers import Marker, read_marker
from runnel.pipeline.place import Place
from runnel.pipeline.sinks.publisher import Publisher, rejected
from runnel.pipeline.tables.told import forget_untold, untold_up_to

JOURNAL, KEPT, OLD, AWAY = "swap.json", "kept.json", "old", "away"


@dataclass(frozen=True)
class Plan:
    """`source` is the directory that comes in, below that of the rebuilds of the view. The checkpoint with the id
    `old` goes, if it is not lost, and `new` comes. `keep_until`: milliseconds since 1970, None if nothing is kept.
    """

    source: str
    old: str
    new: str
    keep_until: int | None


class Swap:
    """Of the view `name`; `place` is that of the app, `directory` that of the view's rebuilds. To be used by one
    process at a time, which sees to that by a lock.
    """

    def __init__(self, place: Place, name: str, directory: Path) -> None:
        self._place = place
        self._name = name
        self._directory = directory

    @property
    def plan(self) -> Plan | None:
        """What was decided and is not done."""
        try:
            return Plan(**json.loads((self._directory / JOURNAL).read_text()))
        except FileNotFoundError:
            return None

    def decide(self, source: str, keep_until: int | None) -> None:
        """From here on it will be done, whoever dies."""
        new = Checkpoint(checkpoint_in(self._directory / source)).id
        shown = Checkpoint(self._place.checkpoint_of(self._name))
        plan = Plan(source, shown.id if shown.is_begun else "", new, keep_until)
        with durable("rebuild.decide"):
            replace_file(DISK, str(self._directory / JOURNAL), json.dumps(asdict(plan)).encode())

    def told(self) -> Marker | None:
        """The view's marker in Kafka, when whoever wrote it is fenced. Nobody may be at work on the view."""
        marks = self._make_marks()
        with self._place.kafka.cluster() as cluster:
            publisher = self._publisher(cluster, marks)
            publisher.open()
            return publisher.marker

    def finish(self) -> None:
        """All that is decided and not done."""
        plan = self.plan
        if plan is None:
            return
        self._exchange_rows(plan)
        self._mark(plan)
        self._exchange_directories(plan)
        self._clean_up(plan)
        with durable("rebuild.end"):
            (self._directory / JOURNAL).unlink()
            DISK.sync_directory(str(self._directory))

    def _exchange_rows(self, plan: Plan) -> None:
        store = self._place.store()
        with store.reader(self._name) as reader:
            shown = reader.marker()
        if shown is not None and shown.checkpoint == plan.new:
            return
        copy = store.copy_marker(self._name)
        if copy is None or copy.checkpoint != plan.new:
            raise OtherCheckpoint(self._name, f"the copy of its rows is not that of checkpoint {plan.new}")
        store.exchange(self._name)

    def _mark(self, plan: Plan) -> None:
        """What was put aside goes on behind the marker of the copy. With it goes what the copy has rejected of tables,
        and the view has not read.
        """
        with self._place.store().reader(self._name) as reader:
            shown = reader.marker()
        assert shown is not None
        marks = self._make_marks()
        with self._place.kafka.cluster() as cluster:
            found = read_marker(cluster, marks, self._name)
            if found is not None and found.checkpoint == plan.new:
                return
            untold = untold_up_to(self._directory / plan.source, shown.batch)
            publisher = self._publisher(cluster, marks)
            publisher.open()
            if publisher.marker is not None and publisher.marker.checkpoint == plan.new:
                return  # whoever died had sent its commit, which is seen now that he is fenced
            self._make_sides(untold)
            with durable("rebuild.mark"):
                publisher.publish(Marker(self._name, shown.batch, shown.checkpoint, dict(shown.positions)), {}, untold)

    def _make_sides(self, untold: pa.Table) -> None:
        beside = {rejected(topic): {topic} for topic in untold["stream"].to_pylist()}
        if beside:
            self._place.kafka.make_topics({side: {} for side in beside}, partitions=1, beside=beside)

    def _make_marks(self) -> str:
        marks = self._place.marks_of(self._name)
        self._place.kafka.make_topic(marks, partitions=1, configs={"cleanup.policy": "compact"})
        return marks

    def _publisher(self, cluster: Cluster, marks: str) -> Publisher:
        late = f"{self._name}.late"
        return Publisher(cluster, self._name, name=self._place.id_of(self._name), marks=marks, late=late)

    def _exchange_directories(self, plan: Plan) -> None:
        """Which is which, their ids tell: a Spark that has not ended yet may make a directory again that went."""
        source, away = self._directory / plan.source, self._directory / AWAY
        shown = self._place.directory_of(self._name)
        if _is_of(shown, plan.new) or not source.exists():
            return
        if _is_of(away, plan.old) and not _is_of(shown, plan.old):
            shutil.rmtree(shown, ignore_errors=True)
        elif shown.exists():
            shutil.rmtree(away, ignore_errors=True)
            with durable("rebuild.away"):
                _move(shown, away)
        with durable("rebuild.in"):
            _move_over(source, shown)

    def _clean_up(self, plan: Plan) -> None:
        old, away, kept = self._directory / OLD, self._directory / AWAY, self._directory / KEPT
        forget_untold(self._place.directory_of(self._name))
        if plan.keep_until is None:
            self._place.store().drop_copy(self._name)
            kept.unlink(missing_ok=True)
            shutil.rmtree(away, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
        else:
            if away.exists():
                shutil.rmtree(old, ignore_errors=True)
                _move(away, old)
            with durable("rebuild.keep"):
                replace_file(DISK, str(kept), json.dumps({"until": plan.keep_until, "checkpoint": plan.old}).encode())
        shutil.rmtree(self._directory / "queries", ignore_errors=True)


def _is_of(directory: Path, checkpoint: str) -> bool:
    """Whether the checkpoint in it has this id."""
    found = Checkpoint(checkpoint_in(directory))
    return found.is_begun and found.id == checkpoint


def _move_over(source: Path, target: Path) -> None:
    """Over what a Spark that has not ended yet makes at this very moment."""
    while True:
        try:
            return _move(source, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(target, ignore_errors=True)


def _move(source: Path, target: Path) -> None:
    source.rename(target)
    for each in {source.parent, target.parent}:
        DISK.sync_directory(str(each))
