"""Which producers have a transaction open in a partition, and where the earliest of these begins.

Readers of committed records stop at `first`, so it is kept up to date and nobody has to search for it.

What a relaxed topic has shown before its sync can be lost. While `tracks` is on, the changes since the last `settle`
are remembered, and `undo` takes them back.
"""

from __future__ import annotations

from collections import OrderedDict

from runnel.settings import INT64_MAX

NONE = INT64_MAX  # stands for `first` while no transaction is open


class OpenTransactions:
    __slots__ = ("_changes", "_starts", "first", "tracks")

    def __init__(self) -> None:
        self._starts: OrderedDict[int, int] = OrderedDict()  # by producer id, the earliest first
        self._changes: list[tuple[int, int | None]] = []  # the producer, and where its transaction had begun
        self.first = NONE
        self.tracks = False

    def __len__(self) -> int:
        return len(self._starts)

    def copy(self) -> OpenTransactions:
        copied = OpenTransactions()
        copied._starts = self._starts.copy()
        copied.first = self.first
        return copied

    def starts(self) -> dict[int, int]:
        """The first offset of each, by producer id."""
        return dict(self._starts)

    def start_of(self, producer_id: int) -> int | None:
        return self._starts.get(producer_id)

    def begin(self, producer_id: int, offset: int) -> None:
        """Offsets rise, so the newest one comes last."""
        if self.tracks:
            self._changes.append((producer_id, self._starts.get(producer_id)))
        self._starts[producer_id] = offset
        if offset < self.first:
            self.first = offset

    def end(self, producer_id: int) -> None:
        if self.tracks:
            self._changes.append((producer_id, self._starts.get(producer_id)))
        del self._starts[producer_id]
        self.first = next(iter(self._starts.values()), NONE)

    def first_without(self, producer_id: int) -> int:
        """What `first` will be when this producer's transaction has ended."""
        others = (start for known, start in self._starts.items() if known != producer_id)
        return next(others, NONE)

    def settle(self) -> None:
        """What was shown up to now is synced."""
        self._changes.clear()

    def hold(self, offset: int) -> None:
        """Before `undo`: readers go no further than what will be left, nor than `offset`."""
        undone = (start for _, start in self._changes if start is not None)
        self.first = min(self.first, offset, *undone)

    def undo(self) -> None:
        """Go back to the last `settle`."""
        starts = dict(self._starts)
        for producer_id, start in reversed(self._changes):
            starts.pop(producer_id, None)
            if start is not None:
                starts[producer_id] = start
        self._changes.clear()
        self._starts = OrderedDict(sorted(starts.items(), key=lambda known: known[1]))
        self.first = next(iter(self._starts.values()), NONE)
