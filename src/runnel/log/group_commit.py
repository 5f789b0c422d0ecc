"""Group commit: many appends, one sync for each segment they touch.

A round takes all that waits in all partitions, writes each touched segment, syncs them side by side, and answers.
While a round is under way the next one gathers, so the more is waiting, the fewer syncs each append costs; there is
no timer and nothing to tune.

Who runs a round? A caller that waits for its append runs it in its own thread, unless a round is under way: then it
waits for that one, which may take its append along. Appends that nobody waits for in a thread are committed by a
background thread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from runnel.clock import Clock
from runnel.log.appends import Append
from runnel.log.writer import Writer

logger = logging.getLogger(__name__)


class GroupCommit:
    def __init__(self, clock: Clock, workers: int, *, background: bool) -> None:
        self._clock = clock
        self._workers = workers
        self._background = background
        self._waiting: dict[Writer, None] = {}  # in the order of their first append
        self._unsynced: dict[Writer, None] = {}  # relaxed ones that a deadline waits for
        self._lock = threading.Lock()
        self._one_round = threading.Lock()
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._woken = False
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    def enlist(self, writer: Writer, *, wake: bool) -> None:
        """Something waits in this writer. Wake the background thread unless the caller runs the round itself."""
        if writer not in self._waiting:  # the round that takes it will also take what was just submitted
            with self._lock:
                self._waiting[writer] = None
        if wake:
            self._wake_up()

    def settle(self, append: Append) -> None:
        """Return when the append is answered."""
        while not append.done:
            with self._one_round:
                if not append.done:
                    self._round()

    def round(self) -> None:
        with self._one_round:
            self._round()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No round is under way inside: for what changes segments in another way."""
        with self._one_round:
            yield

    def close(self) -> None:
        self._background = False  # no other thread begins, as for the deadlines of relaxed topics
        if self._thread is not None:
            self._wake.put(False)
            self._thread.join()
            self._thread = None
        self.round()
        if self._pool is not None:
            self._pool.shutdown()

    # --- a round

    def _round(self) -> None:
        with self._lock:
            writers, self._waiting = list(self._waiting), {}
        if self._unsynced:
            writers += self._due_for_sync(writers)
        try:
            self._commit(writers)
        except BaseException as error:  # the thread that ran the round was interrupted
            for writer in writers:
                if writer.is_under_way:
                    _fail(writer, "a commit", error)
                else:
                    self.enlist(writer, wake=True)  # others may wait for what it has not taken yet
            raise

    def _commit(self, writers: list[Writer]) -> None:
        to_sync = [writer for writer in writers if self._write(writer)]
        for writer, error in zip(to_sync, self._sync_all(to_sync), strict=True):
            if error is None:
                self._publish(writer, synced=True)
            else:
                _fail(writer, "a sync", error)

    def _write(self, writer: Writer) -> bool:
        """True if a sync is to follow; otherwise all is said and done."""
        try:
            if writer.write():
                return True
        except Exception as error:  # whatever it is, those who wait must hear of it
            _fail(writer, "a write", error)
            return False
        self._publish(writer, synced=False)
        return False

    def _publish(self, writer: Writer, *, synced: bool) -> None:
        for append in writer.publish(synced=synced):
            append.answer()
        if writer.has_unsynced and writer not in self._unsynced:
            with self._lock:
                self._unsynced[writer] = None
            self._wake_up()  # to learn of the deadline

    def _sync_all(self, writers: list[Writer]) -> list[Exception | None]:
        shares = min(len(writers), self._workers)
        if shares <= 1:
            return [_sync(writer) for writer in writers]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="runnel-sync")
        # One task for each worker: a task for each writer would cost more than the sync of a small batch.
        try:
            answers = self._pool.map(_sync_each, [writers[number::shares] for number in range(shares)])
        except RuntimeError:  # the interpreter is shutting down and starts no more threads
            return _sync_each(writers)
        errors: list[Exception | None] = [None] * len(writers)
        for number, share in enumerate(answers):
            errors[number::shares] = share
        return errors

    def _due_for_sync(self, known: list[Writer]) -> list[Writer]:
        now = self._clock.elapsed()
        with self._lock:
            due = [writer for writer in self._unsynced if writer.flush_at <= now or not writer.has_unsynced]
            for writer in due:
                del self._unsynced[writer]
        return [writer for writer in due if writer.has_unsynced and writer not in known]

    # --- the background thread

    def _wake_up(self) -> None:
        if not self._background:
            return
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="runnel-commit", daemon=True)
                    self._thread.start()
        if not self._woken:
            self._woken = True
            self._wake.put(True)

    def _run(self) -> None:
        while True:
            try:
                if not self._wake.get(timeout=self._until_next_deadline()):
                    return
            except queue.Empty:
                pass
            self._woken = False
            try:
                self.round()
            except Exception:  # a defect of ours must not end all commits
                logger.exception("a round of the group commit failed")

    def _until_next_deadline(self) -> float | None:
        with self._lock:
            deadlines = [writer.flush_at for writer in self._unsynced]
        if not deadlines:
            return None
        return max(0.0, min((min(deadlines) - self._clock.elapsed()) / 1000, 3600.0))


def _sync_each(writers: list[Writer]) -> list[Exception | None]:
    return [_sync(writer) for writer in writers]


def _sync(writer: Writer) -> Exception | None:
    try:
        writer.sync()
    except Exception as error:  # whatever it is, those who wait must hear of it
        return error
    return None


def attempt(writer: Writer, doing: str, action: Callable[[], None]) -> bool:
    """Let the writer do something; if the disk fails, the writer fails with it, and the answer is False."""
    try:
        action()
    except OSError as error:
        _fail(writer, doing, error)
        return False
    return True


def _fail(writer: Writer, doing: str, error: BaseException) -> None:
    lost, failure = writer.fail(doing, error)
    for append in lost:
        append.answer(failure)
