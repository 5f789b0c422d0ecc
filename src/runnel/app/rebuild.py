"""Rebuilds a view: reads the log again into a new copy beside the old one, which then takes the view's place.

The copy is made by this process, with a Spark of its own, while the app goes on, or does not. It stays behind the view
(`CopyQuery`). When it is near (`Chase`), the app is asked to let go of the view, the copy comes to the very position
where the view stands, and both change places (`Swap`). If no app runs, nobody need be asked.

Killed at any time, the view is as it was, or the copy has taken its place. A rebuild that is started again goes on
where it was, unless the code has changed since.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

from runnel.app.app import App
from runnel.app.beginnings import Topics, begin_where_it_began, tables_of_before, topics_of, topics_of_before
from runnel.app.code import code_of, keep_code, last_code, modules_of
from runnel.app.offering import offered
from runnel.app.owner import LOCK
from runnel.app.rebuilds import Rebuilds, freed, size_of
from runnel.app.runner import Running, place_of
from runnel.app.trouble import Kept, told_if_full
from runnel.client import positions
from runnel.counted import counted
from runnel.errors import Permanent, Transient
from runnel.files import DiskFiles, Lock, make_directories
from runnel.graph.derived import Derived
from runnel.graph.names import REBUILT
from runnel.graph.view import View
from runnel.pipeline.belonging import check_app
from runnel.pipeline.body_failure import body_of
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in, is_named, name_checkpoint
from runnel.pipeline.copy_query import CopyQuery
from runnel.pipeline.errors import NoLongerFits
from runnel.pipeline.given_session import fitted
from runnel.pipeline.java_process import ended
from runnel.pipeline.place import Place
from runnel.pipeline.query import Known
from runnel.pipeline.repartition import sharing_by
from runnel.pipeline.session import Session, spark_session
from runnel.pipeline.shipping import ship
from runnel.pipeline.source.followed import Followed
from runnel.pipeline.swap import OLD
from runnel.pipeline.tables.told import AllTold, Standing, merged, read_told, write_told
from runnel.pipeline.unplanning import unplan
from runnel.stop_request import StopRequest
from runnel.views.errors import UnknownView
from runnel.views.store import Marker, ViewReader
from runnel.views.waiting import VIEW

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.1  # seconds
REPORT_EVERY = 10.0
NEAR = 4  # batches: one under way and the next, and those of Spark that only bring the watermark forward
KEPT_FOR = 7 * 24 * 60 * 60 * 1000  # milliseconds
FOLLOWED = "followed.json"  # how far the view is
SHARED = "partitions"  # how many were asked for

Positions: TypeAlias = dict[str, dict[str, int]]


class NotRebuilt(Permanent):
    pass


class Rebuilt(NamedTuple):
    """What came of it: records that the copy counted, and the bytes of the old one's checkpoint and state."""

    in_time: int
    late: int
    rejected: int
    gone: int
    old_bytes: int
    is_kept: bool

    def __str__(self) -> str:
        of_the_old = f"{freed(self.old_bytes)} {'kept for a rollback' if self.is_kept else 'freed'}"
        gone = f", {self.gone:,} gone" if self.gone else ""
        return f"{counted(self.in_time, 'row')}, {self.late:,} late, {self.rejected:,} rejected{gone}; {of_the_old}"


