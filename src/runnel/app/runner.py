"""Runs an app: builds its parts from settings, starts a query for each output, and stops them between two batches.

All that it keeps on this machine lives under one directory: the queries' checkpoints, and the views if they have no
other store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from runnel.app.app import App
from runnel.app.capturing import Captures, looked_for, make_topics
from runnel.app.code import code_of, keep_code, modules_of
from runnel.app.handover import Handover
from runnel.app.observation import observation
from runnel.app.owner import LOCK
from runnel.app.progress import AppProgress, State
from runnel.app.rebuilds import settle_all
from runnel.app.trouble import FULL, Kept, QueryFailed, told_if_full
from runnel.app.watching import Watching
from runnel.client import positions
from runnel.client.cluster import PATIENCE, Cluster
from runnel.errors import DirectoryOwned, Permanent, RunnelError, Transient, UnusableDirectory
from runnel.files import DiskFiles, Lock, make_directories
from runnel.graph.alert import AlertRule
from runnel.graph.derived import Derived
from runnel.graph.graph import Output, sides
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.view import View
from runnel.pipeline import proxies
from runnel.pipeline.belonging import check_outputs
from runnel.pipeline.body_failure import body_of
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.failure import told
from runnel.pipeline.given_session import fitted
from runnel.pipeline.java_process import ended
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.old_generation import OldGeneration
from runnel.pipeline.place import PARALLEL_FROM, Place
from runnel.pipeline.query import Known, Query
from runnel.pipeline.repartition import Repartition, sharing_by
from runnel.pipeline.session import Session, class_archive, spark_session, stop_quietly
from runnel.pipeline.shipping import ship
from runnel.pipeline.stream_query import StreamQuery
from runnel.pipeline.view_query import ViewQuery
from runnel.pipeline.warming import warm
from runnel.stop_request import StopRequest
from runnel.views.opening import absolute

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.2  # seconds, whether a query has ended
REPORT_EVERY = 10.0
ENDING = 5.0  # seconds that a process that is ending may need for it
FEW = 2_000_000  # records: to read them takes seconds, for which Java's second compiler would need as long


@dataclass(frozen=True)
class Running:
    """How an app is run. `views` is a directory or a URL; without it the data directory. `spark` is a session that is
    there already, and stays when the app ends. `settings` are librdkafka's, for the connection. A broker that does not
    answer for `patience` seconds is told. With `skip_gone` the app goes on behind records that were deleted before they
    were read, and tells which. With `make_topics` a topic that is declared and missing is made, not told. `held` is the
    directory by which a test holds the app, see `pipeline/source/hold.py`. `alerts` are rules beside those that the app
    declares. `metrics` is where numbers are served, HOST:PORT. `partitions` tasks share what each query remembers; if
    that is None, as many as before. With `report_every` seconds the log says how it goes.
    """

    bootstrap: str
    data: Path
    views: str | None = None
    master: str = "local[*]"
    until_caught_up: bool = False
    parallel_from: int = PARALLEL_FROM
    spark: Session | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    patience: float = PATIENCE
    skip_gone: bool = False
    make_topics: bool = False
    held: Path | None = None
    alerts: tuple[AlertRule, ...] = ()
    metrics: str | None = None
    partitions: int | None = None
    report_every: float | None = REPORT_EVERY


class Runner:
    def __init__(self, app: App, running: Running) -> None:
        if not app.graph.outputs:
            raise Permanent(f'app "{app.name}" has nothing to run', hint="declare a view or derive a stream")
        self._app = app
        self._running = running
        self._stopping = StopRequest()
        self._kept: dict[str, Kept] = {}
        self._watching: Watching | None = None
        self._captures: Captures | None = None
        self._known = Known()
        self._is_brief = False
        self._codes = {output.name: code_of(output) for output in app.graph.outputs}
        self.queries: list[Query] = []

    def run(self, *, when_started: Callable[[], object] = lambda: None) -> None:
        """Until `stop` is called, all that was there is read (if so chosen), or a query fails. From `when_started` on
        it listens to `stop`.
        """
        with told_if_full(self._running.data):
            self._run_alone(when_started)

    def _run_alone(self, when_started: Callable[[], object]) -> None:
        """As the only one with this directory."""
        running = self._running
        lock = _locked(running.data)
        if lock is None:
            raise DirectoryOwned(str(running.data), _owner(running.data / LOCK))
        try:
            place = place_of(self._app, running)
            captured = self._app.captures if running.held is None else []  # a test plays what they would write
            names = [output.name for output in self._app.graph.outputs]
            rules = (*self._app.alerts, *running.alerts)
            with looked_for(captured, place.kafka) as self._captures:  # a table that is mistyped gets no topic
                self._check_inputs(place.kafka)
                self._settle(place)
                with observation(place, names, rules, self._is_troubled, running.metrics) as self._watching:
                    self._captures.start()
                    if running.until_caught_up:
                        self._captures.catch_up(self._stopping)
                    self._run(place, when_started)
        finally:
            lock.release()

    def _settle(self, place: Place) -> None:
        settle_all(place, self._app.graph.outputs, self._stopping.is_set)
        for output in self._app.graph.outputs:
            Repartition(output, place.directory_of(output.name)).settle()
        check_outputs(place, self._app.graph.outputs)

    def stop(self) -> None:
        """Finish the batches under way, and end. May be called from any thread, and from a signal's handler."""
        self._stopping.set()

    @property
    def progress(self) -> AppProgress | None:
        """How it goes, as of the last second; None before the start."""
        if self._watching is None:
            return None
        return replace(self._watching.progress, captures=self._captures.progress if self._captures else ())

    def _is_troubled(self, query: str) -> bool:
        return query in self._kept and self._kept[query].is_troubled

    def _check_inputs(self, kafka: Kafka) -> None:
        """What is missing there is told before Spark starts."""
        inputs = [each.noun for output in self._app.graph.outputs for each in output.inputs]
        declared = [each for each in inputs if isinstance(each, Stream | Table) and each.reading.topics is None]
        with kafka.cluster() as cluster:
            cluster.reach()
            make_topics(self._app.captures, kafka)
            for output in self._app.graph.outputs:  # what is declared over the topic of an output need not wait for it
                if isinstance(output, Derived) and output.topic in {noun.topic for noun in declared}:
                    kafka.make_topic(output.topic, partitions=output.writing.partitions)
            own = self._put_aside() & {noun.topic for noun in declared}
            if self._running.make_topics:
                for noun in declared:
                    if noun.topic not in own:
                        self._make_topic(kafka, noun)
            found = cluster.topics(noun.topic for noun in declared if noun.topic not in own)
            for topic in sorted(own):  # what is rejected of one comes behind it
                beside = [each for each in self._put_aside_in(topic) if each in found]
                kafka.make_topics({topic: {}}, partitions=1, beside={topic: beside})
                found |= cluster.topics([topic])
            is_all = len(declared) == len([each for each in inputs if isinstance(each, Stream | Table)])
            if self._running.until_caught_up and is_all and not self._app.captures:
                self._is_brief = are_few(cluster, [place for topic in found.values() for place in topic.places])

    def _put_aside(self) -> set[str]:
        """The topics where the app's own outputs put rows aside: who reads one of them need not wait for it."""
        return {topic for output in self._app.graph.outputs for topic in sides(output)}

    def _put_aside_in(self, topic: str) -> set[str]:
        """The topics whose rows those are, or their patterns' names."""
        put = [sides(output).get(topic, ()) for output in self._app.graph.outputs]
        return {noun.topic for nouns in put for noun in nouns if not isinstance(noun, View)}

    @staticmethod
    def _make_topic(kafka: Kafka, noun: Stream | Table) -> None:
        configs = {"cleanup.policy": "compact"} if isinstance(noun, Table) else None
        if kafka.make_topic(noun.topic, configs=configs):
            logger.info("the topic of %s was missing and is made", noun)

    def _run(self, place: Place, when_started: Callable[[], object]) -> None:
        given = self._running.spark
        if given is None:
            logger.info("Spark starts, with the master %s", self._running.master)
        spark = (
            spark_session(self._app.name, master=self._running.master, brief=self._is_brief)
            if given is None
            else fitted(given)
        )
        try:
            if given is None:
                warm(spark)
            when_started()
            self._build(spark, place)
            with sharing_by(spark, self._running.partitions):
                self._share(spark)
                self._run_all(spark)
        except RunnelError:
            raise
        except Exception:  # of Spark's, which may have ended
            if (gone := ended(spark, patience=ENDING)) is None:
                raise
            raise gone from None
        finally:
            self._end(spark, is_own=given is None)
        self._tell_what_failed_last()

    def _run_all(self, spark: Session) -> None:
        first, *others = self._generations()
        if self._running.spark is None:
            proxies.look_no_more_at_what_is_there()
        self._start(first)
        if self._watching is not None:
            self._watching.start(self.queries)
        if self._running.spark is None:
            class_archive().make_later()
        self._watch(spark, first)
        for following in others:
            self._start(following)
            self._watch(spark, following)

    def _share(self, spark: Session) -> None:
        """By as many tasks as was asked for, before any query starts."""
        if (partitions := self._running.partitions) is None:
            return
        for query in self.queries:
            if not self._stopping.is_set():
                Repartition(query.output, query.place.directory_of(query.name)).run(spark, partitions)
                query.checkpoint = Checkpoint(query.place.checkpoint_of(query.name))

    def _build(self, spark: Session, place: Place) -> None:
        ship(spark, modules_of(self._app.graph.outputs))
        for output in self._app.graph.outputs:
            self.queries.append(self._query(spark, place, output))

    def _query(self, spark: Session, place: Place, output: Output) -> Query:
        with body_of(output):
            query: Query
            if isinstance(output, View):
                query = view = ViewQuery(spark, place, output, self._known)
                self._known.views[output.name] = view.columns
            else:
                query = stream = StreamQuery(spark, place, output, self._known)
                self._known.streams[output.name] = stream.columns
            query.check_fit()
        return query

    def _generations(self) -> list[list[Query]]:
        """Who runs side by side: all, or, for a run that ends, those whose sources have come to their end."""
        if not self._running.until_caught_up:
            return [self.queries]
        by_name = {query.name: query for query in self.queries}
        return [[by_name[output.name] for output in outputs] for outputs in self._app.graph.generations()]

    def _start(self, queries: list[Query]) -> None:
        for query in queries:
            if self._stopping.is_set():
                return
            self._start_one(query)
            logger.info("%s is running", query.name)

    def _start_one(self, query: Query) -> None:
        keep_code(query.place.directory_of(query.name), self._codes[query.name])
        with body_of(query.output):  # what Spark cannot do as a stream, it tells now
            query.start(until_caught_up=self._running.until_caught_up)

    def _again(self, spark: Session, query: Query) -> Query:
        """Another one in its place: it was stopped, and another process was at its files."""
        another = self._query(spark, query.place, query.output)
        another.totals = query.totals  # since the app was started
        self.queries[[each.name for each in self.queries].index(query.name)] = another
        self._start_one(another)
        return another

    def _watch(self, spark: Session, queries: list[Query]) -> None:
        """Until there is nothing left to run. The first failure that does not pass ends all."""
        every = {query.name: Kept(query, until_caught_up=self._running.until_caught_up) for query in queries}
        self._kept |= every
        handovers = {query.name: self._handover(spark, query) for query in queries}
        waited = kept_for = 0.0
        old = OldGeneration(spark) if self._running.spark is None else None
        while not self._stopping.wait(LOOK_EVERY):
            if (gone := ended(spark)) is not None:
                raise gone
            if self._captures is not None:
                self._captures.look()
            for name, handover in handovers.items():
                if handover.look():
                    every[name] = Kept(handover.query, until_caught_up=self._running.until_caught_up)
                    self._kept[name] = every[name]
            looks = [self._goes_on(handovers[name], kept) for name, kept in every.items()]
            if not any(looks):
                break
            kept_for += LOOK_EVERY
            if old is not None and kept_for >= proxies.EVERY:
                kept_for = 0.0
                old.look()
                proxies.let_go()  # Java hears of it within a second, so it is for the next look
            waited += LOOK_EVERY
            if self._running.report_every is not None and waited >= self._running.report_every:
                waited = 0.0
                self._report()
        for handover in handovers.values():
            logger.info("%s: %s", handover.query.name, handover.query.totals)

    def _goes_on(self, handover: Handover, kept: Kept) -> bool:
        if handover.is_away:  # one that waits for a start of the app would keep a run that ends from ending
            return not (handover.waits_for_a_start and self._running.until_caught_up)
        return kept.look()

    def _handover(self, spark: Session, query: Query) -> Handover:
        return Handover(query, self._codes[query.name], lambda: self._again(spark, query))

    def _report(self) -> None:
        progress = self.progress
        if progress is None:
            return
        for capture in progress.captures:
            logger.info("%s", capture, extra={"capture": asdict(capture)})
        for query in progress.queries:
            if query.state is State.RUNS:
                logger.info("%s: %s", query.name, query, extra={"progress": query.to_object()})

    def _end(self, spark: Session, *, is_own: bool) -> None:
        """Whoever kills all processes at once has killed Java, too: there is nothing to stop then."""
        if ended(spark) is not None:
            return
        try:
            for query in self.queries:
                query.stop()
            if is_own:
                stop_quietly(spark)
        except Exception:
            if ended(spark, patience=ENDING) is None:
                raise

    def _tell_what_failed_last(self) -> None:
        """A batch that was to be finished may fail. One that can be repeated will be, by the next run."""
        for query in self.queries:
            if (failure := query.last_failure) is None:
                continue
            error = told(failure)
            if not isinstance(error, Transient):
                raise QueryFailed(query.name, error.what, hint=error.hint)
            logger.warning("%s could not finish its batch, which the next run repeats: %s", query.name, error)


def place_of(app: App, running: Running) -> Place:
    address = absolute(running.views or str(running.data))
    kafka = Kafka(running.bootstrap, running.settings, running.patience)
    held = str(running.held or "")
    return Place(app.name, kafka, running.data, address, running.parallel_from, running.skip_gone, held)


def are_few(cluster: Cluster, places: list[tuple[str, int]]) -> bool:
    """All the records of these partitions, as far as that can be told."""
    try:
        ends = positions.latest(cluster, places)
        return sum(ends[place] - at for place, at in positions.earliest(cluster, places).items()) <= FEW
    except RunnelError:  # such as a partition without a leader, which is waited for later
        return False


def _locked(data: Path) -> Lock | None:
    """None if another process has the directory, which is made where it is missing."""
    try:
        make_directories(str(data))
        return DiskFiles().lock(str(data / LOCK))
    except OSError as error:
        if error.errno in FULL:
            raise
        hint = "name one that can be written by who runs the app, on a disk that is not read-only"
        raise UnusableDirectory(str(data), f"{error.strerror}: {error.filename or data}", hint=hint) from None


def _owner(lock: Path) -> int | None:
    """The process that has the lock, by what it wrote into the file."""
    text = lock.read_text().strip()
    return int(text) if text.isdigit() else None
