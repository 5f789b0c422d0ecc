"""What keeps the broker's memory bounded, whatever its clients do.

- `Connections` counts them, in all and by address.
- `Received` bounds the bytes of requests that are on their way in or being worked on. Beyond it no large request is
  read on, until there is room; but one connection at a time may go on, or half-received ones could fill it for ever.
- `Unsent` bounds what was read for fetches and what slow readers have not taken: the more there is, the less a fetch
  gets.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from runnel.settings import KIB, MIB

RECEIVED_BYTES = 256 * MIB  # when queued.max.request.bytes sets none
UNSENT_BYTES = 128 * MIB
LEAST_FETCH = 64 * KIB
SECONDS_FOR_A_TURN = 30


class Connections:
    def __init__(self) -> None:
        self.total = 0
        self._by_address: Counter[str] = Counter()

    def admit(self, address: str, most: int, most_per_address: int) -> str | None:
        """Count one more; otherwise the answer says why not."""
        if self.total >= most:
            return f"max.connections = {most} are open"
        if self._by_address[address] >= most_per_address:
            return f"max.connections.per.ip = {most_per_address} of them are open"
        self.total += 1
        self._by_address[address] += 1
        return None

    def release(self, address: str) -> None:
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class Reading(Protocol):
    """A connection as `Received` sees it."""

    def go_on_reading(self) -> None: ...

    def give_up(self, reason: str) -> None: ...


class Received:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self._loop = loop
        self._limit = limit if limit > 0 else RECEIVED_BYTES
        self.arriving = 0  # bytes of requests that are not whole yet
        self.under_way = 0  # bytes of requests that are being worked on
        self.waiting: dict[Reading, None] = {}
        self._turn: Reading | None = None
        self._turn_ends: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        return self.arriving + self.under_way >= self._limit

    def wait(self, connection: Reading) -> None:
        """The connection reads no more; it is told when it may go on."""
        if connection is not self._turn:
            self.waiting[connection] = None
            self._hand_on()
        else:
            connection.go_on_reading()

    def forget(self, connection: Reading) -> None:
        """It is closed, or its request is whole."""
        self.waiting.pop(connection, None)
        if connection is self._turn:
            self._end_turn()
        self.made_room()

    def made_room(self) -> None:
        if not self.waiting:
            return
        if not self.is_full:
            waiting, self.waiting = self.waiting, {}
            for connection in waiting:
                connection.go_on_reading()
        else:
            self._hand_on()

    def _hand_on(self) -> None:
        # What is whole counts against it too: otherwise each turn would let one more in while the disk is slow.
        if self._turn is None and self.waiting and self.under_way < self._limit:
            self._turn = next(iter(self.waiting))
            del self.waiting[self._turn]
            self._turn_ends = self._loop.call_later(SECONDS_FOR_A_TURN, self._time_is_up, self._turn)
            self._turn.go_on_reading()

    def _end_turn(self) -> None:
        self._turn = None
        if self._turn_ends is not None:
            self._turn_ends.cancel()

    def _time_is_up(self, connection: Reading) -> None:
        connection.give_up(f"its request was not whole after {SECONDS_FOR_A_TURN} s while memory was short")


class Unsent:
    def __init__(self, limit: int = UNSENT_BYTES) -> None:
        self._limit = limit
        self.total = 0

    def allowance(self, wanted: int) -> int:
        """How much a fetch may read now."""
        return min(wanted, max(self._limit - self.total, LEAST_FETCH))

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Inside, so much is being read."""
        self.total += size
        try:
            yield
        finally:
            self.total -= size