class Asked:
    """The marker of a view, over a connection that stays: it is asked for many times a second."""

    def __init__(self, connect: Callable[[], ViewReader]) -> None:
        self._connect = connect
        self._reader: ViewReader | None = None

    def marker(self) -> Marker | None:
        try:
            if self._reader is None:
                self._reader = self._connect()
            return self._reader.marker()
        except UnknownView:
            return None

    def close(self) -> None:
        """It can still be asked, and makes another connection then."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None


class Rebuild:
    """Of one view of the app. `keep` keeps the old copy for a rollback. A rollback is the same with the copy that was
    kept: with `back` it goes on from where it was left, comes up to the view, and takes its place. What the view
    remembers is shared by `partitions` tasks, as many as cores if that is None: the new checkpoint holds to it.
    """

    def __init__(
        self,
        app: App,
        name: str,
        running: Running,
        *,
        keep: bool = False,
        back: bool = False,
        partitions: int | None = None,
    ) -> None:
        self._output = view_of(app, name, "cannot be rolled back" if back else "cannot be rebuilt")
        self._app = app
        self._running = running
        self._keep = keep or back
        self._back = back
        self._partitions = partitions
        self._stopping = StopRequest()
        self._place = place_of(app, running)
        self._rebuilds = Rebuilds(self._place, name)
        self._view = Asked(lambda: self._place.store().reader(name))
        self._copy = Asked(lambda: self._place.store().copy_reader(name))
        self._code = code_of(self._output)

    def stop(self) -> None:
        """Finish the batch under way, and end; the next one goes on from there. May be called by a signal's handler."""
        self._stopping.set()

    def run(self, *, when_started: Callable[[], object] = lambda: None) -> Rebuilt | None:
        """Until the copy has taken the view's place; None if it was stopped before."""
        check_app(self._place, self._output)
        with closing(self._view), closing(self._copy), told_if_full(self._running.data), self._rebuilds.owned():
            if self._rebuilds.swap.plan is not None:
                with in_peace(self._rebuilds, self._running.data, self._stopping) as is_granted:
                    if not is_granted:
                        return None
                    patiently(self._rebuilds.swap.finish)
                logger.info("%s: a copy was about to take its place: that is finished now", self._output.name)
                if last_code(self._place.directory_of(self._output.name)) == self._code:
                    is_kept = self._rebuilds.kept_until is not None
                    return Rebuilt(0, 0, 0, 0, self._rebuilds.kept_bytes, is_kept)
            self._rebuilds.take_back()
            shown = self._follow(self._shown)
            if self._back:
                self._take_up_the_kept()
            least = self._ends(shown)
            try:
                return self._run(least, when_started)
            finally:
                self._rebuilds.take_back()

    # --- the copy

    def _run(self, least: Positions, when_started: Callable[[], object]) -> Rebuilt | None:
        given = self._running.spark
        spark = fitted(given) if given is not None else self._spark()
        try:
            when_started()
            query = self._query(spark)
            try:
                self._follow(self._shown)  # the copy has its directory now
                with sharing_by(spark, self._partitions):
                    query.start()
                    return self._come_up(spark, query, least)
            finally:
                query.stop()
        finally:
            if given is None and ended(spark) is None:
                spark.stop()

    def _spark(self) -> Session:
        logger.info("Spark starts, with the master %s", self._running.master)
        return spark_session(f"rebuild {self._output.name}", master=self._running.master)

    def _query(self, spark: Session) -> CopyQuery:
        """On what an earlier rebuild has left, if it was of the same code."""
        ship(spark, modules_of(self._app.graph.outputs))
        directory = self._rebuilds.directory
        place = replace(self._place, directory=directory, follow=str(directory / FOLLOWED), suffix=REBUILT)
        own = place.directory_of(self._output.name)
        known = offered(self._app, self._output, spark, place)
        if not self._back and not self._is_begun(own):
            self._begin_anew(own)
        try:
            return self._fitting(spark, place, known)
        except NoLongerFits as error:
            if self._back:
                raise NotRebuilt(
                    f"the copy of {self._output.name} that is kept is of another file: {error.what}",
                    hint="give the file as it was before the rebuild",
                ) from None
        self._begin_anew(own)
        return CopyQuery(spark, place, self._output, known)

    def _fitting(self, spark: Session, place: Place, known: Known) -> CopyQuery:
        """NoLongerFits, if what is left is of something else."""
        with body_of(self._output):
            query = CopyQuery(spark, place, self._output, known)
        try:
            query.check_fit()
        except NoLongerFits:
            query.close()
            raise
        return query

    def _take_up_the_kept(self) -> None:
        """It is where a copy is that was made by half, and stays the one that is kept until it has taken its place."""
        kept, own = self._rebuilds.directory / OLD, self._rebuilds.directory / "queries" / self._output.name
        if kept.exists() and self._rebuilds.kept_until is not None:
            self._unplan(kept)
            shutil.rmtree(own, ignore_errors=True)
            make_directories(str(own.parent))
            kept.rename(own)
        if self._rebuilds.kept_until is None or not Checkpoint(checkpoint_in(own)).is_begun:
            raise NotRebuilt(
                f"{self._output.name} has no copy to go back to",
                hint="`runnel rebuild --keep` keeps the old one, for seven days",
            )
        name_checkpoint(own)
        keep_code(own, self._code)

    def _unplan(self, kept: Path) -> None:
        """A batch that it had planned when it let go reaches further than the view, which read on behind it: as a copy,
        it would read records that the view has yet to read, and put some of them aside without telling. To be done
        while it is the one that is kept: from where copies are made, another rebuild may go on with it.
        """
        marker = self._copy.marker()
        unplan(kept, marker.batch if marker is not None else -1)

    def _is_begun(self, own: Path) -> bool:
        """Whether what is there was begun by the same call."""
        try:
            is_same = last_code(own) == self._code and (own / SHARED).read_text() == str(self._partitions)
        except FileNotFoundError:
            return False
        return is_same and is_named(own)

    def _begin_anew(self, own: Path) -> None:
        if self._rebuilds.kept_until is not None:
            logger.warning(
                "%s: the copy that an earlier rebuild has kept is removed, as one is kept at most: a rollback goes to "
                "the view as it is now, if --keep was given",
                self._output.name,
            )
        self._rebuilds.remove()
        make_directories(str(own))
        begin_where_it_began(self._place.directory_of(self._output.name), own, self._inputs)
        (own / SHARED).write_text(str(self._partitions))
        name_checkpoint(own)
        keep_code(own, self._code)

    # --- the view, and how far it is

    def _shown(self) -> Marker:
        marker = self._view.marker()
        if marker is None:
            what = "rolled back" if self._back else "rebuilt"
            raise NotRebuilt(
                f"{self._output.name} has nothing to be {what}: no batch of it was ever done",
                hint="start the app, and it is built; see to --data and --views if it was built before",
            )
        return marker

    def _at_rest(self) -> Marker:
        """Where the view stands while nobody writes it. Its last batch may have published what it put aside, and died
        before its rows were kept: then it stands behind that batch, or those rows would be published once more.
        """
        shown, told = self._shown(), self._rebuilds.swap.told()
        if told is None or told.checkpoint != shown.checkpoint or told.batch <= shown.batch:
            return shown
        return replace(shown, batch=told.batch, positions=told.positions)

    def _follow(self, look: Callable[[], Marker]) -> Marker:
        """Let the copy read as far as the view has, and know what the view has told of tables."""
        standing = Standing(self._place.directory_of(self._output.name), self._tables_of_before)
        shown = look()
        patterns = tuple(each.pattern for each in self._inputs_of_before if each.pattern is not None)
        told = Followed(self._known(shown), patterns).to_text()
        path = self._rebuilds.directory / FOLLOWED
        if not path.exists() or path.read_text() != told:
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(told)
            temporary.replace(path)
        self._tell(standing.at(shown.batch))
        return shown

    def _tell(self, told: AllTold) -> None:
        own = self._rebuilds.directory / "queries" / self._output.name
        known = read_told(own)
        if own.exists() and (now := merged(known, told)) != known:
            write_told(own, now)

    def _known(self, shown: Marker) -> Positions:
        """Also of topics that the view reads, and of which it may not have had a record yet."""
        return {**{each.name: {} for each in self._inputs_of_before if each.pattern is None}, **shown.positions}

    @cached_property
    def _inputs(self) -> tuple[Topics, ...]:
        return topics_of(self._output.inputs)

    @cached_property
    def _inputs_of_before(self) -> tuple[Topics, ...]:
        return topics_of_before(self._place.directory_of(self._output.name))

    @cached_property
    def _tables_of_before(self) -> tuple[tuple[int, str], ...]:
        return tables_of_before(self._place.directory_of(self._output.name))

    def _ends(self, shown: Marker) -> Positions:
        """How far the copy must come at least: to where the view is now, and to what is there now in topics that it did
        not read before. NotRebuilt if the log does not reach so far, or if it cannot be told how far the view is.
        """
        with self._place.kafka.cluster() as cluster:
            cluster.reach()
            there = {topic for topic in cluster.all_topics() if any(topic in each for each in self._inputs)}
            latest = positions.latest(cluster, [place for each in there for place in cluster.topic(each).places])
        for topic in sorted(there | set(_of_topics(shown))):
            if any(sum(topic in each for each in inputs) > 1 for inputs in (self._inputs, self._inputs_of_before)):
                raise NotRebuilt(
                    f"{self._output.name} has two inputs that read {topic}: how far each of them is, is not known",
                    hint="build it under another name; one input can be joined with itself",
                )
        for (topic, partition), end in latest.items():
            at = shown.positions.get(topic, {}).get(str(partition), 0)
            if at > end:
                raise NotRebuilt(
                    f"{self._output.name} was read up to offset {at:,} of {topic}-{partition}, which ends at {end:,}: "
                    "the log has lost records",
                    hint="build it under another name; what was made of those records is in the old one alone",
                )
        known = self._known(shown)
        new: Positions = {}
        for (topic, partition), end in latest.items():
            if topic not in known and not any(topic in each for each in self._inputs_of_before):
                new.setdefault(topic, {})[str(partition)] = end
        return {**_of_topics(shown), **new}

    # --- side by side

    def _come_up(self, spark: Session, query: CopyQuery, least: Positions) -> Rebuilt | None:
        kept = Kept(query)
        chase = Chase(query)
        rest: Marker | None = None  # where the view stands, once it does
        has_come = False
        reported = time.monotonic()
        is_troubled = False
        with Peace(self._rebuilds, self._running.data) as peace:
            while not self._stopping.wait(LOOK_EVERY):
                if (gone := ended(spark)) is not None:
                    raise gone
                kept.look()
                if time.monotonic() - reported >= REPORT_EVERY:
                    reported = time.monotonic()
                    logger.info("%s, the new copy: %s", query.name, query.totals)
                try:
                    if rest is not None:
                        has_come = self._has_come_to(rest, least)
                    elif self._is_near(chase, least) and peace.is_granted():
                        rest = self._follow(self._at_rest)  # the app may have done one more batch meanwhile
                except Transient as error:
                    if not is_troubled:
                        logger.warning("%s, the new copy, waits, and goes on by itself: %s", query.name, error)
                    is_troubled = True
                    continue
                is_troubled = False
                if has_come:
                    query.stop()
                    return self._swap(query)
        return None

    def _is_near(self, chase: Chase, least: Positions) -> bool:
        shown = self._follow(self._shown)
        return chase.is_near(shown, lambda goal: self._has_come_to(goal, least))

    def _has_come_to(self, goal: Marker, least: Positions) -> bool:
        """The copy, to where the view is or was."""
        return _has_come_to(self._copy.marker(), {**least, **_of_topics(goal)}, self._inputs)

    def _swap(self, query: CopyQuery) -> Rebuilt:
        old = size_of(self._place.directory_of(query.name))
        until = round(time.time() * 1000) + KEPT_FOR if self._keep else None
        self._rebuilds.swap.decide(f"queries/{query.name}", until)
        patiently(self._rebuilds.swap.finish)
        totals = query.totals
        return Rebuilt(totals.in_time, totals.late, totals.rejected, totals.gone, old, self._keep)


