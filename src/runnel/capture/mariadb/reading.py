"""Bytes from their beginning on: numbers and texts as MariaDB's protocol and log have them."""

from __future__ import annotations

from typing import Final

_SIZES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class Reading:
    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def is_over(self) -> bool:
        return self.at >= self.end

    def take(self, length: int) -> bytes:
        found = self.data[self.at : self.at + length]
        self.at += length
        return found

    def rest(self) -> bytes:
        return self.take(self.end - self.at)

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def packed(self) -> int:
        """A number that says itself how long it is."""
        first = self.number(1)
        return first if first < 0xFB else self.number(_SIZES[first])

    def text(self) -> bytes:
        """With its length before it."""
        return self.take(self.packed())
