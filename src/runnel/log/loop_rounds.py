"""Rounds of the group commit that an event loop runs, while the kernel does the syncs.

Handing a round to a thread and its answers back costs two wake-ups and turns at the interpreter's lock. So a loop whose
callbacks submit runs the round itself: it writes, begins the syncs, and goes on with other things; when the last sync
is answered, it publishes. It waits for no disk, but for a moment where the last sync took no longer, and so it takes a
round only if

- nobody else has one under way, or asks for his turn: then it comes back when the others are done, and whoever asks
  after that lets it go first;
- all that is to be done is to append some bytes to open files: a roll, a first epoch, a file to open, and whatever is
  large, go to the background thread;
- the files can be synced without waiting, see `Files.syncs`.

Where a disk hangs, one round stays unanswered, what follows waits for it, and the loop is free. What a failure of a
disk asks for is done in a thread, because it touches that disk again.

Whatever happens in a round, its end gives up the turn, or all commits would end with it.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from runnel.files import Syncs
from runnel.log.writer import Writer
from runnel.settings import KIB, MIB

MOST_BYTES = MIB
# A sync of a few bytes is often done before the loop would have looked at its sockets and slept. For so long it waits
# for one, if the last sync was as quick; more appends in a round tell that it has other things to do.
AWAITED_SECONDS = 0.0004
AWAITED_BYTES = 16 * KIB
AWAITED_APPENDS = 8
# Where rounds follow each other, the next one takes along what has come already: it waits while each turn of the loop
# brings more, for so long at most. Every round costs the loop about as much as two small requests.
GATHERING_SECONDS = 0.0005
SECONDS_TO_GO_FIRST = 0.05  # for a loop that others went before; it may be busy with something else


class Loop(Protocol):
    """What is asked of an event loop; asyncio's and uvloop's are."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[[], object], /) -> object: ...

    def add_reader(self, descriptor: int, callback: Callable[[], object], /) -> Any: ...

    def remove_reader(self, descriptor: int, /) -> Any: ...

    def is_running(self) -> bool: ...


Failure = tuple[Writer, str, Exception]


class Commits(Protocol):
    """The group commit's side."""

    def begin(self) -> list[Writer] | None:
        """What waits, together with the turn; None if the turn is not to be had now."""
        ...

    def write_all(self, writers: list[Writer], failed: list[Failure]) -> list[Writer]:
        """Write what waits in each; the answer are those that are to be synced."""
        ...

    def publish(self, writer: Writer) -> None: ...

    def end_failed(self, failed: list[Failure]) -> None:
        """Let these fail, then give up the turn; not in the loop's thread."""
        ...

    def give_up(self, writers: list[Writer], error: BaseException) -> None:
        """The round was interrupted."""
        ...

    def end(self) -> None:
        """Give up the turn."""
        ...

    def hand_over(self, writers: list[Writer]) -> None:
        """Leave these to the background thread."""
        ...


