"""Shares what a query remembers, its windows and joins, among another number of tasks.

Spark takes the number when a checkpoint begins, and then from the checkpoint. It can write state anew for another one
while the query does not run. Its own command for that adds a batch, of which our outputs know nothing; so only the part
of it that writes state is used, and writes into a copy of the checkpoint: with the same id and the same batches. A
batch that was planned and has not come to its end is still planned, and will be repeated with what it began with.

The copy has a name of its own (see `checkpoint_path.py`), and counts from the moment that this stands in the file with
the name: a Spark that still holds the old state, or one whose driver was killed, writes to where nobody reads. Who dies
before leaves a copy that the next one removes, who dies later leaves the old one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from runnel.durable import durable
from runnel.errors import Transient
from runnel.files import DISK
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.checkpoint import COMMITS, OFFSETS, STATE, Checkpoint
from runnel.pipeline.checkpoint_path import FIRST, another_in, checkpoint_in, let_count
from runnel.pipeline.errors import NotShared
from runnel.pipeline.failure import told
from runnel.pipeline.java_process import ended

logger = logging.getLogger(__name__)

PARTITIONS = "spark.sql.shuffle.partitions"
DESCRIBING = "_"  # how the names of directories begin that tell what the state looks like
KEY = "partition_key"  # by which Spark finds the task that remembers a row
# Spark's own words, without what it says before, and its advice.
REFUSED = re.compile(r"is in an invalid state\.\s(.+?)\.?(?: Please | SQLSTATE: |$)", re.MULTILINE)
SAID = re.compile(r"(\[[A-Z][A-Z_.]+\] .*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


class NoState(Exception):
    pass


class Repartition:
    """Of one output, whose checkpoint this is. To be used by one process at a time, while Spark does not run it."""

    def __init__(self, output: Derived | View, directory: Path) -> None:
        self._output = output
        self._directory = directory

    def settle(self) -> None:
        """Remove what others have left who died: copies by half, and what does not count any more."""
        counts = checkpoint_in(self._directory)
        if Checkpoint(counts).is_begun:
            for found in self._directory.glob(f"{FIRST}*"):
                if found.is_dir() and found != counts:
                    shutil.rmtree(found, ignore_errors=True)

    def run(self, spark: SparkSession, partitions: int) -> None:
        """Let `partitions` tasks share it, if it is another number. NotShared, and nothing has changed, where Spark
        cannot do that.
        """
        self.settle()
        checkpoint = Checkpoint(checkpoint_in(self._directory))
        checkpoint.mend()
        before = shared_by(checkpoint)
        if before is None or before == partitions:
            return
        began = time.monotonic()
        name = self._output.name
        logger.info("%s: what it remembers is shared by %d tasks, and from now on by %d", name, before, partitions)
        making = another_in(self._directory)
        try:
            _make(spark, checkpoint, making, partitions)
        except (Py4JJavaError, PySparkException, OSError, NoState) as error:
            shutil.rmtree(making, ignore_errors=True)
            if isinstance(error, ConnectionError):  # Java is gone: who runs us sees to that
                raise
            raise self._told(error, before, partitions) from error
        with durable("repartition.name"):
            let_count(making)
        shutil.rmtree(checkpoint.path, ignore_errors=True)
        logger.info("%s: that took %.1f s", name, time.monotonic() - began)

    def _told(self, error: Exception, before: int, partitions: int) -> Exception:
        """A full disk is told as such: nothing has changed, and the next start tries again."""
        found = told(error)
        if isinstance(found, Transient):
            return found
        is_view = isinstance(self._output, View)
        return NotShared(self._output.name, _why(error), before, partitions, is_view=is_view)


@contextmanager
def sharing_by(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Checkpoints that begin meanwhile have this number; Spark's own if it is None."""
    if partitions is None:
        yield
        return
    before = spark.conf.get(PARTITIONS)
    assert before is not None
    spark.conf.set(PARTITIONS, str(partitions))
    try:
        yield
    finally:
        if ended(spark) is None:
            spark.conf.set(PARTITIONS, before)


def shared_by(checkpoint: Checkpoint) -> int | None:
    """How many tasks share what the query remembers; None before its first batch was planned."""
    if checkpoint.last < 0:
        return None
    entry = checkpoint.path / OFFSETS / str(checkpoint.last)
    return int(json.loads(entry.read_text().splitlines()[1])["conf"][PARTITIONS])


def _why(error: Exception) -> str:
    """Spark tells it in the last cause, behind pages of what came of that."""
    whole = f"{error}\n{getattr(error, '_stackTrace', '')}"
    found = REFUSED.search(whole) or SAID.search(whole)
    return " ".join(found[1].split()) if found else whole.strip().partition("\n")[0]


