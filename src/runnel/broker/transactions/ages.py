"""For how long transactions have been open, by a clock that nobody sets: a step of the machine's time aborts none, and
keeps none open.

When a transaction began is written down by the machine's time. It counts for those of before the start; one that is
seen for the first time later cannot be older than the last look.
"""

from __future__ import annotations

from collections.abc import Mapping

from runnel.broker.transactions.state import ProducerEpoch, Status, Transaction
from runnel.clock import Clock

Begun = tuple[str, ProducerEpoch, int]  # the transactional id, who writes, and when it began by the machine's time


class Ages:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[Begun, int] = {}
        self._looked_at: int | None = None

    def look(self, transactions: Mapping[str, Transaction]) -> dict[str, int]:
        """The age of each that is open, in milliseconds, by its transactional id."""
        wall, now = self._clock.now(), self._clock.elapsed()
        since: dict[Begun, int] = {}
        ages: dict[str, int] = {}
        for name, each in transactions.items():
            if each.status is Status.ONGOING:
                begun = name, each.producer, each.started
                since[begun] = self._since.get(begun, self._first_seen(now, wall - each.started))
                ages[name] = now - since[begun]
        self._since, self._looked_at = since, now
        return ages

    def _first_seen(self, now: int, age: int) -> int:
        since = now - max(0, age)
        return since if self._looked_at is None else max(since, self._looked_at)
