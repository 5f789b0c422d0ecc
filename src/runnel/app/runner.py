"""Runs an app: builds its parts from settings, starts a query for each output, and stops them between two batches.

All that it keeps on this machine lives under one directory: the queries' checkpoints, and the views if they have no
other store.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runnel.app.app import App
from runnel.errors import DirectoryOwned, Permanent
from runnel.files import DiskFiles
from runnel.graph.formats import Columns
from runnel.graph.stream import Stream
from runnel.graph.view import View
from runnel.pipeline.failure import told
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import PARALLEL_FROM, Place
from runnel.pipeline.query import Query
from runnel.pipeline.session import Session, ship, spark_session
from runnel.pipeline.stream_query import StreamQuery
from runnel.pipeline.view_query import ViewQuery
from runnel.views.opening import open_store

logger = logging.getLogger(__name__)

LOCK = "lock"
LOOK_EVERY = 0.2  # seconds, whether a query has ended
REPORT_EVERY = 10.0


@dataclass(frozen=True)
class Running:
    """How an app is run. `views` is a directory or a URL; without it the data directory. `spark` is a session that is
    there already, and stays when the app ends. `settings` are librdkafka's, for the connection.
    """

    bootstrap: str
    data: Path
    views: str | None = None
    master: str = "local[*]"
    until_caught_up: bool = False
    parallel_from: int = PARALLEL_FROM
    spark: Session | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


class QueryFailed(Permanent):
    def __init__(self, query: str, what: str, *, hint: str) -> None:
        super().__init__(f"{query} has stopped: {what}", hint=hint)
        self.query = query


class Runner:
    def __init__(self, app: App, running: Running) -> None:
        if not app.graph.outputs:
            raise Permanent(f'app "{app.name}" has nothing to run', hint="declare a view or derive a stream")
        self._app = app
        self._running = running
        self._stopping = threading.Event()
        self.queries: list[Query] = []

    def run(self) -> None:
        """Until `stop` is called, all that was there is read (if so chosen), or a query fails."""
        running = self._running
        running.data.mkdir(parents=True, exist_ok=True)
        lock = DiskFiles().lock(str(running.data / LOCK))
        if lock is None:
            raise DirectoryOwned(str(running.data), None)
        try:
            self._check_kafka(Kafka(running.bootstrap, running.settings))
            self._run()
        finally:
            lock.release()

    def stop(self) -> None:
        """Finish the batches under way, and end. May be called from any thread, and from a signal's handler."""
        self._stopping.set()

    def _check_kafka(self, kafka: Kafka) -> None:
        """What is missing there is told before Spark starts."""
        inputs = [each.noun for output in self._app.graph.outputs for each in output.inputs]
        with kafka.cluster() as cluster:
            cluster.reach()
            cluster.topics(noun.topic for noun in inputs if isinstance(noun, Stream) and noun.reading.topics is None)

    def _run(self) -> None:
        spark = self._running.spark or spark_session(self._app.name, master=self._running.master)
        try:
            self._build(spark)
            for query in self.queries:
                query.start(until_caught_up=self._running.until_caught_up)
                logger.info("%s is running", query.name)
            self._watch()
        finally:
            for query in self.queries:
                query.stop()
            if self._running.spark is None:
                spark.stop()

    def _build(self, spark: Session) -> None:
        ship({sys.modules[output.body.__module__] for output in self._app.graph.outputs})
        running = self._running
        address = running.views or str(running.data)
        kafka = Kafka(running.bootstrap, running.settings)
        place = Place(self._app.name, kafka, running.data, lambda: open_store(address), running.parallel_from)
        known: dict[str, Columns] = {}
        for output in self._app.graph.outputs:
            if isinstance(output, View):
                self.queries.append(ViewQuery(spark, place, output, known))
            else:
                stream = StreamQuery(spark, place, output, known)
                known[output.name] = stream.columns
                self.queries.append(stream)

    def _watch(self) -> None:
        """Until there is nothing left to run. The first failure ends all."""
        waited = 0.0
        while not self._stopping.wait(LOOK_EVERY):
            is_over = not any(query.is_active for query in self.queries)  # before the failures: one may come last
            for query in self.queries:
                if (failure := query.failure) is not None:
                    what, hint = told(failure)
                    raise QueryFailed(query.name, what, hint=hint) from None
            if is_over:
                break
            waited += LOOK_EVERY
            if waited >= REPORT_EVERY:
                waited = 0.0
                self._report()
        self._report()

    def _report(self) -> None:
        for query in self.queries:
            logger.info("%s: %s", query.name, query.totals)