# --- the copy


def _make(spark: SparkSession, checkpoint: Checkpoint, making: Path, partitions: int) -> None:
    _copy(checkpoint.path, making, partitions)
    if checkpoint.last_done >= 0 and _operators(checkpoint.path):
        with durable("repartition.state"):
            states = _rewrite(spark, checkpoint.path, making, checkpoint.last_done, partitions)
        _check(making, checkpoint.last_done + 1, states)
    _sync(making)


def _copy(source: Path, target: Path, partitions: int) -> None:
    """All but the state. Every batch gets the other number: where it changes from one to the next, Spark sees a command
    of its own that was not finished.
    """
    for directory in (target, target / OFFSETS, target / COMMITS):
        directory.mkdir()
    shutil.copyfile(source / "metadata", target / "metadata")
    for entry in _entries(source / OFFSETS):
        (target / OFFSETS / entry.name).write_text(_planned_for(entry.read_text(), partitions))
    for entry in _entries(source / COMMITS):
        shutil.copyfile(entry, target / COMMITS / entry.name)
    for description in _descriptions(source / STATE):
        copied = target / description.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        told_of = _described_for(description.read_bytes(), partitions)
        copied.write_bytes(told_of.replace(str(source).encode(), str(target).encode()))  # where others of them are


def _entries(log: Path) -> list[Path]:
    """Without the checksums of Spark's file system: a file need not have any."""
    return [each for each in log.glob("*") if each.name.isdigit()]


def _planned_for(entry: str, partitions: int) -> str:
    version, about, *sources = entry.splitlines()
    known = json.loads(about)
    known["conf"][PARTITIONS] = str(partitions)
    return "\n".join((version, json.dumps(known, separators=(",", ":")), *sources))


def _operators(checkpoint: Path) -> list[Path]:
    return _entries(checkpoint / STATE)


def _descriptions(state: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(state):
        if any(part.startswith(DESCRIBING) for part in Path(directory).relative_to(state).parts):
            yield from (Path(directory) / name for name in names if not name.startswith("."))


def _described_for(description: bytes, partitions: int) -> bytes:
    """What tells of an operator tells the number, too."""
    version, _, rest = description.partition(b"\n")
    try:
        known = json.loads(rest)
    except ValueError:  # what tells of columns
        return description
    for store in known.get("stateStoreInfo", ()):
        store["numPartitions"] = partitions
    return b"\n".join((version, json.dumps(known, separators=(",", ":")).encode()))


# --- the state


class _Shared:
    """A function that Java calls with each state that it has read, and that says which task gets which row."""

    def __init__(self, spark: SparkSession, partitions: int) -> None:
        self._spark = spark
        self._partitions = partitions
        self.states = 0  # that were written, of all tasks and operators

    def apply(self, state: Any) -> Any:
        """Of an operator that has no key, as a sum of everything, the first task remembers all, and the others have no
        state. By its key, which is empty, Spark would give it to any of them, where nobody looks for it.
        """
        frame = DataFrame(state, self._spark)
        kind = frame.schema[KEY].dataType
        tasks = self._partitions if isinstance(kind, StructType) and kind.fields else 1
        self.states += tasks
        return (frame.repartition(tasks, KEY) if tasks > 1 else frame.coalesce(1))._jdf

    class Java:
        implements = ("scala.Function1",)


def _rewrite(spark: SparkSession, source: Path, target: Path, batch: int, partitions: int) -> int:
    """What the batch has left behind, of all operators. How many states there should be."""
    context = spark.sparkContext
    jvm = context._jvm
    assert jvm is not None
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    session = spark._jsparkSession
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
    hadoop = session.sessionState().newHadoopConf()
    resolved = jvm.org.apache.spark.sql.execution.streaming.utils.StreamingUtils.resolvedCheckpointLocation
    some, none = jvm.scala.Option.apply, jvm.scala.Option.empty
    shared = _Shared(spark, partitions)
    jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
        session,
        batch,  # is read
        batch,  # is written
        resolved(hadoop, str(target)),
        hadoop,
        some(resolved(hadoop, str(source))),
        some(shared),
        none(),
    ).run()
    return shared.states


def _check(checkpoint: Path, version: int, states: int) -> None:
    """A task that does not find its own would begin with none."""
    found = len(list((checkpoint / STATE).rglob(f"{version}.zip")))
    if found != states:
        raise NoState(f"Spark has written {found} states instead of {states}")


# --- the disk


def _sync(root: Path) -> None:
    for directory, _, names in os.walk(root, topdown=False):
        for name in names:
            DISK.open(str(Path(directory) / name)).sync()
        DISK.sync_directory(directory)
