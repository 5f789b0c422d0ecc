"""One output of an app as one query of Spark's: its inputs, its body, and the steps of a batch.

A query has a directory of its own: Spark's checkpoint, the rows that sources put aside, where each source began.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from runnel.graph.derived import Derived
from runnel.graph.formats import Columns, columns_of
from runnel.graph.inputs import CHANGE, Input
from runnel.graph.reading import Reading
from runnel.graph.stream import Stream
from runnel.graph.types import quoted
from runnel.graph.view import View
from runnel.pipeline.batch import Batch, Step, Totals, run
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.errors import InvalidBody, Stopped
from runnel.pipeline.place import Place
from runnel.pipeline.sinks.publisher import Publisher, rejected
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.source.reader import FORMAT, OPTION, Source
from runnel.pipeline.source.spec import BEAT, Spec
from runnel.pipeline.used_columns import used_columns


class Query(ABC):
    """What is common to both kinds; `start` makes it run."""

    def __init__(self, spark: SparkSession, place: Place, output: Derived | View, known: dict[str, Columns]) -> None:
        """`known` are the columns of derived streams, which only Spark can tell."""
        self.name = output.name
        self.place = place
        self.cluster = place.kafka.cluster()
        self._output = output
        directory = place.directory_of(output.name)
        self.checkpoint = Checkpoint(directory / "checkpoint")
        spark.dataSource.register(Source)
        self.specs = _specs(spark, place, output, known, directory)
        self.frame = self._body([_read(spark, spec) for spec in self.specs])
        self.totals = Totals()
        self._one_batch = threading.Lock()
        self._is_stopped = False
        self._failure: BaseException | None = None
        self._started: StreamingQuery | None = None

    @property
    def columns(self) -> Columns:
        """Of what the body returns, for those that read it."""
        fields = [field for field in self.frame.schema if field.name != CHANGE]
        return columns_of(
            ", ".join(f"{quoted(each.name)} {each.dataType.simpleString()}" for each in fields), self.name
        )

    @property
    def late(self) -> str:
        """The topic of its late rows."""
        return f"{self.name}.late"

    @property
    def is_active(self) -> bool:
        return self._started is not None and self._started.isActive

    @property
    def failure(self) -> BaseException | None:
        """Why it ended by itself: our own error, where it was one, rather than what Spark makes of it."""
        return self._failure or (self._started.exception() if self._started is not None else None)

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
        return opened

    def start(self, *, until_caught_up: bool = False) -> None:
        """The topics it writes are made, the writer before it is fenced, and Spark begins."""
        self._make_topics()
        steps = self.steps()
        writer = (
            self.frame_to_run()
            .writeStream.queryName(self.place.id_of(self.name))
            .outputMode(self.output_mode)
            .foreachBatch(lambda frame, number: self._run(steps, frame, number))
            .option("checkpointLocation", str(self.checkpoint.path))
        )
        self._started = (writer.trigger(availableNow=True) if until_caught_up else writer).start()

    def stop(self) -> None:
        """When the batch under way is finished. Spark would interrupt it."""
        with self._one_batch:
            self._is_stopped = True
        if self._started is not None:
            self._started.stop()

    @property
    @abstractmethod
    def output_mode(self) -> str: ...

    @abstractmethod
    def frame_to_run(self) -> DataFrame: ...

    @abstractmethod
    def steps(self) -> tuple[Step, ...]: ...

    # --- inside

    def _body(self, frames: list[DataFrame]) -> DataFrame:
        made: Any = self._output.body(*frames)
        if not isinstance(made, DataFrame):
            hint = "return what the inputs become, such as clicks.groupBy(...).count()"
            raise InvalidBody(str(self._output), f"the body returned a {type(made).__name__}", hint=hint)
        if not made.isStreaming:
            hint = "make it of the inputs; rows that never change belong into a table"
            raise InvalidBody(str(self._output), "the body returned rows that do not come from its inputs", hint=hint)
        return made

    def _make_topics(self) -> None:
        kafka = self.place.kafka
        kafka.make_topic(self.place.marks_of(self.name), partitions=1, configs={"cleanup.policy": "compact"})
        for side in self.sides:
            kafka.make_topic(side, partitions=1)

    def _run(self, steps: tuple[Step, ...], frame: DataFrame, number: int) -> None:
        with self._one_batch:
            if self._is_stopped:
                raise Stopped(self.name)  # to return would tell Spark that the batch is done
            try:
                self._run_batch(steps, frame, number)
            except Exception as error:
                self._failure = error
                raise

    def _run_batch(self, steps: tuple[Step, ...], frame: DataFrame, number: int) -> None:
        logged = self.checkpoint.logged(number)
        logged.moment.tell(frame.sparkSession.sparkContext)
        before = self.checkpoint.logged(number - 1).ends if number else {}
        starts = {each: before.get(each) or _first(self.specs[each]) for each in logged.ends}
        done = run(steps, Batch(self.name, self.checkpoint.id, logged.moment, starts, logged.ends, frame))
        if done is not None:
            self.totals.add(done)


def _specs(
    spark: SparkSession, place: Place, output: Derived | View, known: dict[str, Columns], directory: Path
) -> tuple[Spec, ...]:
    every = [_spec(place, output, number, each, known, directory) for number, each in enumerate(output.inputs)]
    used = used_columns(spark, output.body, [spec.ddl_for_the_body for spec in every])
    return tuple(spec if columns is None else spec.using(columns) for spec, columns in zip(every, used, strict=True))


def _spec(
    place: Place, output: Derived | View, number: int, given: Input, known: dict[str, Columns], directory: Path
) -> Spec:
    noun = given.noun
    if not isinstance(noun, Stream | Derived):
        raise InvalidBody(str(output), f"{noun} cannot be an input yet", hint="read streams")
    columns = noun.columns if isinstance(noun, Stream) else known[noun.name]
    return Spec(
        query=output.name,
        number=number,
        bootstrap=place.kafka.bootstrap,
        topic=noun.topic,
        columns=columns,
        reading=noun.reading if isinstance(noun, Stream) else Reading(),
        directory=str(directory),
        time=noun.time,
        metadata=given.metadata,
        security=place.kafka.security,
    )


def _read(spark: SparkSession, spec: Spec) -> DataFrame:
    """The input as a stream of Spark's. The rows that only let the watermark go on are taken out above it: the filter
    names the time column, or Spark would push it below.
    """
    frame = spark.readStream.format(FORMAT).option(OPTION, spec.to_text()).load()
    if spec.time is None:
        return frame
    time = spec.time.column
    marked = frame.withWatermark(time, f"{spec.time.late} milliseconds")
    return marked.where(F.when(F.col(time).isNotNull(), ~F.col(BEAT)).otherwise(False)).drop(BEAT)


def _first(spec: Spec) -> Offsets:
    return Offsets.from_json(json.loads(spec.start_file.read_text()))
