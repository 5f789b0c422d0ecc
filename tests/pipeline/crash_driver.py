"""The driver of an app that may die: a process that is forked for one run, and joins a Java that is there already.

`live` is what it does. The deaths are real: the whole driver is killed, with its connections, its locks and what it
had written by half. Only Java stays, because a start of Spark takes longer than all the rest; what it remembers of the
dead driver, its queries and the state of its windows, is thrown away by the next one.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import runnel.app.runner
import runnel.durable
import runnel.views.sql_store
from runnel import App, Reading
from runnel.app.runner import Runner, Running
from runnel.client import Producer
from runnel.durable import VARIABLE, durable
from runnel.errors import RunnelError
from runnel.graph.derived import Writing
from runnel.pipeline.batch import Batch, Step
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.steps import publish
from runnel.pipeline.stream_query import StreamQuery
from runnel.views.store import Keep
from tests.pipeline.waiting import wait_until

APP = "shop"
STREAM, WINDOWS, VIEW = "long_stays", "closed_minutes", "clicks_per_minute"
LATE_BY = 30  # seconds
PARTITIONS = 4  # of the derived streams
KEPT = 30  # rows of the view's change log, so few that it is trimmed
UNLUCKY = 7  # the last digit of the seconds, above 50, on which a body raises, if it does
EFFECTS = ("publish.begin", "view.commit")


class Java(NamedTuple):
    port: int
    token: str
    python: str  # what it starts as its Python


@dataclass(frozen=True)
class Life:
    """A run of one output of the app. `wider` gives the view a column more; without `locks` the data directory can be
    shared, as if it were on two machines; `otherwise` names another way to write, which is wrong; `traced` is a file
    that gets the driver's syncs and steps. With `raises` the body raises on some rows, which are rejected. `partitions`
    is how many tasks share what it remembers, if that is to be changed.
    """

    output: str
    bootstrap: str
    data: Path
    by_tasks: bool = False
    views: str | None = None
    rows: int = 40
    begin: str = "earliest"
    wider: bool = False
    locks: bool = True
    otherwise: str = ""
    traced: Path | None = None
    raises: bool = False
    partitions: int | None = None


def live(life: Life, java: Java, deaths: Path, log: Path) -> None:
    """Until all is read; 1 if the app says that it cannot go on."""
    _write_to(log)
    os.environ |= {VARIABLE: str(deaths), "PYSPARK_PYTHON": sys.executable}
    try:
        code = _run(life, java)
    except BaseException:
        traceback.print_exc()
        code = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(life: Life, java: Java) -> int:
    _prepare(life)
    running = Running(
        life.bootstrap,
        life.data,
        views=life.views,
        until_caught_up=True,
        parallel_from=1 if life.by_tasks else 10**9,
        spark=_joined(java),
        partitions=life.partitions,
    )
    try:
        Runner(_app(life), running).run()
    except RunnelError as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


def _app(life: Life) -> App:
    app = App(APP)
    clicks = app.stream(
        "clicks",
        schema="page string, customer_id long, seconds int, at timestamp",
        time="at",
        late=f"{LATE_BY} seconds",
        read=Reading(rows=life.rows, start=life.begin),
    )
    on_error = "reject" if life.raises else "stop"
    unlucky = UNLUCKY  # the workers do not have this file

    def tried(clicks):
        return clicks.where(F.udf(passes, "boolean")("seconds")) if life.raises else clicks

    def passes(seconds):
        if seconds > 50 and seconds % 10 == unlucky:  # a filter of the body spares it the others
            raise ValueError("seven")
        return True

    if life.output == STREAM:

        @app.stream(clicks.with_metadata(), key="customer_id", write=Writing(partitions=PARTITIONS, on_error=on_error))
        def long_stays(clicks):
            return tried(clicks).where("seconds > 50").select("customer_id", "_partition", "_offset")

    elif life.output == WINDOWS:

        @app.stream(clicks, key="page", write=Writing(partitions=PARTITIONS))
        def closed_minutes(clicks):
            return clicks.groupBy(F.window("at", "1 minute"), "page").count().select("window.start", "page", "count")

    else:

        @app.view(clicks, key=["window", "page"], on_error=on_error)
        def clicks_per_minute(clicks):
            counted = tried(clicks).groupBy(F.window("at", "1 minute"), "page").count()
            return counted.withColumn("twice", 2 * F.col("count")) if life.wider else counted

    return app


# --- Java


def _joined(java: Java) -> SparkSession:
    """The session that is there, without what a dead driver left in it."""
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(java.port), "PYSPARK_GATEWAY_SECRET": java.token}
    gateway = launch_gateway()
    # Java tells Python when it has thrown an object away: not one of a dead driver, which had the same number.
    gateway.gateway_property.pool.next_id = 1000 * os.getpid()
    SparkContext._ensure_initialized(gateway=gateway)
    found = gateway.jvm.JavaSparkContext.fromSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=found, conf=SparkConf(_jconf=found.getConf()))
    context.pythonExec = java.python
    spark = SparkSession(context)
    for query in spark.streams.active:
        query.stop()
    # A stopped query does not wait for its tasks. Between the reading and the writing of what it remembers a task would
    # wait for the end of the stores, and they for the task.
    tasks = found.sc().taskScheduler()
    wait_until(lambda: not tasks.isExecutorBusy("driver"), lambda: "the tasks of the dead driver have ended")
    gateway.jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    return spark


def _write_to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


# --- other ways


def _prepare(life: Life) -> None:
    runnel.views.sql_store.Keep = partial(Keep, rows=KEPT)
    if not life.locks:
        runnel.app.runner.DiskFiles.lock = lambda *_: _NoLock()
    if life.traced is not None:
        _trace(life.traced)
    if life.otherwise:
        OTHERWISE[life.otherwise]()


class _NoLock:
    def release(self) -> None:
        """There is none."""


def _trace(path: Path) -> None:
    """Every sync, by the file that it is of, and every step, in their order."""
    trace = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def told(sync: Callable[[int], None], descriptor: int) -> None:
        os.write(trace, f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}\n".encode())
        sync(descriptor)

    os.fsync, os.fdatasync = partial(told, os.fsync), partial(told, os.fdatasync)
    reach = runnel.durable._reach
    wanted = _hold_syncs_back()

    def reached(name: str, side: str) -> None:
        os.write(trace, f"{name}:{side}\n".encode())
        if name in EFFECTS:
            wanted.set()
        reach(name, side)

    runnel.durable._reach = reached


def _hold_syncs_back() -> threading.Event:
    """Until somebody waits for them, or the event is set: by something that takes effect, and should have waited."""
    wanted = threading.Event()
    sync, begin_sync = Checkpoint.sync, Checkpoint.begin_sync

    def synced(checkpoint: Checkpoint, batch: int) -> None:
        wanted.wait()
        sync(checkpoint, batch)

    def begun(checkpoint: Checkpoint, batch: int) -> Future[None]:
        wanted.clear()
        syncing = begin_sync(checkpoint, batch)
        result = syncing.result
        syncing.result = lambda: (wanted.set(), result())[1]
        return syncing

    Checkpoint.sync, Checkpoint.begin_sync = synced, begun
    return wanted


class Produce:
    """What one writes first: every row to a producer, when the batch comes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def __call__(self, batch: Batch) -> Batch:
        rows = batch.frame.collect()
        with durable("publish.commit"), Producer(self._bootstrap) as producer:
            for row in rows:
                producer.submit(self._topic, bytes(row["value"]), key=bytes(row["key"]))
        return batch


class NaiveStreamQuery(StreamQuery):
    def steps(self) -> tuple[Step, ...]:
        return (Produce(self.place.kafka.bootstrap, self._stream.topic),)


def _produce() -> None:
    runnel.app.runner.StreamQuery = NaiveStreamQuery
    runnel.app.runner.check_outputs = lambda *_: None  # it leaves no marks, which the next start would miss


def _ignore_the_marker() -> None:
    publish.is_done = lambda *_: False


NAIVE, NO_MARKER = "plain foreachBatch", "the marker is ignored"
OTHERWISE = {NAIVE: _produce, NO_MARKER: _ignore_the_marker}
