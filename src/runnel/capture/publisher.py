"""Exactly once into the topics: records and the position they lead to are one Kafka transaction.

    publisher = Publisher(cluster, "shop", admin)
    state = publisher.open()                   # whoever wrote under this name before is fenced
    publisher.publish(outgoing, state.at(position))

A crash leaves all of it or nothing. Where nobody could tell whether a transaction was committed, the state's topic is
asked, and it is written again if it was not. A transaction that the cluster has aborted is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from runnel.capture.outgoing import Outgoing, Page
from runnel.capture.signals import CONFIGS as SIGNAL_CONFIGS
from runnel.capture.signals import Signals
from runnel.capture.state import State, read_state, topic_of
from runnel.client.admin import Admin
from runnel.client.cluster import Cluster
from runnel.client.column_bodies import column_bodies
from runnel.client.columns import HEADERS
from runnel.client.errors import EndUnknown, TopicExists, TransactionLost
from runnel.client.metadata import Place
from runnel.client.partitioning import partitions_of
from runnel.client.ticket import Ticket
from runnel.client.transaction import Transaction
from runnel.client.writing import write
from runnel.durable import durable
from runnel.records import Codec

TRANSACTION_SECONDS = 300.0
STATE_CONFIGS = {"cleanup.policy": "compact"}
# A topic of changes is the database's history: nothing of it goes by itself. It is not compacted unless somebody says
# so, because a truncated table has an event without a key.
TOPIC_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1"}


Divided: TypeAlias = dict[Place, tuple[Any, ...]]  # columns: values, keys, times, headers


class Publisher:
    def __init__(
        self,
        cluster: Cluster,
        name: str,
        admin: Callable[[], AbstractContextManager[Admin]],
        *,
        partitions: int | None = None,
        configs: Mapping[str, str] | None = None,
        codec: Codec = Codec.NONE,
    ) -> None:
        """`partitions` and `configs` are of topics that are not there yet."""
        self.name = name
        self.state = State()
        self.signals = Signals(cluster, name)
        self._cluster = cluster
        self._admin = admin
        self._partitions = partitions
        self._configs = {**TOPIC_CONFIGS, **(configs or {})}
        self._codec = codec
        self._transaction = Transaction(cluster, topic_of(name), timeout=TRANSACTION_SECONDS)
        self._counts: dict[str, int] = {}

    def open(self) -> State:
        """Take over; what was committed last."""
        self._have(topic_of(self.name), 1, STATE_CONFIGS)
        self._have(self.signals.topic, 1, SIGNAL_CONFIGS)
        with durable("capture.init"):
            self._transaction.init()
        self.state = read_state(self._cluster, self.name)
        return self.state

    def publish(self, outgoing: Outgoing, state: State) -> State:
        """Write these records and the state they lead to, at once. The answer is the state as it was written."""
        divided = self._divided(outgoing)
        return self._published(divided, lambda: [divided], lambda: state)

    def publish_parts(self, parts: Callable[[], Iterable[Outgoing]], topic: str, state: Callable[[], State]) -> State:
        """As `publish`, of more records of a topic than fit into memory. `parts` may be called again; `state` is asked
        for behind them.
        """
        return self._published(self._places(topic), lambda: map(self._divided, parts()), state)

    # --- inside

    def _published(
        self, places: Iterable[Place], parts: Callable[[], Iterable[Divided]], state: Callable[[], State]
    ) -> State:
        step, wanted = self.state.step + 1, list(places)
        while True:
            try:
                self._write(wanted, parts(), lambda: replace(state(), step=step))
                break
            except EndUnknown:
                self._transaction.init()
                if read_state(self._cluster, self.name).step == step:
                    break
            except TransactionLost:
                self._transaction.init()
        self.state = replace(state(), step=step)
        return self.state

    def _write(self, places: list[Place], parts: Iterable[Divided], state: Callable[[], State]) -> None:
        own = topic_of(self.name), 0
        ticket = self._transaction.begin([*places, own])
        sequences: dict[Place, int] = {}
        for part in parts:
            contents = {place: column_bodies(*columns) for place, columns in part.items()}
            with durable("capture.write"):
                sequences |= write(self._cluster, ticket, contents, codec=self._codec, sequences=sequences)
        self._write_state(ticket, own, state())
        with durable("capture.commit"):
            self._transaction.commit()

    def _write_state(self, ticket: Ticket, place: Place, state: State) -> None:
        keys, values = zip(*state.changes_from(self.state), strict=True)
        body = column_bodies(pa.array(values, pa.string()), pa.array(keys, pa.string()))
        with durable("capture.state"):
            write(self._cluster, ticket, {place: body})

    def _divided(self, outgoing: Outgoing) -> Divided:
        """The records by partition. Those without a key are in the first one, so that they stay in order."""
        found: Divided = {}
        for topic, page in outgoing.pages.items():
            columns, count = _columns(page), len(self._places(topic))
            if count == 1:
                found[topic, 0] = columns
                continue
            chosen = partitions_of(columns[1], count)
            chosen[chosen < 0] = 0
            for partition in range(count):
                rows = pa.array((chosen == partition).nonzero()[0])
                if len(rows):
                    found[topic, partition] = tuple(None if each is None else each.take(rows) for each in columns)
        return found

    def _places(self, topic: str) -> list[Place]:
        if topic not in self._counts:
            self._have(topic, self._partitions, self._configs)
            self._counts[topic] = len(self._cluster.topic(topic).places)
        return [(topic, number) for number in range(self._counts[topic])]

    def _have(self, topic: str, partitions: int | None, configs: Mapping[str, str]) -> None:
        """Make a topic, unless it is there. All are asked for, because one that is not there would be waited for."""
        if topic in self._cluster.all_topics(internal=True):
            return
        with self._admin() as admin, durable("capture.topic"), suppress(TopicExists):
            admin.create(topic, partitions=partitions, configs=configs)
        self._cluster.topic(topic, fresh=True)


@contextmanager
def admin_of(bootstrap: str, settings: Mapping[str, str] | None = None) -> Iterator[Admin]:
    with Admin(bootstrap, settings=dict(settings or {})) as admin:
        yield admin


def _columns(page: Page) -> tuple[Any, Any, Any, Any]:
    values, keys = pa.array(page.values, pa.string()), pa.array(page.keys, pa.binary())
    times = pa.array(page.times, pa.int64())
    if not page.has_headers:
        return values, keys, times, None
    headers = [[{"key": name, "value": text.encode()} for name, text in each] for each in page.headers]
    return values, keys, times, pa.array(headers, HEADERS)
