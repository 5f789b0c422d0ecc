"""One life of an app that is played: it runs in a thread of its own until it is ended, or dies."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from runnel.app.app import App
from runnel.app.runner import Runner, Running
from runnel.errors import RunnelError
from runnel.pipeline.query import Query
from runnel.pipeline.source.planner import Planner
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.view_inputs.planner import Planner as ViewPlanner

LOOK_EVERY = 0.005  # seconds


class Life:
    def __init__(self, app: App, running: Running) -> None:
        """Returns when all queries run: they know where they begin, and those that an earlier life has left in the
        middle of a batch have repeated it.
        """
        self._runner = Runner(app, running)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="runnel-play")
        self._running = self._thread.submit(self._runner.run)
        try:
            self._wait_until(lambda: len(self.queries) == len(app.graph.outputs) and self._are_active())
            for query in self.queries:
                if query.checkpoint.last >= 0:
                    self.settle(query.name)
                else:
                    _find_start(query)
        except BaseException:
            self.end_anyhow()
            raise

    @property
    def queries(self) -> list[Query]:
        return self._runner.queries

    def settle(self, name: str) -> None:
        """Return when the query has done all that there is to do. What ends the app is raised; what passes, and the
        app gets over by itself, is waited for.
        """
        while not self.tries_to_settle(name):
            self._wait_until(lambda: self._query(name).is_active)

    def tries_to_settle(self, name: str) -> bool:
        """False if the query has failed."""
        try:
            self._query(name).settle()
        except (PySparkException, Py4JError):
            return False
        return True

    def end(self) -> None:
        """In good order; what it has failed with is raised."""
        self._runner.stop()
        try:
            self._running.result()
        finally:
            self._thread.shutdown()

    def end_anyhow(self) -> None:
        with suppress(RunnelError, PySparkException, Py4JError):
            self.end()

    def _query(self, name: str) -> Query:
        return next(query for query in self.queries if query.name == name)

    def _are_active(self) -> bool:
        return all(query.is_active for query in self.queries)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if wait([self._running], LOOK_EVERY).done:
                self.end()


def _find_start(query: Query) -> None:
    """Where its inputs begin is written down: Spark would ask them one by one when the query is let go, and then there
    is more than there was.
    """
    for spec in query.streams:
        if isinstance(spec, Spec):
            with query.place.kafka.cluster() as cluster:
                Planner(spec, cluster).first()
        else:
            with spec.open() as reader:
                ViewPlanner(spec, reader).first()