class LoopRounds:
    """Made in the loop's thread. `together` is a context in which the answers of one round are given."""

    def __init__(
        self, commits: Commits, loop: Loop, syncs: Syncs, together: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._commits = commits
        self._loop = loop
        self._syncs = syncs
        self._together = together
        self._thread = threading.get_ident()
        self._planned = False
        self._submitted = 0  # by callbacks of the loop
        self._in_rounds = 0  # of them, when the last round began
        self._gathered = 0  # of them, when it was last looked
        self._gathering_since = 0.0
        self._asks_for_turn = False
        self._closed = False
        self._disposed = False
        self._had_turn = threading.Event()  # since it asked last
        self._had_turn.set()
        self._under_way: list[Writer] = []  # whose syncs are begun
        self._errors: list[OSError | None] = []  # of each of them
        self._missing: set[int] = set()  # those without an answer
        self._failed: list[Failure] = []
        self._size = 0  # of what the round under way writes
        self._begun = 0.0
        self._was_quick = True
        self._taking = threading.Lock()  # answers: the loop, or whoever finishes its round
        loop.add_reader(syncs.descriptor, self._take_answers)

    def plan(self, *, more: bool = False) -> bool:
        """Take care of what waits, if this is the loop: then in its next turn, so that all of this turn is in it.

        `more` is expected: then the loop looks at its sockets once more before.
        """
        if threading.get_ident() != self._thread or self._closed or not self._loop.is_running():
            return False  # also if a round is planned: a loop that was stopped does not come to it
        self._submitted += 1
        if not self._planned:
            self._planned = True
            if not self._under_way:
                self._gathering_since = time.perf_counter()
                self._loop.call_soon(self._gather if more else self._begin)
        return True

    def come_back(self) -> None:
        """Somebody gave up the turn: from any thread."""
        if self._asks_for_turn:
            self._asks_for_turn = False
            self._begin_soon()

    def let_go_first(self) -> None:
        """Whoever is about to ask for the turn calls this: if others went before the loop, it is the loop's turn now.

        Else somebody who asks again and again, as for each of many partitions, would keep it for himself.
        """
        if self._had_turn.is_set() or threading.get_ident() == self._thread or not self._loop.is_running():
            return
        self._had_turn.wait(SECONDS_TO_GO_FIRST)

    def _begin_soon(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the loop is closed
            self._commits.hand_over([])

    def finish(self) -> None:
        """Whoever is about to wait for the turn calls this: in the loop's own thread nobody else ends the round."""
        if self._under_way and (threading.get_ident() == self._thread or not self._loop.is_running()):
            with self._taking:
                self._await_answers()
                writers = self._ended()
            try:
                if writers:
                    self._end(writers)
            finally:
                if self._planned:
                    self._begin_soon()

    def _await_answers(self) -> None:
        while self._missing:
            try:
                self._note(self._syncs.wait())
            except OSError as error:  # nobody knows what became of them
                self._note([(number, error) for number in tuple(self._missing)])

    def close(self) -> None:
        """Begin no more rounds. From any thread, with the turn: so none is under way."""
        self._closed = True
        self._had_turn.set()
        try:
            if self._loop.is_running():
                self._loop.call_soon_threadsafe(self._dispose)
                return
            self._loop.remove_reader(self._syncs.descriptor)
        except RuntimeError:  # the loop is closed
            pass
        self._close_syncs()

    def _dispose(self) -> None:
        self._loop.remove_reader(self._syncs.descriptor)
        self._close_syncs()

    def _close_syncs(self) -> None:
        with self._taking:
            self._disposed = True
            self._syncs.close()

    # --- one round

    def _begin(self) -> None:
        if self._under_way:  # its end looks for more
            return
        self._planned = False
        if self._closed:
            self._commits.hand_over([])
            return
        self._asks_for_turn = True  # first: whoever has the turn looks for it after giving it up
        writers = self._commits.begin()
        if writers is None:
            self._had_turn.clear()
            return
        self._asks_for_turn = False
        appends, self._in_rounds = self._submitted - self._in_rounds, self._submitted
        if not self._had_turn.is_set():
            self._had_turn.set()
        try:
            if not self._closed and self._is_quick(writers):  # it may have been closed in between
                self._write(writers)
            else:
                self._leave(writers)
        except BaseException as error:
            self._give_up(writers, error)
            raise
        if not self._under_way:
            self._finish_round()
        elif not self._missing:  # no sync could be begun
            self._end(self._ended())
        elif self._was_quick and self._size <= AWAITED_BYTES and appends <= AWAITED_APPENDS:
            self._wait_a_while()
            if not self._missing:
                self._end_together()

    def _is_quick(self, writers: list[Writer]) -> bool:
        if len(writers) > self._syncs.most:
            return False
        size = 0
        for writer in writers:
            prepared = writer.prepare(self._syncs)
            if prepared is None:
                return False
            size += prepared
        self._size = size
        return size <= MOST_BYTES

    def _leave(self, writers: list[Writer]) -> None:
        for writer in writers:
            writer.put_back()
        self._commits.hand_over(writers)

    def _write(self, writers: list[Writer]) -> None:
        to_sync = self._commits.write_all(writers, self._failed)
        if not to_sync:
            return
        files = [writer.file() for writer in to_sync]
        self._errors, self._missing = [None] * len(to_sync), set(range(len(to_sync)))
        self._begun = time.perf_counter()
        begun = self._syncs.begin(files)
        self._under_way = to_sync
        for writer in to_sync:
            writer.expect()
        if begun < len(to_sync):
            refused = OSError(errno.EAGAIN, "the sync could not be begun")
            self._note([(number, refused) for number in range(begun, len(to_sync))])

    def _wait_a_while(self) -> None:
        with self._taking:
            left = AWAITED_SECONDS
            while self._missing and (answers := self._syncs.wait_a_while(left)):
                self._note(answers)
                left = max(0.0, self._begun + AWAITED_SECONDS - time.perf_counter())

    def _take_answers(self) -> None:
        with self._taking:
            if not self._disposed:
                self._note(self._syncs.answers())  # also if nobody waits: the descriptor must not stay readable
        self._end_together()

    def _end_together(self) -> None:
        with self._taking:
            writers = self._ended()
        if not writers:
            return
        self._was_quick = time.perf_counter() - self._begun < AWAITED_SECONDS
        had_planned = self._planned  # what the answers bring plans its own round
        try:
            with self._together():
                self._end(writers)
        finally:
            if had_planned:
                self._gathering_since = time.perf_counter()
                self._gather()

    def _gather(self) -> None:
        """Begin when a turn of the loop has brought nothing more."""
        if self._submitted == self._gathered or time.perf_counter() - self._gathering_since > GATHERING_SECONDS:
            self._begin()
        else:
            self._gathered = self._submitted
            self._loop.call_soon(self._gather)

    def _note(self, answers: list[tuple[int, OSError | None]]) -> None:
        for number, error in answers:
            if number in self._missing:
                self._missing.remove(number)
                self._errors[number] = error

    def _ended(self) -> list[Writer]:
        """Those of the round under way, if the last answer is there: whoever gets them has to end it."""
        if self._missing:
            return []
        writers, self._under_way = self._under_way, []
        return writers

    def _end(self, writers: list[Writer]) -> None:
        try:
            self._publish(writers)
        except BaseException as error:
            self._give_up(writers, error)
            raise
        self._finish_round()

    def _publish(self, writers: list[Writer]) -> None:
        for writer, error in zip(writers, self._errors, strict=True):
            if error is None:
                self._commits.publish(writer)
            else:
                self._failed.append((writer, "a sync", error))

    def _give_up(self, writers: list[Writer], error: BaseException) -> None:
        """A defect of ours, or the end of the process, must not keep the turn for ever."""
        failed, self._failed = self._failed, []
        self._under_way, self._missing = [], set()  # what is begun may go on: its answers count no more
        concerned = dict.fromkeys([*writers, *(writer for writer, _, _ in failed)])
        try:
            for writer in concerned:
                writer.put_back()  # those that it did not come to
            self._commits.give_up(list(concerned), error)
        finally:
            self._commits.end()

    def _finish_round(self) -> None:
        """With the turn still ours."""
        failed, self._failed = self._failed, []
        if failed:
            self._commits.end_failed(failed)
        else:
            self._commits.end()
