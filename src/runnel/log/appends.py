"""An append on its way, and what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, Protocol

from runnel.errors import RunnelError
from runnel.files import Buffer
from runnel.records import APPEND_TIME, NO_TIMESTAMP, BatchHeader, Marker
from runnel.records.batch import LENGTH_PREFIX

logger = logging.getLogger(__name__)

_waiting = threading.Lock()  # two threads that begin to wait for one append wait for one event


class Appended(NamedTuple):
    """Where a batch stands. A duplicate stands where it was written the first time."""

    base_offset: int
    last_offset: int
    timestamp: int
    leader_epoch: int
    duplicate: bool = False


class Told(Protocol):
    """Who is told of a batch from its beginning. `timestamp` is what the log gave to its records, or -1."""

    def expect(self, base_offset: int, timestamp: int) -> None:
        """It is written, and its sync is begun: time for what its answer will need. On the event loop that runs the
        round, or not at all. It is told in the end all the same.
        """
        ...

    def tell(self, base_offset: int, timestamp: int, error: RunnelError | None) -> None:
        """It is durable, or lost. From any thread."""
        ...

    def refuse(self) -> None:
        """It was gathered, and is not to be appended: whoever submits it hears why. From any thread."""
        ...


Outcome = tuple[int, int, RunnelError | None]  # what `Told.tell` says
Step = tuple[int, int, int]  # of a batch: its last offset, its size, its largest timestamp


class Append:
    """Given out when a batch is accepted; answered when it is durable, or as the topic's flush setting says, or lost.

    `data` is the batch as it is written, in parts. It is None for a duplicate: nothing is written, but its answer waits
    for the first one's sync.
    """

    __slots__ = (
        *("_callbacks", "_event", "_told"),
        *("appended", "data", "done", "error", "header", "marker", "position", "size"),
    )

    def __init__(
        self,
        header: BatchHeader,
        data: tuple[Buffer, ...] | None,
        appended: Appended,
        marker: Marker | None = None,
        told: Told | None = None,
    ) -> None:
        self.header = header
        self.marker = marker
        self.data = data
        self.size = header.length + LENGTH_PREFIX if data is not None else 0  # bytes that are written
        self.appended = appended
        self.position = -1
        self.done = False
        self.error: RunnelError | None = None
        self._event: threading.Event | None = None
        self._told = told
        self._callbacks: list[Callable[[Append], None]] = []  # each is called by the thread that takes it out

    def result(self, timeout: float | None = None) -> Appended:
        """Wait for the answer; raises the error if the batch was lost, TimeoutError if it is not known yet."""
        if not self.done and not self._awaited(timeout):
            raise TimeoutError(f"no answer within {timeout} seconds")
        if self.error is not None:
            raise self.error
        return self.appended

    def _awaited(self, timeout: float | None) -> bool:
        with _waiting:
            self._event = event = self._event or threading.Event()
        return self.done or event.wait(timeout)  # in this order: `answer` looks for the event after it is done

    def when_done(self, callback: Callable[[Append], None]) -> None:
        """Call back once, from whichever thread answers; at once if the answer is there already."""
        self._callbacks.append(callback)
        if self.done:  # whoever answered may have looked before
            self._call_back()

    @property
    def outcome(self) -> Outcome:
        timestamp = self.appended.timestamp if self.header.attributes & APPEND_TIME else NO_TIMESTAMP
        return self.appended.base_offset, timestamp, self.error

    @property
    def step(self) -> Step:
        return self.appended.last_offset, self.size, self.header.max_timestamp

    def expect(self) -> None:
        """Its answer is near."""
        if self._told is not None:
            _expect(self._told, *self.outcome[:2])

    def answer(self, error: RunnelError | None = None) -> None:
        self.error = error
        self.done = True  # before it looks who waits: whoever comes after that finds it done
        if self._event is not None:
            self._event.set()
        told, self._told = self._told, None  # who is told may keep what he was told of
        if told is not None:
            _tell(told, *self.outcome)
        if self._callbacks:
            self._call_back()

    def _call_back(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:  # another thread took it
                return
            try:
                callback(self)
            except Exception:  # others wait for their answers behind it
                logger.exception("a callback of an append failed")


class Bunch(Append):
    """Batches that were gathered, as one append: they stand behind each other, and share their fate.

    `header` is the first one's. `numbered` are those of idempotent producers.
    """

    __slots__ = ("batches", "numbered", "steps", "tolds")

    def __init__(
        self,
        header: BatchHeader,
        batches: list[tuple[Buffer, ...]],
        steps: list[Step],
        numbered: list[BatchHeader],
        tolds: list[tuple[Told, int]],
    ) -> None:
        """`tolds` come with the base offsets of their batches."""
        last_offset, _, timestamp = steps[-1]
        appended = Appended(header.base_offset, last_offset, timestamp, header.leader_epoch)
        super().__init__(header, tuple(chain.from_iterable(batches)), appended)
        self.size = sum([size for _, size, _ in steps])
        self.batches = batches
        self.steps = steps
        self.numbered = numbered
        self.tolds = tolds

    def expect(self) -> None:
        for told, base_offset in self.tolds:
            _expect(told, base_offset, NO_TIMESTAMP)

    def answer(self, error: RunnelError | None = None) -> None:
        super().answer(error)
        tolds, self.tolds = self.tolds, []
        for told, base_offset in tolds:
            _tell(told, base_offset, NO_TIMESTAMP, error)


def _expect(told: Told, base_offset: int, timestamp: int) -> None:
    try:
        told.expect(base_offset, timestamp)
    except Exception:  # it is told all the same
        logger.exception("an append was not prepared for")


def _tell(told: Told, base_offset: int, timestamp: int, error: RunnelError | None) -> None:
    try:
        told.tell(base_offset, timestamp, error)
    except Exception:  # others wait behind it
        logger.exception("an append could not be told of")


def refuse(told: Told) -> None:
    try:
        told.refuse()
    except Exception:  # others are looked at behind it
        logger.exception("a refused append could not be told of")
