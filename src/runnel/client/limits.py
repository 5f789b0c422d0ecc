"""How large a record, and a batch of them, may be for each topic.

A topic's configs say it, and its broker's, which closes the connection of whoever sends a larger request. They are
asked for when a record is large enough for the question, and again after some seconds before a record is refused:
somebody may have raised the limit. A broker that refuses what was let pass, because the limit was lowered meanwhile or
was not asked for, is believed: the configs are asked for at once. Who may not see a broker's configs takes them for
Kafka's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from runnel.client.bodies import BATCH_BYTES
from runnel.client.errors import RecordTooLarge
from runnel.errors import Permanent, RunnelError

CONFIGS = ("max.message.bytes", "segment.bytes")
OF_REQUESTS = "socket.request.max.bytes"
REQUESTS = 104_857_600  # what Kafka takes unless somebody says otherwise
REQUEST_HEADER = 16 * 1024  # bytes of a request beside its batch, at most
UNLIMITED = 2**31 - 1
BATCH_HEADER = 61  # bytes of a batch before its first record
OLD_SECONDS = 10.0
SMALL = 64 * 1024  # bytes that are written without a question


class Limit(NamedTuple):
    """And which config says so."""

    bytes: int
    config: str


class Configured(Protocol):
    """What is asked of a `Cluster`."""

    def configs(self, topic: str) -> Mapping[str, str | None]: ...

    def broker_configs(self) -> Mapping[str, str | None]: ...


class Limits:
    def __init__(self, cluster: Configured, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known: dict[str, tuple[Limit, float]] = {}  # and when it was asked for

    def of(self, topic: str, size: int) -> int:
        """The largest batch that the topic takes, as far as records of so many bytes in all need to know."""
        if topic in self._known:
            return self._known[topic][0].bytes
        return UNLIMITED if size < SMALL else self._ask(topic).bytes

    def fresh(self, topic: str) -> Limit:
        """As it is now, or was some seconds ago."""
        known = self._known.get(topic)
        if known is not None and self._clock() - known[1] < OLD_SECONDS:
            return known[0]
        return self._ask(topic)

    def refused(self, error: RecordTooLarge) -> None:
        """A broker did not take what was let pass. If the topic's limit does not explain that, nothing will."""
        before = self._of_known(error.topic)
        try:
            now = self._ask(error.topic)
        except Permanent:  # such as one that may not be asked for
            raise error from None
        if now.bytes >= before:
            raise error

    def batch_bytes(self, topic: str) -> int:
        """How large batches of several records may become: with room for what their size was not counted with."""
        return min(BATCH_BYTES, (self._of_known(topic) - BATCH_HEADER) * 9 // 10)

    def _of_known(self, topic: str) -> int:
        return self._known[topic][0].bytes if topic in self._known else UNLIMITED

    def _ask(self, topic: str) -> Limit:
        told = self._cluster.configs(topic)
        found = [Limit(int(told.get(name) or UNLIMITED), name) for name in CONFIGS]
        limit = min(*found, Limit(self._of_requests() - REQUEST_HEADER, OF_REQUESTS))
        self._known[topic] = limit, self._clock()
        return limit

    def _of_requests(self) -> int:
        try:
            return int(self._cluster.broker_configs().get(OF_REQUESTS) or REQUESTS)
        except RunnelError:
            return REQUESTS
