"""The newest batches of all partitions in memory, so that readers at the end touch no disk.

All partitions share one budget. When it is used up, the partition that was written longest ago gives up its oldest
batches, so idle partitions cost nothing for long. What they held goes back to the system from time to time: after large
batches there may come small ones, for which the allocator would take memory elsewhere.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain

from runnel.files import Buffer
from runnel.free_memory import give_back

Parts = tuple[Buffer, ...]  # of one batch
OVERHEAD = 512  # bytes that a batch costs beside its own: the objects that hold it, and what came in around it
MUCH = 4 * 1024 * 1024  # bytes
FEW = 1024  # places of batches that are gone: not worth moving all that is behind


class Tail:
    """One partition's newest batches; `TailCache` guards it.

    What is given up is freed batch by batch, with the additions that need the room: to free thousands at once would
    hold up all requests for tens of milliseconds. Its places in the lists go when they are half of them.
    """

    __slots__ = ("batches", "cost", "ends", "first")

    def __init__(self, first_offset: int) -> None:
        self.ends = array("q", [first_offset])  # the offset after each batch
        self.batches: list[Parts] = [()]
        self.first = 0  # where the offset stands at which the batches begin: the entry has no batch
        self.cost = 0

    @property
    def start(self) -> int:
        return self.ends[self.first]

    @property
    def end(self) -> int:
        return self.ends[-1]

    def add(self, batches: Sequence[Parts], ends: Sequence[int]) -> int:
        self.batches += batches
        self.ends.extend(ends)
        cost = OVERHEAD * len(batches) + sum(map(len, chain.from_iterable(batches)))
        self.cost += cost
        return cost

    def drop(self, size: int) -> int:
        """The oldest batches, until so many bytes are freed; how many it were."""
        freed, batches = 0, self.batches
        while freed < size and self.first < len(batches) - 1:
            self.first += 1
            freed += OVERHEAD + _size(batches[self.first])
            batches[self.first] = ()
        self.cost -= freed
        if self.first > FEW and 2 * self.first > len(batches):
            del batches[: self.first], self.ends[: self.first]
            self.first = 0
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
            if tail is None or tail.end != first_offset:
                self._used -= tail.cost if tail is not None else 0
                tail = self._tails[name] = Tail(first_offset)
            self._used += tail.add(batches, ends)
            self._tails.move_to_end(name)
            while self._used > self._budget:
                self._make_room()

    def read(self, name: str, offset: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Batches from the one that holds `offset`, and the offset after them; None if they are not all here."""
        with self._lock:
            tail = self._tails.get(name)
            if tail is None or not tail.start <= offset < tail.end:
                return None
            first = stop = bisect_right(tail.ends, offset, tail.first)
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
        freed = tail.drop(self._used - self._budget)
        self._used -= freed
        self._given_up += freed
        if tail.start == tail.end:
            del self._tails[name]


def _size(parts: Parts) -> int:
    return sum(map(len, parts))
