"""One output of an app as one query of Spark's: its inputs, its body, and the steps of a batch.

A query has a directory of its own: Spark's checkpoint, the rows that sources put aside, where each source began.
"""

from __future__ import annotations

import json
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from runnel.client.errors import TopicReplaced
from runnel.client.positions import matching
from runnel.graph.derived import Derived
from runnel.graph.formats import Columns
from runnel.graph.inputs import Input, taken_by_metadata
from runnel.graph.reading import Reading
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.types import quoted
from runnel.graph.view import View
from runnel.pipeline.batch import Batch, Step, Totals, run
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import remove_strays
from runnel.pipeline.determinism import check_determinism
from runnel.pipeline.done import Done
from runnel.pipeline.empty_batches import are_silent, spared
from runnel.pipeline.errors import InvalidBody, Stopped
from runnel.pipeline.failing.bad_rows import BadRows, Tried
from runnel.pipeline.fitting import Fitting, declared
from runnel.pipeline.joining import check_joins
from runnel.pipeline.own_watermark import check_watermarks
from runnel.pipeline.place import Place
from runnel.pipeline.sinks.publisher import Publisher, rejected
from runnel.pipeline.source.moment import HELD_BACK
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.source.own_files import OPTION
from runnel.pipeline.source.reader import FORMAT, Source
from runnel.pipeline.source.spec import BEAT, Spec
from runnel.pipeline.stopwatch import Stopwatch
from runnel.pipeline.tables.table_input import TableInput
from runnel.pipeline.used_columns import used_columns
from runnel.pipeline.view_inputs.frames import frame_of
from runnel.pipeline.view_inputs.spec import ViewSpec


@dataclass(frozen=True)
class Known:
    """What outputs offer to those that read them, by their names. Only Spark can tell, when it has seen the bodies."""

    streams: dict[str, Columns] = field(default_factory=dict)
    views: dict[str, StructType] = field(default_factory=dict)


