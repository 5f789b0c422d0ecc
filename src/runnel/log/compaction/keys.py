"""Keys that were met, in little memory also in the moment when more room is made.

A set of Python's has 3 keys in 5 slots of 16 bytes at most, and a number that is a key has 48 bytes. When it is full it
doubles, and has the old slots and the new ones for a moment: 128 bytes for each key. So there are several sets, each
with twice the slots of the one before, and one that is full is left as it is: 102 bytes at most, 75 if all are full.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_SLOTS = 1 << 17
BYTES_PER_KEY = 104  # with all that is needed while a set doubles, for more keys than the first set has


class Keys:
    """A set that only grows, by sets."""

    def __init__(self, first_slots: int = FIRST_SLOTS) -> None:
        self._sets: list[set[int | None]] = [set()]
        self._slots = first_slots  # of the last one when it is full

    def __len__(self) -> int:
        return sum(map(len, self._sets))

    def add(self, keys: Iterable[int | None]) -> set[int | None]:
        """The answer has those that were not known before."""
        # Sets know the hashes of their members, so this is quicker than to look for one key after the other.
        new = set(keys)
        for known in reversed(self._sets):
            new = new.difference(known)
        last = self._sets[-1]
        if last and (len(last) + len(new)) * 5 >= (self._slots - 1) * 3:
            last = set()
            self._sets.append(last)
            self._slots *= 2
        last |= new
        return new

    def known(self, keys: Iterable[int | None]) -> set[int | None]:
        """Those of them that were added."""
        wanted = set(keys)
        return set().union(*(wanted & known for known in self._sets))
