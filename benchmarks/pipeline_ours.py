"""Our side of the pipeline's benchmarks: one session, in which apps run one after the other.

    python -m benchmarks.pipeline_ours BOOTSTRAP DIRECTORY      jobs come as lines of JSON

An app runs as `runnel run` runs it, but for the session, which is there already. Every run is an app of its own, with a
data directory of its own. What became of its batches is told with each run.
"""

import json
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.daily_queries import NUMBERED, declare
from benchmarks.pipeline_batches import Batches
from benchmarks.pipeline_events import FLAT, NESTED
from runnel import App, Raw
from runnel.app.rebuild import Rebuild
from runnel.app.runner import Runner, Running
from runnel.pipeline.session import spark_session
from runnel.views.opening import open_store

VIEW = "counted"
SPARK_STEPS = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


class Ours:
    def __init__(self, bootstrap: str, directory: str) -> None:
        self._bootstrap = bootstrap
        self._directory = Path(directory)
        self._spark = spark_session("benchmark", settings={"spark.ui.retainedStages": "1000"})  # batches ask for theirs
        self._runner: Runner | None = None
        self._thread: threading.Thread | None = None
        self._batches = Batches(self._spark)

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

    def several(self, topic: str, names: dict[str, str]) -> dict[str, Any]:
        """Side by side; `names` are those of the outputs, by the query. For each of them the rows that it read, and
        the seconds from the beginning to the end of its last batch.
        """
        app = _app()
        declare(app, topic, names)
        running = self._running(until_caught_up=True)
        self._batches.clear()
        begin = time.monotonic()
        runner = Runner(app, running)
        runner.run()
        told = self._batches.take()
        found = {}
        for name, query in zip(names, runner.queries, strict=True):
            own = [each for each in told if each.query == query.place.id_of(query.name)]
            found[name] = {"rows": sum(each.rows for each in own), "seconds": max(each.ended for each in own) - begin}
        return found

    def view(self, topic: str) -> dict[str, Any]:
        """As `start_view`, until all is read."""
        app = _app()
        declare(app, topic, {"per_minute": VIEW})
        return self._measured(app)

    def rebuild(self, app: str, data: str, topic: str) -> dict[str, Any]:
        """The view of an app that `view` or `start_view` has made, in this process or in another."""
        declared = App(app)
        declare(declared, topic, {"per_minute": VIEW})
        begin = time.perf_counter()
        done = Rebuild(declared, VIEW, Running(self._bootstrap, Path(data), spark=self._spark)).run()
        end = time.perf_counter()
        assert done is not None
        rows = done.in_time + done.late + done.rejected
        times = {"seconds": end - begin, "begin": begin, "end": end}
        return {**times, "rows": rows, "rejected": done.rejected, "counted": _sum(Path(data))}

    # --- until it is stopped

    def start_copy(self, topic: str, to: str) -> dict[str, Any]:
        app = _app()
        clicks = app.stream(topic, schema=NUMBERED)
        app.stream(clicks, key="page")(_changed(to))
        return self._start(app)

    def start_view(self, topic: str) -> dict[str, Any]:
        """Stateful: the newest number per page and minute."""
        app = _app()
        declare(app, topic, {"per_minute": VIEW})
        return self._start(app)

    def start_several(self, topic: str, names: dict[str, str]) -> dict[str, Any]:
        app = _app()
        declare(app, topic, names)
        return self._start(app)

    def alone(self, rows: int, seconds: float, *, stateful: bool) -> dict[str, Any]:
        """The milliseconds of Spark's own steps, batch by batch, where nothing is ours: it makes the rows by itself,
        does what the bodies above do, and hands the outcome to Python as Arrow.
        """
        made = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        frame = made.option("numPartitions", 4).option("advanceMillisPerBatch", 200).load()
        page = F.concat(F.lit("page-"), (F.col("value") % 100).cast("string"))
        clicks = frame.withColumn("page", page).withColumnRenamed("timestamp", "at")
        if stateful:
            timed = clicks.withWatermark("at", "10 seconds").groupBy(F.window("at", "1 minute"), "page")
            outcome = timed.agg(F.max("value").alias("value"), F.count("*").alias("count"))
        else:
            outcome = clicks.withColumn("value", F.col("value") * 2).select(F.to_json(F.struct("*")).alias("value"))
        checkpoint = str(self._directory / uuid.uuid4().hex)
        writer = outcome.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
        query = writer.foreachBatch(_brought).start()
        time.sleep(seconds)
        told = [each.durationMs for each in query.recentProgress]
        query.stop()
        return {"steps": {step: [each.get(step, 0) for each in told] for step in SPARK_STEPS}}

    def stop(self) -> dict[str, Any]:
        """The milliseconds of each step, batch by batch, of Spark's report and of our own; and the batches."""
        assert self._runner is not None
        batches = self._batches.take()
        self.end()
        told = [each for each in batches if each.rows and each.start is not None]
        steps = {step: [each.spark.get(step, 0) for each in told] for step in SPARK_STEPS}
        names = dict.fromkeys(name for each in told for name in each.steps)
        own = {name: [1e3 * each.steps.get(name, 0.0) for each in told] for name in names}
        return {"steps": steps, "own": own, "batches": [asdict(each) for each in batches]}

    def end(self) -> None:
        """What runs, if anything does."""
        if self._runner is not None and self._thread is not None:
            self._runner.stop()
            self._thread.join()

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
        told = {"app": app.name, "data": str(running.data), "counted": _sum(running.data)}
        return {"seconds": elapsed, "rows": rows, "rejected": query.totals.rejected, **told}

    def _start(self, app: App) -> dict[str, Any]:
        running = self._running(until_caught_up=False)
        self._batches.clear()
        self._runner = Runner(app, running)
        self._thread = threading.Thread(target=self._runner.run)
        self._thread.start()
        return {"views": str(running.data / "views.sqlite"), "app": app.name, "data": str(running.data)}


def _app() -> App:
    return App(f"benchmark-{uuid.uuid4().hex[:12]}")


def _per_page_and_minute(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()


def _brought(batch: DataFrame, number: int) -> None:  # noqa: ARG001
    batch.toArrow()


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
    try:
        for line in sys.stdin:
            job = json.loads(line)
            print("@", json.dumps(getattr(side, job.pop("do"))(**job)), flush=True)
    finally:
        side.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