class Query(ABC):
    """What is common to both kinds; `start` makes it run."""

    def __init__(self, spark: SparkSession, place: Place, output: Derived | View, known: Known) -> None:
        """`known` is what the outputs before it offer."""
        self.name = output.name
        self._spark = spark
        self.place = place
        self.cluster = place.kafka.cluster()
        self.output = output
        directory = place.directory_of(output.name)
        self.checkpoint = Checkpoint(place.checkpoint_of(output.name))
        spark.dataSource.register(Source)
        self._inputs = _inputs(spark, place, output, known, directory)
        self._fitting = Fitting(output, directory)
        self.specs = tuple(each for each in self._inputs if isinstance(each, Spec))
        self._tables = {spec.number: TableInput(spec, self.cluster) for spec in self.specs if spec.is_static}
        self.frame = self._body([self._frame_of(spark, each) for each in self._inputs])
        self.totals = Totals()
        self.done = 0  # batches that came to their end, new ones and repeated ones
        self.last: Done | None = None  # of them
        self.under_way: Stopwatch | None = None  # of the batch that runs
        self._steps: tuple[Step, ...] = ()
        self._publisher: Publisher | None = None
        self._one_batch = threading.Lock()
        self._is_stopped = False
        self._is_stopping = threading.Event()
        self._failure: BaseException | None = None
        self._started: StreamingQuery | None = None

    @property
    def late(self) -> str:
        """The topic of its late rows."""
        return f"{self.name}.late"

    @property
    def is_active(self) -> bool:
        return self._started is not None and self._started.isActive

    @property
    def is_well(self) -> bool:
        """Since it was begun, it has looked for something to do, and done it."""
        return self._started is not None and self._started.lastProgress is not None

    @property
    def spark_says(self) -> dict[str, Any]:
        """Spark's report of its last batch, as it writes it; empty before the first."""
        report = self._started._jsq.lastProgress() if self._started is not None else None
        return json.loads(report.json()) if report is not None else {}

    @property
    def streams(self) -> tuple[Spec | ViewSpec, ...]:
        """The inputs that have a position."""
        return tuple(each for each in self._inputs if each.changes or (isinstance(each, Spec) and not each.is_static))

    def reached(self) -> dict[int, Offsets]:
        """How far each input was read by batches that came to their end, in this run or before, by its number; without
        those that have not begun.
        """
        ends = self.last.ends if self.last is not None else self._reached_before()
        begun = [each for each in self.streams if each.number in ends or each.start_file.exists()]
        return {each.number: ends.get(each.number) or _first(each) for each in begun}

    @property
    def failure(self) -> BaseException | None:
        """Why it ended by itself: our own error, where it was one, rather than what Spark makes of it."""
        if self._is_stopped or self._started is None or self._started.isActive:
            return None
        return self._failure or self._started.exception()

    @property
    def last_failure(self) -> BaseException | None:
        """Of the batch that was under way when it was stopped."""
        return self._failure

    @property
    def sides(self) -> list[str]:
        """The topics where rows are put aside."""
        late = [self.late] if any(spec.time for spec in self.specs) else []
        return [*dict.fromkeys(rejected(spec.topic) for spec in self.specs), *late]

    def publisher(self) -> Publisher:
        """One that is open: who wrote for this query before is fenced."""
        name = self.place.id_of(self.name)
        opened = Publisher(self.cluster, self.name, name=name, marks=self.place.marks_of(self.name), late=self.late)
        opened.open()
        self._publisher = opened
        return opened

    @cached_property
    def declared(self) -> dict[str, Any]:
        """What it is, for the next start to compare with."""
        return declared(self.place.app, self.output, self._inputs, self.frame, self.frame_to_run())

    def check_fit(self) -> None:
        """NoLongerFits, if its checkpoint is of something else. To be asked before it is started."""
        self._fitting.check(self.declared, is_begun=self.checkpoint.last >= 0)

    def start(self, *, until_caught_up: bool = False) -> None:
        """The topics it writes are made, the writer before it is fenced, and Spark begins."""
        self._fitting.keep(self.declared)
        remove_strays(self.place.directory_of(self.name))
        self._make_topics()
        self._steps = self.steps()
        self._begin(until_caught_up)

    def restart(self, *, until_caught_up: bool = False) -> None:
        """After a failure: Spark begins anew where its checkpoint is.

        The publisher and the view's writer stay, because they know who they are: if another copy has taken over
        meanwhile they are fenced. New ones would fence the other copy instead.
        """
        self.cluster.reach()
        with self._one_batch:
            self.reopen()
            self._failure = None
        self._begin(until_caught_up)

    def reopen(self) -> None:
        """End what the failure left open, and learn what took effect."""
        if self._publisher is not None:
            self._publisher.open()

    def stop(self) -> None:
        """When the batch under way is finished, which does not wait for a broker that is away. Spark would interrupt
        it.
        """
        self._is_stopping.set()
        self.cluster.hurry()
        with self._one_batch:
            self._is_stopped = True
        if self._started is not None:
            self._started.stop()
        self.close()

    def settle(self) -> None:
        """Return when it has done all that there is to do now; raise what Spark tells if it fails on the way."""
        assert self._started is not None
        self._started.processAllAvailable()

    def have_seen(self, batch: Batch) -> None:
        """A batch that took effect."""
        self.totals.add(batch)

    @property
    def open_windows(self) -> int | None:
        """How many windows it shows that are not closed; None where that is not known."""
        return None

    def close(self) -> None:
        """Let go of connections."""
        self.cluster.close()

    @property
    @abstractmethod
    def output_mode(self) -> str: ...

    @abstractmethod
    def frame_to_run(self) -> DataFrame: ...

    @abstractmethod
    def as_run(self, made: DataFrame) -> DataFrame:
        """What is run, of what the body made."""

    def is_told(self, number: int) -> bool:
        """Whether anything of the batch has taken effect: what is put aside of it is settled then."""
        marker = self._publisher.marker if self._publisher is not None else None
        return marker is not None and marker.batch >= number

    @abstractmethod
    def steps(self) -> tuple[Step, ...]: ...

    # --- inside

    def _reached_before(self) -> Mapping[int, Offsets]:
        done = self.checkpoint.last_done
        return self.checkpoint.logged(done).ends if done >= 0 else {}

    def _begin(self, until_caught_up: bool) -> None:
        self.checkpoint.mend()
        writer = (
            self.frame_to_run()
            .writeStream.queryName(self.place.id_of(self.name))
            .outputMode(self.output_mode)
            .foreachBatch(self._run)
            .option("checkpointLocation", str(self.checkpoint.path))
        )
        with self._spares_empty_batches():
            self._started = (writer.trigger(availableNow=True) if until_caught_up else writer).start()

    def _spares_empty_batches(self) -> AbstractContextManager[None]:
        is_silent = are_silent(self.output_mode, self.declared["remembers"])
        return spared(self._spark) if self.place.held and is_silent else nullcontext()

    def _body(self, frames: list[DataFrame]) -> DataFrame:
        made: Any = self.output.body(*frames)
        if not isinstance(made, DataFrame):
            hint = "return what the inputs become, such as clicks.groupBy(...).count()"
            raise InvalidBody(str(self.output), f"the body returned a {type(made).__name__}", hint=hint)
        if not made.isStreaming:
            hint = "make it of the inputs; rows that never change belong into a table"
            raise InvalidBody(str(self.output), "the body returned rows that do not come from its inputs", hint=hint)
        check_watermarks(str(self.output), made)
        check_determinism(str(self.output), made)
        check_joins(str(self.output), made)
        return made

    def _frame_of(self, spark: SparkSession, spec: Spec | ViewSpec) -> DataFrame:
        if isinstance(spec, ViewSpec):
            return frame_of(spark, spec)
        table = self._tables.get(spec.number)
        if table is None:
            return _read(spark, spec)
        try:
            return table.frame(spark)
        except TopicReplaced:  # or what is kept is of another table, which was in its place
            self._fitting.check_inputs(self._inputs, is_begun=self.checkpoint.last >= 0)
            raise

    def _make_topics(self) -> None:
        marks = self.place.marks_of(self.name)
        read = {spec.topic: self._topics_of(spec) for spec in self.specs}
        beside = {rejected(topic): topics for topic, topics in read.items()}
        beside[self.late] = {topic for topics in read.values() for topic in topics}
        self.place.kafka.make_topics(
            {marks: {"cleanup.policy": "compact"}, **{side: {} for side in self.sides}}, partitions=1, beside=beside
        )

    def _topics_of(self, spec: Spec) -> set[str]:
        pattern = spec.reading.topics
        return {spec.topic} if pattern is None else set(matching(self.cluster, pattern))

    def _run(self, frame: DataFrame, number: int) -> None:
        with self._one_batch:
            if self._is_stopped:
                raise Stopped(self.name)  # to return would tell Spark that the batch is done
            self.under_way = watch = Stopwatch()
            try:
                self._run_batch(frame, number, watch)
            except Exception as error:
                self._failure = error
                raise
            finally:
                self.under_way = None

    def _run_batch(self, frame: DataFrame, number: int, watch: Stopwatch) -> None:
        syncing = self.checkpoint.begin_sync(number)
        logged = self.checkpoint.logged(number)
        for table in self._tables.values():
            table.look(number)
        before = self.checkpoint.logged(number - 1).ends if number else {}
        starts = {each: before.get(each) or _first(self._inputs[each]) for each in logged.ends}
        checkpoint = self.checkpoint.id
        wait = partial(_wait, watch, syncing)
        batch = Batch(self.name, checkpoint, logged.moment, starts, logged.ends, frame, wait, watch=watch)
        done = self._run_steps(batch)
        batch.wait_for_disk()
        self.done += 1
        if done is not None:
            self.have_seen(done)
        self.last = Done.of(batch)

    def _run_steps(self, batch: Batch) -> Batch | None:
        """Again, if the body raised on rows that are left out now."""
        bad_rows: BadRows | None = None
        while True:
            try:
                return run(self._steps, batch)
            except (PySparkException, Py4JJavaError) as error:
                bad_rows = bad_rows or BadRows(self._tried, batch)
                bad_rows.see_to(error, is_told=self.is_told(batch.number))

    @property
    def _tried(self) -> Tried:
        return Tried(
            self.output,
            self._inputs,
            self.cluster,
            self.place.directory_of(self.name),
            lambda frames: self.as_run(self.output.body(*frames)),
            self._is_stopping.is_set,
        )


