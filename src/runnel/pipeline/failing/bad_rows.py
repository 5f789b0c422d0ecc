"""What becomes of a batch on which the body raises.

The rows that do it are found by trying parts of the batch. Without `on_error="reject"` the query stops and names the
first of them. With it they are written down, on the disk, and the batch is run again without them: the tasks that read
find the file, put the rows aside with the rejected ones, and do the same in every repeat of the batch.

A row that passes when it is tried by itself is not to blame. One that fails where each row goes its own way is, for
sure; one that fails further on, as the result of an aggregate, may fail only for lack of the others: it is to blame if
it fails with whatever others there are. A batch whose failure cannot be found again is run once more; if it fails
again, or rows fail only together, the query stops and says so. What Spark said of a failure that is none of the
function's is raised as it is.

Once something of a batch has been told, its verdicts stand: a repeat of it may not reject what was counted before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.fetch import Fetcher
from runnel.errors import Permanent
from runnel.graph.derived import Derived
from runnel.graph.on_error import REJECT
from runnel.graph.view import View
from runnel.pipeline.batch import Batch
from runnel.pipeline.body_failure import home
from runnel.pipeline.errors import FunctionFailed, NoRowFailed, RowFailed, RowsFailed, RunAgain, Stopped, Unexplained
from runnel.pipeline.failing.elsewhere import is_of_the_function, may_come_from_a_row
from runnel.pipeline.failing.halving import MOST_TOGETHER, Bad, Part, Span, failing, size, to_blame, together
from runnel.pipeline.failing.noted_calls import MOST_SAID, Notes
from runnel.pipeline.failing.trial import Trial, duplicates_of_frames_that_end, settings_for_trials
from runnel.pipeline.failing.trial_rows import OFFSET, Read, frame_for_trials, offsets_of, reads_of
from runnel.pipeline.failure import told
from runnel.pipeline.source.left_out import LeftOut, write_left_out
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.view_inputs.spec import ViewSpec

logger = logging.getLogger(__name__)

for _name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # on stderr, what we tell anyway
    PySparkLogger.getLogger(_name).disabled = True

TELL_EVERY = 5.0  # seconds
MOST_SHOWN = 200  # characters of a value


@dataclass(frozen=True)
class Tried:
    """What a query is, as far as it is needed to try its body. `frame_of` makes of the inputs what the query runs."""

    output: Derived | View
    inputs: Sequence[Spec | ViewSpec]
    cluster: Cluster
    directory: Path
    frame_of: Callable[[list[DataFrame]], DataFrame]
    is_stopping: Callable[[], bool]


class BadRows:
    """Of one batch, while it is under way."""

    def __init__(self, tried: Tried, batch: Batch) -> None:
        self._tried = tried
        self._batch = batch
        self._reads = reads_of(batch, tried.inputs)
        self._written = 0
        self._has_passed = False

    def see_to(self, error: Exception, *, is_told: bool) -> None:
        """Returns if the batch can be run again now. `is_told`: something of the batch has taken effect before."""
        failure = self._of_the_body(error)
        may_reject = self._tried.output.on_error == REJECT and not is_told
        spark = self._batch.frame.sparkSession
        if any(isinstance(spec, Spec) and spec.changes and spec.has_own(OFFSET) for spec in self._tried.inputs):
            self._stop(failure, f"changes cannot be tried one by one whose own column is called {OFFSET}")
        with settings_for_trials(spark):
            try:
                trial = self._trial(spark)
            except PySparkException as refused:  # applyInPandasWithState knows no rows that end
                self._stop(failure, f"the body cannot be tried row by row ({_first(refused)})")
            if trial.fails([]) is not None:
                self._stop(failure, "it fails without any row of its streams")
            if not may_reject:
                self._name_one(trial, failure)
            elif self._reject(trial, failure):
                return
            self._has_not_found(trial, failure)

    def said(self, error: Exception) -> str:
        """What the body said, and in which line. Any other error is raised."""
        return self._words(self._of_the_body(error))

    # --- inside

    def _of_the_body(self, error: Exception) -> FunctionFailed | Unexplained:
        """Of which a row may be the reason. Any other error is raised."""
        found = told(error) if isinstance(error, PySparkException | Py4JJavaError) else error
        if isinstance(found, FunctionFailed) or (isinstance(found, Unexplained) and may_come_from_a_row(found)):
            return found
        raise found

    def _words(self, failure: FunctionFailed | Unexplained) -> str:
        said = failure.what[:MOST_SAID]
        return said if isinstance(failure, FunctionFailed) else f"{said} ({home(self._tried.output)})"

    def _stop(self, failure: FunctionFailed | Unexplained, why: str) -> NoReturn:
        raise self._instead(failure, NoRowFailed(self._words(failure), why)) from None

    def _instead(self, failure: FunctionFailed | Unexplained, known: NoRowFailed | RowsFailed) -> Permanent:
        """What is known of the rows; where nobody knows that it is the function at all, what Spark said."""
        if is_of_the_function(failure):
            return known
        logger.warning("%s: %s", self._batch.query, known.what)
        return failure

    @property
    def _whole(self) -> Part:
        return [Span(number, read.range.start, read.range.end) for number, read in enumerate(self._reads)]

    def _trial(self, spark: SparkSession) -> Trial:
        frames = [frame_for_trials(spark, spec, self._batch, self._reads) for spec in self._tried.inputs]
        notes = Notes(spark.sparkContext, home(self._tried.output))
        with duplicates_of_frames_that_end(), notes.taking():
            made = self._tried.frame_of(frames)
        return Trial(spark, made, notes, self.said)

    def _name_one(self, trial: Trial, failure: FunctionFailed | Unexplained) -> None:
        for bad in self._to_blame(trial, failure):
            read = self._reads[bad.range]
            changes = any(spec.changes for spec in self._tried.inputs)
            value = value_at(self._tried.cluster, read, bad.offset)
            raise RowFailed(bad.said, read.range.name, bad.offset, value, can_reject=not changes)

    def _reject(self, trial: Trial, failure: FunctionFailed | Unexplained) -> bool:
        """Whether there was one. What was found before the query is stopped need not be looked for again."""
        found: list[LeftOut] = []
        try:
            for bad in self._by_their_calls(trial) or self._to_blame(trial, failure, found):
                found.append(self._left_out(bad))  # noqa: PERF401  # it is looked at meanwhile
        finally:
            if found:
                self._batch.wait_for_disk()  # or a batch of the same number, planned anew, would find the file
                write_left_out(self._tried.directory, self._batch.number, found)
                self._written += len(found)
        if found:
            first = found[0]
            logger.warning(
                "%s: the body raises on %s of the batch, rejected now; the first is at offset %d of %s-%d: %s",
                self._batch.query,
                "a row" if len(found) == 1 else f"{len(found):,} rows",
                first.offset,
                first.topic,
                first.partition,
                first.reason,
            )
        return bool(found)

    def _to_blame(
        self, trial: Trial, failure: FunctionFailed | Unexplained, found: Sequence[LeftOut] = ()
    ) -> Iterable[Bad]:
        """RowsFailed, if rows fail by themselves, and it is not sure that they are to blame."""
        by_row = self._watched(trial, found, by_row=True)
        if by_row(self._whole) is not None:
            return failing(self._whole, by_row)
        fails = self._watched(trial, found)
        if fails(self._whole) is None:
            return []
        alone = list(islice(failing(self._whole, fails), MOST_TOGETHER + 1))
        blamed = to_blame(self._whole, alone, fails)
        if alone and not blamed:
            names = [self._named(Span(bad.range, bad.offset, bad.offset + 1)) for bad in alone[:MOST_TOGETHER]]
            raise self._instead(failure, RowsFailed(self._words(failure), names, is_whole=False))
        return blamed

    def _by_their_calls(self, trial: Trial) -> list[Bad]:
        """All rows at once, where it can be told from the calls of Python functions: the n-th call is the n-th row, and
        if the rows that are found raise again, without the others, each in its own call, there is no doubt. None, where
        there is: they are looked for one by one then.
        """
        spec = self._tried.inputs[0]
        if len(self._tried.inputs) > 1 or not isinstance(spec, Spec) or spec.changes or spec.has_own(OFFSET):
            return []
        if not trial.calls_are_rows:
            return []
        notes, other = trial.notes(self._whole)
        calls = sorted({note.call for note in notes})
        if not calls or other is not None:
            return []
        places = [
            (number, offset)
            for number, read in enumerate(self._reads)
            for offset in offsets_of(spec, read.range, self._batch.moment)
        ]
        if calls[-1] >= len(places):
            return []
        rows = [places[call] for call in calls]
        again, other = trial.notes([Span(number, offset, offset + 1) for number, offset in rows])
        said = {note.call: note.said for note in reversed(again)}  # of the function that came first
        if other is not None or sorted(said) != list(range(len(rows))):
            return []
        return [Bad(number, offset, said[call]) for call, (number, offset) in enumerate(rows)]

    def _has_not_found(self, trial: Trial, failure: FunctionFailed | Unexplained) -> None:
        """Returns if the batch may be run once more."""
        if self._written:  # and the rows were still there: Spark had them from before
            raise RunAgain(self._batch.query, self._written)
        said = self._words(failure)
        if trial.fails(self._whole) is not None:
            rows, is_whole = together(self._whole, self._watched(trial))
            raise self._instead(failure, RowsFailed(said, [self._named(row) for row in rows], is_whole=is_whole))
        if self._has_passed:
            self._stop(failure, "none fails when it is tried; it may depend on earlier batches, or on chance")
        self._has_passed = True
        logger.warning("%s: %s; no row fails when it is tried, so the batch is run once more", self._batch.query, said)

    def _watched(
        self, trial: Trial, found: Sequence[LeftOut] = (), *, by_row: bool = False
    ) -> Callable[[Part], str | None]:
        """Trials that tell how far they are, and end when the query is to stop."""
        told_at = time.monotonic()

        def fails(part: Part) -> str | None:
            nonlocal told_at
            if self._tried.is_stopping():
                raise Stopped(self._batch.query)
            if time.monotonic() - told_at >= TELL_EVERY:
                told_at = time.monotonic()
                logger.info(
                    "%s: looking for the rows on which the body raises, among %s: %s found after %s trials",
                    self._batch.query,
                    f"{size(self._whole):,}",
                    f"{len(found):,}",
                    f"{trial.count:,}",
                )
            return trial.fails(part, by_row=by_row)

        return fails

    def _left_out(self, bad: Bad) -> LeftOut:
        read = self._reads[bad.range]
        return LeftOut(read.input, read.range.topic, read.range.partition, bad.offset, bad.said)

    def _named(self, row: Span) -> str:
        return f"offset {row.start} of {self._reads[row.range].range.name}"


def value_at(cluster: Cluster, read: Read, offset: int) -> str:
    """The value of a record, as far as it is good to show."""
    place = read.range.topic, read.range.partition
    for fetched in Fetcher(cluster).read(*place, offset, offset + 1):
        batches = [each for part in fetched.parts for each in each_batch(part)]
        for block in decode(batches, ("value",), Origin(*place, offset, offset + 1)):
            for value in block.column("value").to_pylist():
                return shown(value)
    return "null"


def shown(value: bytes | None) -> str:
    if value is None:
        return "null"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(value):,} bytes)"


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
