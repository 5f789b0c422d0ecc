"""Those who wait for records: each is woken when a partition it waits for has more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from runnel.broker.handover import Handover
from runnel.log import Partition

Wake = Callable[[], object]


class Waits:
    """Lives on the event loop; the log's threads only hand over that there is more."""

    def __init__(self, handover: Handover) -> None:
        self._handover = handover
        self._waiting: dict[Partition, dict[Wake, None]] = {}

    def add(self, partitions: Iterable[Partition], wake: Wake) -> None:
        """Look at what is there after this, not before: what comes in between would be missed."""
        for partition in partitions:
            waiting = self._waiting.get(partition)
            if waiting is None:
                waiting = self._waiting[partition] = {}
                partition.watch(partial(self._moved_on, partition))
            waiting[wake] = None

    def remove(self, partitions: Iterable[Partition], wake: Wake) -> None:
        for partition in partitions:
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.pop(wake, None)

    def wake_all(self) -> None:
        """The broker stops: nothing more will come."""
        for partition in tuple(self._waiting):
            self._wake(partition)

    def _moved_on(self, partition: Partition) -> None:
        """In whichever thread commits. Whoever is not noted yet will see what was just published."""
        if self._waiting.get(partition):
            self._handover.call(self._wake, partition)
        if partition.closed:
            self._handover.call(self._forget, partition)

    def _wake(self, partition: Partition) -> None:
        for wake in tuple(self._waiting.get(partition, ())):
            wake()

    def _forget(self, partition: Partition) -> None:
        self._wake(partition)
        self._waiting.pop(partition, None)