def _inputs(
    spark: SparkSession, place: Place, output: Derived | View, known: Known, directory: Path
) -> tuple[Spec | ViewSpec, ...]:
    """How each of them is read, in their order."""
    shutil.rmtree(directory / "agreements", ignore_errors=True)  # of the runs before
    run = uuid4().hex
    found = [_spec(place, output, number, each, known, directory) for number, each in enumerate(output.inputs)]
    every = [replace(spec, run=run) for spec in found]
    used = used_columns(spark, output.body, [spec.ddl_for_the_body for spec in every])
    return tuple(spec if columns is None else spec.using(columns) for spec, columns in zip(every, used, strict=True))


def _spec(
    place: Place, output: Derived | View, number: int, given: Input, known: Known, directory: Path
) -> Spec | ViewSpec:
    noun = given.noun
    if isinstance(noun, View):
        if given.metadata:
            raise InvalidBody(str(output), f"{noun} has rows, and no records", hint="leave with_metadata() out")
        offered = known.views[noun.name]
        where = place.views, offered, str(directory)
        return ViewSpec(output.name, number, noun.name, *where, given.changes, place.held)
    columns = known.streams[noun.name] if isinstance(noun, Derived) else noun.columns
    if given.metadata:
        _check_metadata(output, noun, columns)
    return Spec(
        query=output.name,
        number=number,
        bootstrap=place.kafka.bootstrap,
        topic=noun.topic,
        columns=columns,
        reading=_reading(noun, place),
        directory=str(directory),
        time=None if isinstance(noun, Table) else noun.time,
        metadata=given.metadata,
        security=place.kafka.security,
        patience=place.kafka.patience,
        skip_gone=place.skip_gone,
        key=noun.key if isinstance(noun, Table) else None,
        changes=given.changes,
        held=place.held,
        follow=place.follow,
    )


