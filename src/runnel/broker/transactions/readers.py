"""Those who read what is committed, and the ends that they wait for.

Of the ends under way readers wait for those whose markers are on their way, and not for those that are late. Late ones
are set apart and found by their partition: an ill disk can hold back thousands, and nobody looks through them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Set
from itertools import takewhile

from runnel.broker.transactions.ending import SECONDS_TO_BE_READABLE, Ending
from runnel.broker.transactions.state import TopicPartition, Transaction


class Readers:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._on_their_way: dict[Ending, None] = {}  # the oldest first
        self._late: dict[TopicPartition, dict[Ending, None]] = {}  # commits

    def expect(self, ending: Ending) -> None:
        """It begins; it is the youngest."""
        self._on_their_way[ending] = None
        ending.when_readable(lambda _: self._set_apart(ending))

    def forget(self, ending: Ending) -> None:
        """It is over."""
        self._on_their_way.pop(ending, None)
        if not self._late:
            return
        for place in ending.transaction.partitions:
            late = self._late.get(place, {})
            late.pop(ending, None)
            if not late:
                self._late.pop(place, None)

    def when_readable(self, places: Set[TopicPartition], then: Callable[[], object]) -> bool:
        """After the ends that have markers for these partitions; False if there are none."""
        self._set_late_ones_apart()
        ends = [ending for ending in self._on_their_way if ending.holds_up_readers(places)]
        if not ends:
            return False
        left = len(ends)

        def tell(_: BaseException | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                timer.cancel()
                then()

        def give_up() -> None:
            for ending in ends:
                ending.forget_reader(tell)
            then()

        timer = self._loop.call_later(SECONDS_TO_BE_READABLE, give_up)
        for ending in ends:
            ending.when_readable(tell)
        return True

    def late_commits(self, place: TopicPartition) -> Iterator[Transaction]:
        """Those whose producers may have heard that they are committed, while it cannot be seen at this place."""
        self._set_late_ones_apart()
        return (ending.transaction for ending in self._late.get(place, ()) if ending.lacks(place))

    def _set_late_ones_apart(self) -> None:
        for ending in tuple(takewhile(lambda each: each.is_late, self._on_their_way)):
            self._set_apart(ending)

    def _set_apart(self, ending: Ending) -> None:
        if ending not in self._on_their_way:
            return
        del self._on_their_way[ending]
        if ending.transaction.committed:
            for place in ending.transaction.partitions:
                self._late.setdefault(place, {})[ending] = None
