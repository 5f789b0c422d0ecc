"""The captures of an app at work: each in a thread, from before the queries begin until after they have ended.

A thread and not a process: a row filter is a function of the app's own, and what goes wrong is the app's to tell. What
passes by itself, a database or a broker that is away, is waited for; everything else ends the app. A capture is fenced
and exactly once whoever runs it, so an app that is killed goes on where its captures were.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from runnel.app.captured import Captured
from runnel.app.progress import CaptureProgress
from runnel.capture import at_work
from runnel.capture.capture import Capture
from runnel.capture.events import Ended, Event, Passed, Position, Redefined
from runnel.capture.publisher import TOPIC_CONFIGS, admin_of
from runnel.capture.source import Changes, Source
from runnel.capture.tables import Table
from runnel.client.cluster import Cluster
from runnel.errors import Permanent, RunnelError, Transient
from runnel.pipeline.kafka import Kafka
from runnel.stop_request import StopRequest

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds before a database is looked for again
LOOK_EVERY = 0.1  # seconds, whether all are caught up
ASK_EVERY = 0.5  # seconds, a database how far its log is read


class CaptureFailed(Permanent):
    def __init__(self, name: str, what: str, *, hint: str) -> None:
        super().__init__(f'capture "{name}" has stopped: {what}', hint=hint)
        self.name = name


class Captures:
    """All of an app."""

    def __init__(self, captured: Iterable[Captured], kafka: Kafka) -> None:
        self._every = [Capturing(each, kafka) for each in captured]

    @property
    def progress(self) -> tuple[CaptureProgress, ...]:
        return tuple(each.progress for each in self._every)

    def open(self) -> None:
        """What is wrong with a database for good is told at once."""
        for each in self._every:
            each.open()

    def start(self) -> None:
        """They are open."""
        for each in self._every:
            each.start()

    def look(self) -> None:
        """CaptureFailed, if one has ended by itself."""
        for each in self._every:
            each.look()

    def catch_up(self, stopping: StopRequest) -> None:
        """Return when all that was in the databases is in the topics; they have ended then."""
        while not all(each.is_caught_up for each in self._every):
            self.look()
            for each in self._every:
                each.refuse_pause()
            if stopping.wait(LOOK_EVERY):
                return
        self.stop()

    def stop(self) -> None:
        for each in self._every:
            each.stop()
        for each in self._every:
            each.join()


def make_topics(captured: Iterable[Captured], kafka: Kafka) -> None:
    """Those that the app reads: a capture makes the topic of an empty table with its first row, and nobody waits."""
    for each in captured:
        for topic in sorted(each.topics):
            kafka.make_topic(topic, partitions=each.options.partitions, configs=TOPIC_CONFIGS)


def opened(captured: Captured) -> Source:
    """Its database, with every table that the app reads. Nothing is made in it for the asking."""
    source = at_work.opened(captured.options)
    try:
        captured.check(source)
    except BaseException:
        source.close()
        raise
    return source


@contextmanager
def looked_for(captured: Sequence[Captured], kafka: Kafka) -> Iterator[Captures]:
    """Their databases are there and have the tables that the app reads, or are waited for. They run inside of the
    block, from `start` on.
    """
    captures = Captures(captured, kafka)
    try:
        captures.open()
        yield captures
    finally:
        captures.stop()


@contextmanager
def capturing(captured: Sequence[Captured], kafka: Kafka) -> Iterator[Captures]:
    """They run inside of the block."""
    with looked_for(captured, kafka) as captures:
        captures.start()
        yield captures


class Capturing:
    """One."""

    def __init__(self, captured: Captured, kafka: Kafka) -> None:
        self._captured = captured
        self._kafka = kafka
        self._source: WatchedSource | None = None
        self._capture: Capture | None = None
        self._cluster: Cluster | None = None
        self._failure: Exception | None = None
        self._is_closed = False
        self._stopping = StopRequest()
        self._thread = threading.Thread(target=self._keep, name=f"runnel-capture-{captured.name}", daemon=True)

    @property
    def is_caught_up(self) -> bool:
        source, capture = self._source, self._capture
        return source is not None and source.is_caught_up and capture is not None and capture.state.is_complete

    @property
    def progress(self) -> CaptureProgress:
        source, capture = self._source, self._capture
        name = self._captured.name
        if source is None or capture is None:
            return CaptureProgress(name)
        rows = capture.progress
        is_streaming = capture.is_streaming.is_set()
        if is_streaming and not capture.state.is_complete:
            percent = rows.percent if rows.estimate else None
            return CaptureProgress(name, "reads changes, and tables beside them", rows.read, percent, source.lag)
        if is_streaming:
            return CaptureProgress(name, "reads changes", rows.read, 100.0, source.lag)
        if capture.state.follows_changes:
            return CaptureProgress(name, "waits for its database or the cluster", rows.read, 100.0)
        return CaptureProgress(name, "reads tables", rows.read, rows.percent if rows.estimate else None)

    def open(self) -> None:
        """Look for the database. One that is away for a while is waited for by the thread."""
        try:
            self._source = self._opened()
        except Transient as error:
            logger.warning("%s waits, and goes on by itself: %s", self._captured.where, error)
        except RunnelError as error:
            raise CaptureFailed(self._captured.name, error.what, hint=error.hint) from None

    def start(self) -> None:
        self._thread.start()

    def look(self) -> None:
        match self._failure:
            case None:
                return
            case RunnelError() as error:
                raise CaptureFailed(self._captured.name, error.what, hint=error.hint) from error
            case error:
                raise error

    def refuse_pause(self) -> None:
        """CaptureFailed, if tables are left that are not read while it is paused: it would not catch up."""
        source, capture = self._source, self._capture
        if source is None or capture is None or not source.is_caught_up:  # before that, no signals may have been heeded
            return
        state = capture.state
        if state.is_paused and not state.is_complete:
            hint = f"let it go on: runnel capture resume {self._captured.name}"
            raise CaptureFailed(self._captured.name, "it is paused, and tables are left to be read", hint=hint)

    def stop(self) -> None:
        """After what it is at, which does not wait for a broker that is away."""
        self._stopping.set()
        if self._capture is not None:
            self._capture.stop()
        if self._cluster is not None:
            self._cluster.hurry()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()
        if self._source is not None and not self._is_closed:
            self._is_closed = True
            self._source.close()

    # --- in the thread

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                self._work()
                return
            except Transient as error:
                logger.debug("%s still waits: %s", self._captured.where, error)
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except Exception as error:  # the app's own thread tells it
                if not self._stopping.is_set():
                    error.add_note(f"in {self._captured.where}")  # for a traceback
                    self._failure = error
                return

    def _work(self) -> None:
        captured, kafka = self._captured, self._kafka
        if self._source is None:
            self._source = self._opened()
        source = cast(Source, self._source)
        with kafka.cluster() as cluster:
            self._cluster = cluster
            admin = partial(admin_of, kafka.bootstrap, kafka.settings)
            self._capture, watching = at_work.at_work(captured.options, source, cluster, admin)
            if not self._stopping.is_set():  # whoever stops now finds it
                with watching:
                    self._capture.run()

    def _opened(self) -> WatchedSource:
        return WatchedSource(opened(self._captured), self._captured.see)


def unseen(table: Table) -> None:
    """Of tables that are redefined where nobody asks."""


class WatchedSource:
    """A source, and how far the reading of its changes is behind: `lag` in seconds, None before it begins.

    It is caught up when the log is read that was there when reading began. That nothing comes does not say so: a server
    may be busy with what others wrote. Nor do the times of changes, which are of another clock. `see` is called with
    tables whose columns are others.
    """

    def __init__(self, source: Source, see: Callable[[Table], None] = unseen) -> None:
        self._source = source
        self._see = see
        self._told: float | None = None  # when the last change that was read was committed
        self._is_idle = False
        self._left: Left | None = None
        self.is_caught_up = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def changes(self, after: Position, until: Position | None = None) -> Changes:
        changes = self._source.changes(after, until)
        if until is not None:
            return changes
        self._left = Left(self._source, after)
        return cast(Changes, WatchedChanges(changes, self))

    @property
    def lag(self) -> float | None:
        if self._is_idle:
            return 0.0
        return None if self._told is None else max(0.0, time.time() - self._told)

    def before_reading(self) -> None:
        """All that was read before is in the topics."""
        if not self.is_caught_up and self._left is not None:
            self.is_caught_up = self._left.is_nothing()

    def after_reading(self, events: Sequence[Event], seconds: float) -> None:
        if self._left is not None:
            self._left.see(events)
        for event in events:
            if isinstance(event, Redefined):
                self._see(event.table)
        micros = next(
            (found for each in reversed(events) if (found := getattr(each, "micros", None)) is not None), None
        )
        if micros is not None:
            self._told, self._is_idle = micros / 1_000_000, False
        elif seconds > 0:
            self._is_idle = True


class Left:
    """What is not read yet of the log that is there now, in the source's unit.

    How far two positions are apart is how far each is behind the log's end, asked one after the other. The later one
    comes last: what is written in between makes the way that was read too short, never too long.
    """

    def __init__(self, source: Source, position: Position) -> None:
        self._source = source
        self._counted = self._read = position
        self._amount = source.behind(position)
        self._asked = -ASK_EVERY

    def see(self, events: Sequence[Event]) -> None:
        at = next((each.at for each in reversed(events) if isinstance(each, Ended | Passed)), None)
        if at is not None:
            self._read = Position(at)

    def is_nothing(self) -> bool:
        if self._amount > 0 and self._read != self._counted and time.monotonic() - self._asked >= ASK_EVERY:
            self._count()
            self._asked = time.monotonic()
        return self._amount <= 0

    def _count(self) -> None:
        before, now = self._source.behind(self._counted), self._source.behind(self._read)
        self._amount = self._amount - (before - now) if now else 0
        self._counted = self._read


class WatchedChanges:
    def __init__(self, changes: Changes, source: WatchedSource) -> None:
        self._changes = changes
        self._watched = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    def read(self, seconds: float) -> Sequence[Event]:
        self._watched.before_reading()
        events = self._changes.read(seconds)
        self._watched.after_reading(events, seconds)
        return events
