"""Watches the queries of an app while it runs: a thread that looks once a second, beside the batches.

Each look gathers what is known into one value (`progress`), which the screen, the log and the metrics show; commits the
queries' positions to their groups; and sees which alerts begin and end. Brokers are asked every few seconds. Nothing
that fails here harms a query.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from runnel.app.alerts import Alerts
from runnel.app.positions import GroupPositions, Reached, Reading, lags
from runnel.app.progress import AppProgress, QueryProgress, Rate, State
from runnel.app.telling import Telling
from runnel.client.cluster import Cluster
from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.errors import RunnelError
from runnel.graph.alert import AlertRule
from runnel.pipeline.batch import Totals
from runnel.pipeline.done import Done
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import Place
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.stopwatch import Stopwatch

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0  # seconds
ASK_EVERY = 3.0  # seconds between two questions for the ends of topics
PATIENCE = 2.0  # with brokers, in seconds: the next look is soon
LAST_LOOK = 15.0  # seconds that the end waits for it: Java may have stopped answering
PLAN = "plan"  # what Spark does around the steps


class Watched(Reading, Protocol):
    """As much of a query as is needed here."""

    totals: Totals
    last: Done | None
    under_way: Stopwatch | None

    @property
    def open_windows(self) -> int | None: ...

    @property
    def is_active(self) -> bool: ...

    @property
    def spark_says(self) -> dict[str, Any]: ...


class Watching:
    """Of one run. `is_troubled` tells whether a query waits for something that passes, by its name."""

    def __init__(
        self,
        place: Place,
        names: Iterable[str],
        rules: Iterable[AlertRule],
        is_troubled: Callable[[str], bool] = lambda _: False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._place = place
        self._clock = clock
        self._is_troubled = is_troubled
        self._began = clock.elapsed()
        self._queries: Sequence[Watched] = []
        self._known: dict[str, Known] = {name: Known() for name in names}
        self._lags: dict[str, dict[str, int]] = {}
        self._asked = float("-inf")
        self._alerts = Alerts(rules)
        self._telling = Telling(place.kafka)
        self._cluster = _impatient(place.kafka)
        self._positions = GroupPositions(self._cluster, {name: place.id_of(name) for name in self._known})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="runnel-watch", daemon=True)
        self._found: AppProgress | None = None
        self.looked = time.monotonic()

    @property
    def is_begun(self) -> bool:
        return self._thread.ident is not None

    @property
    def progress(self) -> AppProgress:
        """As of the last look; before the first one, how long Spark has been starting already."""
        return self._found or self._empty()

    def start(self, queries: Sequence[Watched]) -> None:
        self._queries = queries  # looked at anew each time: another may take the place of one
        self.looked = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """After a last look, with the last positions."""
        if self._thread.is_alive():
            self._ending.set()
            self._cluster.hurry()
            self._thread.join(LAST_LOOK)
        self._telling.close()
        self._cluster.close()

    def look(self) -> AppProgress:
        """Once: what the thread does again and again."""
        now = self._now
        reached = self._reached()
        if now - self._asked >= ASK_EVERY:
            self._asked = now
            self._lags = self._ask(reached)
        queries = tuple(self._seen(query, now) for query in self._queries)
        found = AppProgress(self._place.app, self._clock.now(), now, queries, _free(self._place.directory))
        events = self._alerts.look(found)
        self._found = replace(found, alerts=self._alerts.active)
        self._telling.tell(events)
        self._positions.commit(reached.values(), now)
        self.looked = time.monotonic()
        return self._found

    # --- inside

    @property
    def _now(self) -> float:
        """Seconds since it began."""
        return (self._clock.elapsed() - self._began) / 1000

    def _empty(self) -> AppProgress:
        queries = tuple(QueryProgress(name) for name in self._known)
        return AppProgress(self._place.app, self._clock.now(), self._now, queries)

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_EVERY):
            self._look_safely()
        self._asked = float("-inf")
        self._look_safely()

    def _look_safely(self) -> None:
        try:
            self.look()
        except Exception:  # a defect here must not go unseen, and must not end the watch
            logger.exception("the watch over the app failed")

    def _reached(self) -> dict[str, tuple[Reading, Reached]]:
        found: dict[str, tuple[Reading, Reached]] = {}
        for query in self._queries:
            try:
                found[query.name] = query, query.reached()
            except (OSError, ValueError) as error:  # Spark writes the checkpoint meanwhile
                logger.debug("%s: where it is cannot be told now: %s", query.name, error)
        return found

    def _ask(self, reached: Mapping[str, tuple[Reading, Reached]]) -> dict[str, dict[str, int]]:
        try:
            return lags(self._cluster, reached)
        except RunnelError as error:
            logger.debug("how far the queries are behind is not known: %s", error)
            return {}

    def _seen(self, query: Watched, now: float) -> QueryProgress:
        known = self._known[query.name]
        if known.query is not query:
            known.query, known.told = query, -1
        if query.last is not None and query.last.number > known.told:
            known.see(_said_by(query))
        totals, last, under_way = query.totals, query.last, query.under_way
        return QueryProgress(
            query.name,
            self._state(query, known),
            batches=totals.batches,
            in_time=totals.in_time,
            late=totals.late,
            rejected=totals.rejected,
            gone=totals.gone,
            rows_per_second=known.rate.see(now, totals.in_time + totals.late + totals.rejected),
            lag=self._lags.get(query.name) or None,
            has_time=any(isinstance(spec, Spec) and spec.time is not None for spec in query.streams),
            watermark=last.watermark if last else None,
            open_windows=query.open_windows,
            state_rows=known.state_rows,
            state_bytes=known.state_bytes,
            seconds=last.seconds + known.plan if last else None,
            steps={PLAN: known.plan, **last.steps} if last else {},
            seconds_by_step=dict(totals.steps),
            under_way=under_way.total if under_way else None,
            age=time.monotonic() - last.ended if last else None,
        )

    def _state(self, query: Watched, known: Known) -> State:
        if self._is_troubled(query.name):
            return State.WAITS
        if _is_active(query):
            known.has_run = True
            return State.RUNS
        return State.ENDED if known.has_run or query.last is not None else State.BEGINS


class Known:
    """What is remembered of a query from one look to the next."""

    def __init__(self) -> None:
        self.query: Watched | None = None  # another one, after its view was rebuilt
        self.rate = Rate()
        self.has_run = False
        self.told = -1  # the batch that Spark told of last, a little after its end
        self.plan = 0.0
        self.state_rows: int | None = None
        self.state_bytes: int | None = None

    def see(self, says: Mapping[str, Any]) -> None:
        self.told = says.get("batchId", self.told)
        took = says.get("durationMs", {})
        if "addBatch" in took:
            self.plan = max(0, took.get("triggerExecution", 0) - took["addBatch"]) / 1000
        if operators := says.get("stateOperators"):
            self.state_bytes = sum(each.get("memoryUsedBytes", 0) + _files_of(each) for each in operators)
            rows = sum(each.get("numRowsTotal", 0) for each in operators)
            self.state_rows = rows if rows > 0 else None


def _files_of(operator: Mapping[str, Any]) -> int:
    return int(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0))


def _said_by(query: Watched) -> Mapping[str, Any]:
    try:
        return query.spark_says
    except Exception as error:  # of Py4J's: Java is ending
        logger.debug("%s: Spark does not tell how it is: %s", query.name, error)
        return {}


def _is_active(query: Watched) -> bool:
    try:
        return query.is_active
    except Exception as error:  # of Py4J's: Java is ending
        logger.debug("%s: Spark does not tell whether it runs: %s", query.name, error)
        return False


def _free(directory: Path) -> int | None:
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None


def _impatient(kafka: Kafka) -> Cluster:
    return Cluster(kafka.bootstrap, security=kafka.security, timeout=min(PATIENCE, kafka.patience))
