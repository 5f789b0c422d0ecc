"""An app's numbers for Prometheus, and its health, over HTTP.

/metrics    every number
/health     200 while the app looks after its queries
/ready      200 while every query runs, otherwise 503 with what is wrong
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runnel.app.progress import AppProgress, QueryProgress, State
from runnel.broker.endpoints import parse_endpoint
from runnel.broker.scraping import Scraping

NOT_LOOKED = 60.0  # seconds: then something hangs

Healthy = Callable[[], float | None]
"""Seconds since the app last looked at its queries; None while it starts."""


def exposition(address: str, progress: Callable[[], AppProgress], looked: Healthy) -> Scraping:
    """`progress` and `looked` are asked for at each scrape."""
    return Scraping(
        parse_endpoint("--metrics", address),
        AppCollector(progress),
        health=lambda: hang_of(looked()),
        troubles=lambda: troubles_of(progress()),
        silence="the app does not answer",
    )


def hang_of(looked: float | None) -> list[str]:
    """Why the app is not healthy, if it is not."""
    if looked is None or looked < NOT_LOOKED:
        return []
    return [f"the app has not looked at its queries for {looked:.0f} s"]


def troubles_of(progress: AppProgress) -> list[str]:
    """Why the app is not ready, if it is not."""
    words = {State.BEGINS: "has not begun", State.WAITS: "waits, and goes on by itself", State.ENDED: "has ended"}
    return [f"{query.name} {words[query.state]}" for query in progress.queries if query.state in words]


class AppCollector(Collector):
    def __init__(self, progress: Callable[[], AppProgress]) -> None:
        self._progress = progress

    def describe(self) -> list[Metric]:
        return []  # nothing is asked of the app when it is registered

    def collect(self) -> Iterator[Metric]:
        return metrics_of(self._progress())


def metrics_of(progress: AppProgress) -> Iterator[Metric]:
    yield from _counters(progress)
    yield from _gauges(progress)
    yield _lag(progress)
    yield GaugeMetricFamily("runnel_app_alerts", "Alerts that have begun and not ended.", value=len(progress.alerts))
    if progress.disk_free is not None:
        about = "Free bytes on the disk of the app's data directory."
        yield GaugeMetricFamily("runnel_app_disk_free_bytes", about, value=progress.disk_free)


def _counters(progress: AppProgress) -> Iterator[Metric]:
    batches = CounterMetricFamily("runnel_query_batches", "Batches that took effect.", labels=["app", "query"])
    rows = CounterMetricFamily("runnel_query_rows", "Rows that were read.", labels=["app", "query", "kind"])
    steps = CounterMetricFamily(
        "runnel_query_step_seconds", "Seconds in each step of the batches.", labels=["app", "query", "step"]
    )
    for query in progress.queries:
        names = [progress.app, query.name]
        batches.add_metric(names, query.batches)
        for kind in ("in_time", "late", "rejected", "gone"):
            rows.add_metric([*names, kind], getattr(query, kind))
        for step, seconds in query.seconds_by_step.items():
            steps.add_metric([*names, step], seconds)
    yield from (batches, rows, steps)


GAUGES: tuple[tuple[str, str, Callable[[AppProgress, QueryProgress], float | None]], ...] = (
    ("runnel_query_running", "1 while it runs.", lambda _, query: query.state is State.RUNS),
    (
        "runnel_query_watermark_seconds",
        "The watermark, since 1970.",
        lambda _, query: None if query.watermark is None else query.watermark / 1000,
    ),
    ("runnel_query_batch_seconds", "How long the last batch took.", lambda _, query: query.seconds),
    (
        "runnel_query_batch_under_way_seconds",
        "How long the present batch takes already.",
        lambda _, query: query.under_way or 0.0,
    ),
    (
        "runnel_query_last_batch_timestamp_seconds",
        "When the last batch ended, since 1970.",
        lambda progress, query: None if query.age is None else progress.time / 1000 - query.age,
    ),
    ("runnel_query_open_windows", "Windows that a view shows and that are open.", lambda _, query: query.open_windows),
    ("runnel_query_state_rows", "Rows that Spark remembers, if it counts them.", lambda _, query: query.state_rows),
    ("runnel_query_state_bytes", "Memory and files of what Spark remembers.", lambda _, query: query.state_bytes),
)


def _gauges(progress: AppProgress) -> Iterator[Metric]:
    for name, about, ask in GAUGES:
        metric = GaugeMetricFamily(name, about, labels=["app", "query"])
        for query in progress.queries:
            if (value := ask(progress, query)) is not None:
                metric.add_metric([progress.app, query.name], value)
        yield metric


def _lag(progress: AppProgress) -> Metric:
    metric = GaugeMetricFamily("runnel_query_lag_records", "Records behind.", labels=["app", "query", "input"])
    for query in progress.queries:
        for name, behind in (query.lag or {}).items():
            metric.add_metric([progress.app, query.name, name], behind)
    return metric
