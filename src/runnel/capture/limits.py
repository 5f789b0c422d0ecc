"""How large a record may be for each topic.

A topic's configs say it. They are asked for when a record is large enough for the question, and again after some
seconds before a record is refused: somebody may have raised the limit. A broker that refuses what was let pass, because
the limit was lowered meanwhile, is believed: the configs are asked for at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from runnel.client.admin import Admin
from runnel.client.bodies import BATCH_BYTES
from runnel.client.errors import RecordTooLarge

CONFIGS = ("max.message.bytes", "segment.bytes")
UNLIMITED = 2**31 - 1
BATCH_HEADER = 61  # bytes of a batch before its first record
OLD_SECONDS = 10.0
SMALL = 64 * 1024  # bytes that are written without a question


class Limits:
    def __init__(
        self, admin: Callable[[], AbstractContextManager[Admin]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}  # and when it was asked for

    def of(self, topic: str, size: int) -> int:
        """The largest batch that the topic takes, as far as records of so many bytes in all need to know."""
        if topic in self._known:
            return self._known[topic][0]
        return UNLIMITED if size < SMALL else self._ask(topic)

    def fresh(self, topic: str) -> int:
        """As it is now, or was some seconds ago."""
        known = self._known.get(topic)
        if known is not None and self._clock() - known[1] < OLD_SECONDS:
            return known[0]
        return self._ask(topic)

    def refused(self, error: RecordTooLarge) -> None:
        """A broker did not take what was let pass. If the topic's limit does not explain that, nothing will."""
        before, _ = self._known.get(error.topic, (UNLIMITED, 0.0))
        if self._ask(error.topic) >= before:
            raise error

    def batch_bytes(self, topic: str) -> int:
        """How large batches of several records may become: with room for what their size was not counted with."""
        known, _ = self._known.get(topic, (UNLIMITED, 0.0))
        return min(BATCH_BYTES, (known - BATCH_HEADER) * 9 // 10)

    def _ask(self, topic: str) -> int:
        with self._admin() as admin:
            told = {config.name: config.value for config in admin.configs([topic])[topic]}
        limit = min(int(told.get(name) or UNLIMITED) for name in CONFIGS)
        self._known[topic] = limit, self._clock()
        return limit
