"""A capture's numbers for Prometheus, and its health, over HTTP.

/metrics    every number
/health     200 while the process runs
/ready      200 while changes are read, otherwise 503 with what it does instead
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runnel.broker.endpoints import parse_endpoint
from runnel.broker.scraping import Scraping
from runnel.capture.watching import Numbers


def exposition(address: str, numbers: Callable[[], Numbers]) -> Scraping:
    """`numbers` are asked for at each scrape."""
    return Scraping(
        parse_endpoint("--metrics", address),
        CaptureCollector(numbers),
        health=list,
        troubles=lambda: troubles_of(numbers()),
        silence="the capture does not answer",
    )


def troubles_of(numbers: Numbers) -> list[str]:
    """Why the capture is not ready, if it is not."""
    if numbers.is_streaming:
        return []
    doing = "waits for its database or the cluster" if numbers.is_waiting else "reads its tables"
    return [f"{numbers.name} {doing}"]


class CaptureCollector(Collector):
    def __init__(self, numbers: Callable[[], Numbers]) -> None:
        self._numbers = numbers

    def describe(self) -> list[Metric]:
        return []  # nothing is asked of the capture when it is registered

    def collect(self) -> Iterator[Metric]:
        return metrics_of(self._numbers())


def metrics_of(numbers: Numbers) -> Iterator[Metric]:
    yield from _counters(numbers)
    for name, about, value in _gauges(numbers):
        if value is not None:
            metric = GaugeMetricFamily(name, about, labels=["capture"])
            metric.add_metric([numbers.name], value)
            yield metric


def _counters(numbers: Numbers) -> Iterator[Metric]:
    events = CounterMetricFamily(
        "runnel_capture_events", "Changes that were written.", labels=["capture", "topic", "op"]
    )
    for (topic, operation), count in numbers.events.items():
        events.add_metric([numbers.name, topic, operation], count)
    rejected = CounterMetricFamily(
        "runnel_capture_rejected", "Records that were too large.", labels=["capture", "topic"]
    )
    for topic, count in numbers.rejected.items():
        rejected.add_metric([numbers.name, topic], count)
    transactions = CounterMetricFamily(
        "runnel_capture_transactions", "Transactions of the database that were told.", labels=["capture"]
    )
    transactions.add_metric([numbers.name], numbers.transactions)
    commits = CounterMetricFamily(
        "runnel_capture_commits", "Kafka transactions, since the capture began.", labels=["capture"]
    )
    commits.add_metric([numbers.name], numbers.steps)
    yield from (events, rejected, transactions, commits)


def _gauges(numbers: Numbers) -> Iterator[tuple[str, str, float | None]]:
    yield "runnel_capture_streaming", "1 when the tables are read, and changes are.", float(numbers.is_streaming)
    yield "runnel_capture_snapshot_rows", "Rows that were read of the tables.", numbers.rows
    yield "runnel_capture_snapshot_rows_estimate", "About how many there are.", numbers.estimate
    left = None if numbers.is_streaming or numbers.is_waiting else numbers.seconds_left
    yield "runnel_capture_snapshot_seconds_left", "Until the tables are read, by the last minute.", left
    yield (
        "runnel_capture_lag_seconds",
        "How long ago the last transaction was committed, if more wait.",
        (numbers.lag_seconds),
    )
    if numbers.unit:
        about = "How much of the database's log is not in the topics."
        yield f"runnel_capture_lag_{numbers.unit}", about, numbers.behind
    yield "runnel_capture_retained_bytes", "How much of its log the server keeps for the capture.", numbers.retained
