"""The broker's numbers for Prometheus, and its health, over HTTP.

    /metrics    every number
    /health     200 while the event loop answers
    /ready      200 while it serves and no partition refuses writes, otherwise 503 with what is wrong

The numbers are gathered on the event loop, whose they are; a loop that hangs is not healthy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runnel.broker.endpoints import Endpoint
from runnel.broker.scraping import Scraping
from runnel.broker.server import Server
from runnel.protocol.own import api_of

SECONDS_TO_ANSWER = 10.0

Found = TypeVar("Found")


class Exposition(Scraping):
    """Serves until `close`, in a thread of its own."""

    def __init__(self, server: Server, endpoint: Endpoint) -> None:
        self._server = server
        super().__init__(
            endpoint,
            BrokerCollector(self),
            health=lambda: self.on_loop(lambda _: []),  # to answer is all that is asked
            troubles=lambda: self.on_loop(troubles_of),
            silence="the broker does not answer",
        )

    def on_loop(self, function: Callable[[Server], Found]) -> Found:
        """What the function finds on the event loop; TimeoutError if the loop does not answer."""
        answer: Future[Found] = Future()

        def run() -> None:
            try:
                answer.set_result(function(self._server))
            except Exception as error:
                answer.set_exception(error)

        self._server.loop.call_soon_threadsafe(run)
        return answer.result(SECONDS_TO_ANSWER)


def troubles_of(server: Server) -> list[str]:
    """Why the broker is not ready, if it is not."""
    troubles = ["the broker is stopping"] if server.node.stopping else []
    for topic in server.node.topics.all():
        troubles += [f"partition {partition.id} refuses writes" for partition in topic.opened() if partition.failed]
    return troubles


class BrokerCollector(Collector):
    def __init__(self, exposition: Exposition) -> None:
        self._exposition = exposition

    def describe(self) -> list[Metric]:
        return []  # nothing is asked of the broker when it is registered

    def collect(self) -> Iterator[Metric]:
        try:
            yield from self._exposition.on_loop(lambda server: list(_all(server)))
        except (TimeoutError, asyncio.InvalidStateError):
            return


def _all(server: Server) -> Iterator[Metric]:
    yield from _requests(server)
    yield from _connections(server)
    yield from _partitions(server)
    yield from _groups(server)
    yield from _transactions(server)


def _requests(server: Server) -> Iterator[Metric]:
    counters = server.counters
    for name, help_text, counts in (
        ("runnel_requests", "Requests that were answered.", counters.requests),
        ("runnel_request_bytes", "Bytes of the requests that were answered.", counters.request_bytes),
        ("runnel_answer_bytes", "Bytes of the answers.", counters.answer_bytes),
    ):
        metric = CounterMetricFamily(name, help_text, labels=["api"])
        for key, count in counts.items():
            metric.add_metric([api_of(key).name.lower()], count)
        yield metric
    yield CounterMetricFamily("runnel_throttled", "Answers that told a client to wait.", value=counters.throttled)
    errors = "Connections that were closed because of what they sent, or because of a defect."
    yield CounterMetricFamily("runnel_connection_errors", errors, value=counters.errors)


def _connections(server: Server) -> Iterator[Metric]:
    counters = server.counters
    yield GaugeMetricFamily("runnel_connections", "Connections that are open.", value=len(server.connections))
    yield CounterMetricFamily("runnel_connections_accepted", "Connections taken.", value=counters.connections)
    refused = counters.refused_connections
    yield CounterMetricFamily("runnel_connections_refused", "Connections beyond a limit.", value=refused)
    received = server.received.arriving + server.received.under_way
    yield GaugeMetricFamily("runnel_received_bytes", "Bytes of requests that are held in memory.", value=received)
    unsent = server.unsent.total
    yield GaugeMetricFamily("runnel_unsent_bytes", "Bytes of answers that slow readers have not taken.", value=unsent)
    free = server.node.log.free_space()
    if free is not None:
        yield GaugeMetricFamily("runnel_disk_free_bytes", "Free bytes on the disk of the data directory.", value=free)


def _partitions(server: Server) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    starts = GaugeMetricFamily("runnel_partition_start_offset", "The first offset that is kept.", labels=labels)
    ends = GaugeMetricFamily("runnel_partition_end_offset", "The offset after the last record.", labels=labels)
    sizes = GaugeMetricFamily("runnel_partition_size_bytes", "The bytes of a partition's batches.", labels=labels)
    topics = partitions = failed = 0
    for topic in server.node.topics.all():
        topics += 1
        partitions += topic.count
        for partition in topic.opened():
            names = [topic.name, str(partition.id.partition)]
            failed += partition.failed
            starts.add_metric(names, partition.start_offset)
            ends.add_metric(names, partition.end_offset)
            sizes.add_metric(names, partition.size)
    yield GaugeMetricFamily("runnel_topics", "Topics.", value=topics)
    yield GaugeMetricFamily("runnel_partitions", "Partitions.", value=partitions)
    yield GaugeMetricFamily("runnel_partitions_failed", "Partitions that refuse writes.", value=failed)
    yield from (starts, ends, sizes)


def _groups(server: Server) -> Iterator[Metric]:
    groups = server.node.groups
    states = GaugeMetricFamily("runnel_groups", "Consumer groups by type and state.", labels=["type", "state"])
    for labels, count in groups.count_by_state().items():
        states.add_metric(labels, count)
    yield states
    yield CounterMetricFamily("runnel_group_rebalances", "Completed rebalances.", value=groups.rebalances)
    yield CounterMetricFamily("runnel_group_commits", "Offsets that were committed.", value=groups.commits)
    yield CounterMetricFamily("runnel_group_offsets_expired", "Offsets that expired.", value=groups.expired)


def _transactions(server: Server) -> Iterator[Metric]:
    transactions = server.node.transactions
    committed = transactions.committed
    yield CounterMetricFamily("runnel_transactions_committed", "Transactions that were committed.", value=committed)
    aborted = "Transactions that were aborted, by their producers, by others or by time."
    yield CounterMetricFamily("runnel_transactions_aborted", aborted, value=transactions.aborted)