def discard(app: App, name: str, running: Running) -> int:
    """Remove the copy that was kept, or left by half. Its bytes."""
    view_of(app, name, "has no copy")
    rebuilds = Rebuilds(place_of(app, running), name)
    with rebuilds.owned():
        if rebuilds.swap.plan is not None:
            raise NotRebuilt(
                f"a copy of {name} was about to take its place", hint="start the app, or rebuild it: that finishes it"
            )
        return rebuilds.remove()


def view_of(app: App, name: str, otherwise: str) -> View:
    """NotRebuilt if it is none: what a derived stream is `otherwise`."""
    found = next((output for output in app.graph.outputs if output.name == name), None)
    if isinstance(found, View):
        return found
    if isinstance(found, Derived):
        raise NotRebuilt(
            f'stream "{name}" {otherwise}: others have read its topic, and would read everything again',
            hint=f"`runnel replay {name} APP.py --from TIME --to-topic TOPIC` writes what it makes now to another one",
        )
    views = ", ".join(output.name for output in app.graph.outputs if isinstance(output, View))
    raise NotRebuilt(f'app "{app.name}" has no view {name!r}', hint=f"it has: {views or 'none'}")


class Chase:
    """The copy comes to where the view was, again and again: near it, once that takes no more than a few batches. While
    records keep coming it comes no nearer, since the view has done another batch by then.
    """

    def __init__(self, query: CopyQuery) -> None:
        self._query = query
        self._goal: Marker | None = None
        self._since = 0  # batches that were done when the view was there
        self._is_near = False

    def is_near(self, shown: Marker, has_come_to: Callable[[Marker], bool]) -> bool:
        """Now that the view is shown there. Once near, it stays so: the app was asked to let go."""
        if self._goal is None:
            self._goal, self._since = shown, self._query.done
        if has_come_to(self._goal):
            self._is_near = self._is_near or self._query.done - self._since <= NEAR
            self._goal = None
        return self._is_near


