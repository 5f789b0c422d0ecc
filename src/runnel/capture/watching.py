"""How a capture is doing, for people and for Prometheus; and a warning before the database's disk fills.

A look asks the database how much of its log is not in the topics, and how much of it the server keeps for us. It is
done now and then in a thread of its own, over a source of its own. What cannot be asked now is not known, and no error:
the capture itself says what is wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from runnel.capture.capture import Capture
from runnel.capture.envelope import Envelope
from runnel.capture.lag import Pace
from runnel.capture.publisher import Publisher
from runnel.capture.source import Source, recognize
from runnel.errors import RunnelError, Transient

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
SOON_SECONDS: Final = 0.5  # while nothing is known
RETAINED_WARNING: Final = 1_000_000_000  # bytes
SHARE: Final = 0.5  # of what the server keeps at most


@runtime_checkable
class Retaining(Protocol):
    """A source whose server keeps its log for us."""

    def retained(self) -> int: ...

    def retained_limit(self) -> int | None: ...


@dataclass(frozen=True)
class Numbers:
    """Of one moment. `events` are by topic and what was done. None is what is not known. `is_waiting` says that it
    reads neither tables nor changes: the database or the cluster is away.
    """

    name: str
    is_streaming: bool
    rows: int
    estimate: int
    seconds_left: float | None
    transactions: int
    steps: int
    lag_seconds: float
    behind: int | None
    unit: str
    retained: int | None
    events: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    is_waiting: bool = False


class RetainedWarning:
    """Says once that the server keeps much for us, and again when that has passed and comes back."""

    def __init__(self, name: str, most: int = RETAINED_WARNING) -> None:
        self._name = name
        self._most = most
        self._is_over = False

    def see(self, retained: int, limit: int | None) -> None:
        most = self._most if limit is None else min(self._most, int(limit * SHARE))
        is_over, was_over = retained > most, self._is_over
        self._is_over = is_over
        if is_over and not was_over:
            beyond = "" if limit is None else f"; beyond {limit:,} (max_slot_wal_keep_size) the capture's place is lost"
            logger.warning(
                "capture %s: the server keeps %s bytes of its log for it, more than %s%s; "
                "see what holds the capture up, or remove it",
                self._name,
                f"{retained:,}",
                f"{most:,}",
                beyond,
            )


class Watching:
    """Looks until `stop`; `source` opens one to ask with."""

    def __init__(
        self,
        capture: Capture,
        publisher: Publisher,
        envelope: Envelope,
        source: Callable[[], Source],
        *,
        retained_warning: int = RETAINED_WARNING,
    ) -> None:
        self._capture = capture
        self._publisher = publisher
        self._envelope = envelope
        self._open = source
        self._source: Source | None = None
        self._warning = RetainedWarning(capture.name, retained_warning)
        self._pace = Pace()
        self._behind: int | None = None
        self._retained: int | None = None
        self._unit = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runnel-capture-watching", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(LOOK_SECONDS)  # a database that does not answer holds nobody up

    def __enter__(self) -> Watching:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def look(self) -> None:
        self._pace.see(self._capture.progress.read)
        try:
            self._ask()
        except RunnelError as error:
            logger.debug("capture %s: the database cannot be asked how far behind it is: %s", self._capture.name, error)
            self._behind = self._retained = None
            if isinstance(error, Transient):  # one that refuses stays: it knows which file it does not open
                self._close()

    @property
    def numbers(self) -> Numbers:
        capture, progress = self._capture, self._capture.progress
        is_streaming, follows_changes = capture.is_streaming.is_set(), capture.state.follows_changes
        return Numbers(
            name=capture.name,
            is_streaming=is_streaming,
            rows=progress.read,
            estimate=progress.estimate,
            seconds_left=self._pace.seconds_left(progress.estimate - progress.read),
            transactions=self._envelope.lag.transactions,
            steps=capture.state.step,
            lag_seconds=self._envelope.lag.seconds(time.time_ns() // 1000) if follows_changes else 0.0,
            behind=self._behind,
            unit=self._unit,
            retained=self._retained,
            events=dict(self._publisher.events),
            rejected=dict(self._publisher.rejected),
            is_waiting=follows_changes and not is_streaming,
        )

    # --- inside

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.look()
                self._stop.wait(LOOK_SECONDS if self._behind is not None else SOON_SECONDS)
        finally:
            self._close()

    def _ask(self) -> None:
        position = self._capture.state.position
        if position is None:
            return
        if self._source is None:
            self._source = self._open()
            self._unit = self._source.unit
        recognize(self._source, position)  # another file may have its path by now
        self._behind = self._source.behind(position)
        if isinstance(self._source, Retaining):
            self._retained = self._source.retained()
            self._warning.see(self._retained, self._source.retained_limit())

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
