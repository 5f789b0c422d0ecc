"""Group commit: many appends, one sync for each segment they touch.

A round takes all that waits in all partitions, writes each touched segment, syncs them side by side, and answers.
While a round is under way the next one gathers, so the more is waiting, the fewer syncs each append costs; there is
no timer and nothing to tune.

Who runs a round? A caller that waits for its append runs it in its own thread, unless a round is under way: then it
waits for that one, which may take its append along. Appends that nobody waits for in a thread are committed by a
background thread; those that an event loop submits, by the loop itself as far as it can, see `loop_rounds`.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from runnel.clock import Clock
from runnel.files import Syncs
from runnel.log.appends import Append
from runnel.log.loop_rounds import Failure, Loop, LoopRounds
from runnel.log.writer import Writer

SECONDS_TO_LOOK_AGAIN = 1.0  # a loop that was stopped does not end its round

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
        self._asking = 0  # how many wait for the turn: a loop lets them go first
        self._loop_rounds: LoopRounds | None = None
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._woken = False
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    def enlist(self, writer: Writer, *, wake: bool, more: bool = False) -> None:
        """Something waits in this writer. Wake the background thread unless the caller runs the round itself. `more`:
        its like are expected to follow at once."""
        if writer not in self._waiting:  # the round that takes it will also take what was just submitted
            with self._lock:
                self._waiting[writer] = None
        if wake and (self._loop_rounds is None or not self._loop_rounds.plan(more=more)):
            self._wake_up()

    def run_on(self, loop: Loop, syncs: Syncs, together: Callable[[], AbstractContextManager[object]]) -> None:
        """From now on the event loop of this thread runs the rounds for what its own callbacks submit."""
        if self._background:
            self._start()  # now: in the middle of a round it would be bad to hear that there can be no more threads
        self._loop_rounds = LoopRounds(self, loop, syncs, together)

    def settle(self, append: Append) -> None:
        """Return when the append is answered."""
        while not append.done:
            with self.exclusive():
                if not append.done:
                    self._round()

    def round(self) -> None:
        with self.exclusive():
            self._round()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No round is under way inside: for what changes segments in another way.

        Whoever asks must hold nothing that a callback of the event loop may wait for: the loop has a round to end.
        """
        self._take_turn()
        try:
            yield
        finally:
            self.end()

    def _take_turn(self) -> None:
        rounds = self._loop_rounds
        if rounds is not None:
            rounds.let_go_first()
        with self._lock:
            self._asking += 1
        try:
            self.finish()
            while not self._one_round.acquire(timeout=-1 if rounds is None else SECONDS_TO_LOOK_AGAIN):
                self.finish()
        except BaseException:
            self._stop_asking()
            self._tell_loop()  # it may have stepped aside
            raise
        self._stop_asking()

    def _stop_asking(self) -> None:
        with self._lock:
            self._asking -= 1

    def finish(self) -> None:
        """End the event loop's round, if the loop cannot do it: it is in this call, or does not run."""
        if self._loop_rounds is not None:
            self._loop_rounds.finish()

    def close(self) -> None:
        self._background = False  # no other thread begins, as for the deadlines of relaxed topics
        self.finish()
        if self._thread is not None:
            self._wake.put(False)
            self._thread.join()
            self._thread = None
        with self.exclusive():
            if self._loop_rounds is not None:
                self._loop_rounds.close()
            self._round()
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
            self.give_up(writers, error)
            raise

    def _commit(self, writers: list[Writer]) -> None:
        failed: list[Failure] = []
        to_sync = self.write_all(writers, failed)
        _fail_all(failed)
        for writer, error in zip(to_sync, self._sync_all(to_sync), strict=True):
            if error is None:
                self.publish(writer)
            else:
                _fail(writer, "a sync", error)

    def begin(self) -> list[Writer] | None:
        """What waits, together with the turn; None if the turn is not to be had now."""
        if self._asking or not self._one_round.acquire(blocking=False):
            return None
        with self._lock:
            writers, self._waiting = list(self._waiting), {}
        return writers

    def write_all(self, writers: list[Writer], failed: list[Failure]) -> list[Writer]:
        """Write what waits in each; the answer are those that are to be synced."""
        return [writer for writer in writers if self._write(writer, failed)]

    def give_up(self, writers: list[Writer], error: BaseException) -> None:
        """The round was interrupted: those who wait for what it took are told."""
        for writer in writers:
            if writer.is_under_way:
                _fail(writer, "a commit", error)
            else:
                self.hand_over([writer])  # others may wait for what it has not taken yet

    def hand_over(self, writers: list[Writer]) -> None:
        """Leave these to the background thread."""
        with self._lock:
            self._waiting = dict.fromkeys(writers) | self._waiting
        self._wake_up()

    def end(self) -> None:
        """Give up the turn."""
        self._one_round.release()
        self._tell_loop()

    def _tell_loop(self) -> None:
        if self._loop_rounds is not None:
            self._loop_rounds.come_back()

    def end_failed(self, failed: list[Failure]) -> None:
        """Let these fail, which touches the disk, then give up the turn. In a thread, if there may be some."""
        if self._background:
            try:
                threading.Thread(target=self._end_failed, args=(failed,), name="runnel-failed", daemon=True).start()
                return
            except RuntimeError as error:
                logger.warning("a failure of the disk is dealt with where it was met: %s", error)
        self._end_failed(failed)

    def _end_failed(self, failed: list[Failure]) -> None:
        try:
            _fail_all(failed)
        finally:
            self.end()

    def _write(self, writer: Writer, failed: list[Failure]) -> bool:
        """True if a sync is to follow; otherwise all is said and done."""
        try:
            if writer.write():
                return True
        except Exception as error:  # whatever it is, those who wait must hear of it
            failed.append((writer, "a write", error))
            return False
        self.publish(writer, synced=False)
        return False

    def publish(self, writer: Writer, *, synced: bool = True) -> None:
        run = writer.publish(synced=synced)
        for append in run:
            append.answer()
        if run:
            writer.tell_watchers()
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
        self._start()
        if not self._woken:
            self._woken = True
            self._wake.put(True)

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="runnel-commit", daemon=True)
                    thread.start()  # if there can be no more threads, the next one who asks for it tries again
                    self._thread = thread

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


def _fail_all(failed: list[Failure]) -> None:
    for writer, doing, error in failed:
        _fail(writer, doing, error)


def _fail(writer: Writer, doing: str, error: BaseException) -> None:
    lost, failure = writer.fail(doing, error)
    for append in lost:
        append.answer(failure)