class Peace:
    """Nobody writes the view: the app has let go of it, or does not run and cannot start."""

    def __init__(self, rebuilds: Rebuilds, data: Path) -> None:
        self._rebuilds = rebuilds
        self._data = data
        self._lock: Lock | None = None

    def is_granted(self) -> bool:
        """Ask for it, and say whether it is."""
        if self._lock is None and not self._rebuilds.is_released:
            self._lock = DiskFiles().lock(str(self._data / LOCK))
            if self._lock is None:
                self._rebuilds.ask()
        return self._lock is not None or self._rebuilds.is_released

    def __enter__(self) -> Peace:
        return self

    def __exit__(self, *_: object) -> None:
        self._rebuilds.take_back()
        if self._lock is not None:
            self._lock.release()


@contextmanager
def in_peace(rebuilds: Rebuilds, data: Path, stopping: StopRequest) -> Iterator[bool]:
    """Waits for it; False if it was stopped before."""
    with Peace(rebuilds, data) as peace:
        is_granted = peace.is_granted()
        while not is_granted and not stopping.wait(LOOK_EVERY):
            is_granted = peace.is_granted()
        yield is_granted


def patiently(step: Callable[[], None]) -> None:
    """Again and again, as long as what hinders it passes: what is decided must be done."""
    is_told = False
    while True:
        try:
            return step()
        except Transient as error:
            if not is_told:
                logger.warning("waits, and goes on by itself: %s", error)
            is_told = True
            time.sleep(1)


def _has_come_to(copy: Marker | None, ends: Positions, inputs: tuple[Topics, ...]) -> bool:
    """As far as the view, in all topics that it still reads."""
    if copy is None:
        return False
    read = _of_topics(copy)
    return all(
        read.get(topic, {}).get(partition, 0) >= end
        for topic, each in ends.items()
        if any(topic in one for one in inputs)
        for partition, end in each.items()
    )


def _of_topics(marker: Marker) -> Positions:
    """Without the views that are read as inputs: they have rows, and nothing that could be told twice."""
    return {topic: at for topic, at in marker.positions.items() if not topic.startswith(VIEW)}