def _check_metadata(output: Derived | View, noun: Stream | Derived | Table, columns: Columns) -> None:
    if taken := taken_by_metadata(columns.names):
        hint = "leave with_metadata() out, or give the column another name"
        raise InvalidBody(str(output), f"{noun} has a column {taken[0]} of its own, and metadata has one", hint=hint)


def _reading(noun: Stream | Derived | Table, place: Place) -> Reading:
    declared = Reading() if isinstance(noun, Derived) else noun.reading
    return replace(declared, start=place.start) if place.start and not isinstance(noun, Table) else declared


def _read(spark: SparkSession, spec: Spec) -> DataFrame:
    """The input as a stream of Spark's. The rows that only let the watermark go on are taken out above it: by a filter
    that Spark may neither push below it nor let others pass, because it does not know that the filter is deterministic.
    """
    frame = spark.readStream.format(FORMAT).option(OPTION, spec.to_text()).load()
    if spec.time is None:
        return frame
    marked = frame.withWatermark(quoted(spec.time.column), f"{spec.time.late + HELD_BACK} milliseconds")
    return marked.where(F.when(F.spark_partition_id() >= 0, ~F.col(BEAT))).drop(BEAT)


def _wait(watch: Stopwatch, syncing: Future[None]) -> None:
    with watch.step("disk"):
        syncing.result()


def _first(spec: Spec | ViewSpec) -> Offsets:
    return Offsets.from_json(json.loads(spec.start_file.read_text()))
