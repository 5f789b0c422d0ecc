"""The newest batches of all partitions in memory, so that readers at the end touch no disk.

All partitions share one budget. When it is used up, the partition that was written longest ago gives up its oldest
batches, so idle partitions cost nothing for long. What they held goes back to the system from time to time: after large
batches there may come small ones, for which the allocator would take memory elsewhere.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain

from runnel.files import Buffer
from runnel.free_memory import give_back

Parts = tuple[Buffer, ...]  # of one batch
OVERHEAD = 512  # bytes that a batch costs beside its own: the objects that hold it, and what came in around it
MUCH = 4 * 1024 * 1024  # bytes


class Tail:
    """One partition's newest batches; `TailCache` guards it."""

    __slots__ = ("batches", "cost", "ends")

    def __init__(self) -> None:
        self.ends: list[int] = []  # the offset after each batch
        self.batches: list[Parts] = []
        self.cost = 0

    def drop_first(self, count: int) -> int:
        freed = sum(map(_cost, self.batches[:count]))
        del self.batches[:count], self.ends[:count]
        self.cost -= freed
        return freed


class TailCache:
    def __init__(self, budget: int, give_back: Callable[[], object] = give_back) -> None:
        self._budget = budget
        self._give_back = give_back
        self._used = 0
        self._given_up = 0  # bytes, since memory was given back
        self._tails: OrderedDict[str, Tail] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, name: str, first_offset: int, batches: Sequence[Parts], ends: Sequence[int]) -> None:
        """The batches that follow `first_offset`, and the offset after each of them."""
        with self._lock:
            tail = self._tails.get(name)
            if tail is None:
                tail = self._tails[name] = Tail()
            elif tail.ends and tail.ends[-1] != first_offset:
                self._used -= tail.drop_first(len(tail.batches))
            if not tail.ends:
                tail.ends.append(first_offset)  # the offset before the first batch: ends has one more than batches
                tail.batches.append(())
            tail.batches += batches
            tail.ends += ends
            cost = OVERHEAD * len(batches) + sum(map(len, chain.from_iterable(batches)))
            tail.cost += cost
            self._used += cost
            self._tails.move_to_end(name)
            while self._used > self._budget:
                self._make_room()

    def read(self, name: str, offset: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Batches from the one that holds `offset`, and the offset after them; None if they are not all here."""
        with self._lock:
            tail = self._tails.get(name)
            if tail is None or not tail.ends or not tail.ends[0] <= offset < tail.ends[-1]:
                return None
            first = stop = bisect_right(tail.ends, offset)
            size = 0
            while stop < len(tail.batches):
                size += _size(tail.batches[stop])
                if size > max_bytes and stop > first:
                    break
                stop += 1
            found, end = tail.batches[first:stop], tail.ends[stop - 1]
        return b"".join(chain.from_iterable(found)), end

    def forget(self, name: str) -> None:
        with self._lock:
            tail = self._tails.pop(name, None)
            if tail is not None:
                self._used -= tail.cost

    def give_back(self) -> None:
        """To the system, if much was given up since the last time."""
        with self._lock:
            much = self._given_up >= MUCH
            if much:
                self._given_up = 0
        if much:
            self._give_back()

    def _make_room(self) -> None:
        name, tail = next(iter(self._tails.items()))
        # Dropping from the front of a list moves all that is behind: so drop a quarter at once.
        freed = tail.drop_first(max(2, len(tail.batches) // 4))
        self._used -= freed
        self._given_up += freed
        if len(tail.batches) <= 1:
            self._used -= tail.cost
            del self._tails[name]


def _size(parts: Parts) -> int:
    return sum(map(len, parts))


def _cost(parts: Parts) -> int:
    return OVERHEAD + _size(parts) if parts else 0  # the first entry stands for an offset alone
