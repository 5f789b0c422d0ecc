"""Offsets that were committed inside of a transaction: they count when it is committed, and are gone if it is aborted.

The newest commit of a place counts, by the order in which they were sent, not by that in which transactions end. So
what somebody commits later, with or without a transaction, overtakes what is pending from before.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from runnel.broker.groups.records import CommittedOffset, OffsetKey


class Pending(NamedTuple):
    order: int
    committed: CommittedOffset


class PendingOffsets:
    __slots__ = ("_by_producer", "_next")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, Pending]] = {}
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_producer.values()))

    def add(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        self._by_producer.setdefault(producer_id, {})[key] = Pending(self._next, committed)
        self._next += 1

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[OffsetKey, CommittedOffset]]:
        """The transaction of this producer ends: what counts from now on."""
        ended = self._by_producer.pop(producer_id, {})
        if not committed:
            return []
        for key, pending in ended.items():
            self.overtake(key, pending.order)
        return [(key, pending.committed) for key, pending in ended.items()]

    def overtake(self, key: OffsetKey, order: int | None = None) -> None:
        """A commit that was sent then (None: now) counts: what is pending for the place from before does not."""
        for producer_id, pending in tuple(self._by_producer.items()):
            known = pending.get(key)
            if known is not None and (order is None or known.order < order):
                del pending[key]
                if not pending:
                    del self._by_producer[producer_id]

    def groups(self) -> set[str]:
        """Those for which something is pending."""
        return {key.group for pending in self._by_producer.values() for key in pending}

    def has(self, group: str, producer_ids: Set[int]) -> bool:
        """Whether one of these producers has something pending for the group."""
        return any(key.group == group for each in producer_ids for key in self._by_producer.get(each, ()))

    def of_group(self, group: str) -> dict[OffsetKey, int]:
        """The places of a group that have something pending, and a producer of it."""
        return {
            key: producer_id
            for producer_id, pending in self._by_producer.items()
            for key in pending
            if key.group == group
        }
