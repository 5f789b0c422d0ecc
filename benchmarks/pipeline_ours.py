"""Our side of the pipeline's benchmarks: one session, in which apps run one after the other.

    python -m benchmarks.pipeline_ours BOOTSTRAP DIRECTORY      jobs come as lines of JSON

An app runs as `runnel run` runs it, but for the session, which is there already. Every run is an app of its own, with a
data directory of its own. The steps of a batch are timed from outside, by wrapping what does them.
"""

import json
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from benchmarks.pipeline_events import FLAT, NESTED
from runnel import App, Raw
from runnel.app.runner import Runner, Running
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.session import spark_session
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.steps.account import Account
from runnel.views.opening import open_store
from runnel.views.writer import SqlWriter

NUMBERED = f"{FLAT}, number long"
VIEW = "counted"
SPARK_STEPS = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
OWN_STEPS = {
    "our checkpoint's entry": (Checkpoint, "logged"),
    "our rows to the driver": (ClassicDataFrame, "toArrow"),
    "our account": (Account, "__call__"),
    "our transaction": (Publisher, "publish"),
    "its begin": (Publisher, "begin"),
    "its last writes and commit": (Publisher, "commit"),
    "our view": (SqlWriter, "apply"),
    "its trim": (SqlWriter, "trim"),
}


class Ours:
    def __init__(self, bootstrap: str, directory: str) -> None:
        self._bootstrap = bootstrap
        self._directory = Path(directory)
        self._spark = spark_session("benchmark")
        self._runner: Runner | None = None
        self._thread: threading.Thread | None = None
        self._times: dict[str, list[float]] = defaultdict(list)
        for name, (owner, method) in OWN_STEPS.items():
            setattr(owner, method, self._timed(name, getattr(owner, method)))

    # --- until all is read

    def count(self, topic: str) -> dict[str, Any]:
        """Per page and minute."""
        app = _app()
        clicks = app.stream(topic, schema=FLAT, time="at", late="10 seconds")
        app.view(clicks, key=["window", "page"], name=VIEW)(_per_page_and_minute)
        return self._measured(app)

    def rich(self, topic: str) -> dict[str, Any]:
        """The same, with all that a record carries besides."""
        app = _app()
        clicks = app.stream(topic, schema=FLAT, time="at", late="10 seconds")

        def body(clicks: DataFrame) -> DataFrame:
            more = (
                F.max("_offset").alias("offset"),
                F.max("_partition").alias("partition"),
                F.max("_timestamp").alias("timestamp"),
                F.max("_key").alias("key"),
                F.max(F.size("_headers")).alias("headers"),
            )
            return clicks.groupBy(F.window("at", "1 minute"), "page").agg(F.count("*").alias("count"), *more)

        app.view(clicks.with_metadata(), key=["window", "page"], name=VIEW)(body)
        return self._measured(app)

    def nested(self, topic: str) -> dict[str, Any]:
        app = _app()
        orders = app.stream(topic, schema=NESTED, time="at", late="10 seconds")

        def body(orders: DataFrame) -> DataFrame:
            more = (
                F.max("customer.name").alias("name"),
                F.max("customer.address.city").alias("city"),
                F.sum(F.size("items")).alias("items"),
            )
            return orders.groupBy(F.window("at", "1 minute"), "page").agg(F.count("*").alias("count"), *more)

        app.view(orders, key=["window", "page"], name=VIEW)(body)
        return self._measured(app)

    def raw(self, topic: str) -> dict[str, Any]:
        """The number of values."""
        app = _app()
        values = app.stream(topic, schema=Raw())
        app.view(values, key="name", name=VIEW)(
            lambda values: values.groupBy(F.lit("all").alias("name")).agg(F.count("value").alias("count"))
        )
        return self._measured(app)

    def copy(self, topic: str, to: str) -> dict[str, Any]:
        """Parsed, changed and written as JSON, exactly once."""
        app = _app()
        clicks = app.stream(topic, schema=FLAT)
        app.stream(clicks, key="page")(_changed(to))
        return self._measured(app)

    # --- until it is stopped

    def start_copy(self, topic: str, to: str) -> dict[str, Any]:
        app = _app()
        clicks = app.stream(topic, schema=NUMBERED)
        app.stream(clicks, key="page")(_changed(to))
        return self._start(app)

    def start_view(self, topic: str) -> dict[str, Any]:
        """Stateful: the newest number per page and minute."""
        app = _app()
        clicks = app.stream(topic, schema=NUMBERED, time="at", late="10 seconds")

        def body(clicks: DataFrame) -> DataFrame:
            windows = clicks.groupBy(F.window("at", "1 minute"), "page")
            return windows.agg(F.count("*").alias("count"), F.max("number").alias("newest"))

        app.view(clicks, key=["window", "page"], name=VIEW)(body)
        return self._start(app)

    def stop(self) -> dict[str, Any]:
        """The milliseconds of each step, batch by batch."""
        assert self._runner is not None
        assert self._thread is not None
        told = [each for query in self._spark.streams.active for each in query.recentProgress if each.numInputRows]
        self._runner.stop()
        self._thread.join()
        steps = {step: [each.durationMs.get(step, 0) for each in told] for step in SPARK_STEPS}
        own = {name: [1e3 * each for each in times[-len(told) :]] for name, times in self._times.items() if told}
        return {"steps": steps, "own": own}

    # --- inside

    def _running(self, *, until_caught_up: bool) -> Running:
        data = self._directory / uuid.uuid4().hex
        return Running(self._bootstrap, data, spark=self._spark, until_caught_up=until_caught_up)

    def _measured(self, app: App) -> dict[str, Any]:
        running = self._running(until_caught_up=True)
        runner = Runner(app, running)
        begin = time.perf_counter()
        runner.run()
        elapsed = time.perf_counter() - begin
        (query,) = runner.queries
        rows = query.totals.in_time + query.totals.rejected + query.totals.late
        return {"seconds": elapsed, "rows": rows, "rejected": query.totals.rejected, "counted": _sum(running.data)}

    def _start(self, app: App) -> dict[str, Any]:
        running = self._running(until_caught_up=False)
        self._times.clear()
        self._runner = Runner(app, running)
        self._thread = threading.Thread(target=self._runner.run)
        self._thread.start()
        return {"views": str(running.data / "views.sqlite")}

    def _timed(self, name: str, done: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return done(*given, **named)
            finally:
                self._times[name].append(time.perf_counter() - begin)

        return timed


def _app() -> App:
    return App(f"benchmark-{uuid.uuid4().hex[:12]}")


def _per_page_and_minute(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()


def _changed(to: str) -> Callable[[DataFrame], DataFrame]:
    def body(clicks: DataFrame) -> DataFrame:
        return clicks.withColumn("ms", F.col("ms") * 2)

    body.__name__ = to
    return body


def _sum(data: Path) -> int | None:
    """Of the counts in the view; None where there is no view."""
    if not (data / "views.sqlite").exists():
        return None
    rows = open_store(str(data)).reader(VIEW).rows()
    return sum(rows["count"].to_pylist())


def main(bootstrap: str, directory: str) -> None:
    side = Ours(bootstrap, directory)
    print("@ {}", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        print("@", json.dumps(getattr(side, job.pop("do"))(**job)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
