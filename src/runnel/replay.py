"""State that lives in a log: decide, append, replay.

A handler reads the state and returns a `Decision`: an answer, and the entries that make it true. Only `replay` changes
the state, at run time and at start alike: what a start rebuilds is what was there before.

What it promises:
- a decision is atomic: after any crash all of its entries are there, or none;
- an answer is given when the decision's entries, and all decisions it could have seen, are durable; answers come in
  the order of the decisions, and a handler's error is an answer like any other;
- decisions do not wait for each other's sync: the next handler sees what the last one decided, and many share one sync;
- if an append is lost, that decision and all after it get the error, and the state is thrown away. Before the next
  decision it is rebuilt from what is durable; until the disk is well, each decision gets a Transient error.

What it asks for:
- `replay` depends on nothing but the state and the entry, and it alone changes the state. Time and chance are handed
  to a handler by its caller and travel in the entries;
- an answer holds no live part of the state;
- nobody else writes to the journal;
- handlers and callbacks are short and wait for nothing: a callback runs in the thread that answers, which may be the
  one that commits for everybody. It may submit, but not `run`, `read` or `fold`.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import dropwhile, takewhile
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import InvalidSetting, ReplayFailed, Transient
from runnel.files import DISK, Files, read_file, replace_file

CHECKSUM = struct.Struct(">I")
FACTS = struct.Struct(">Hq")  # version, offset
VERSION = 1
NOWHERE = -1  # the offset of a decision without entries, or whose entries were lost

State = TypeVar("State")
Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)


class Entry(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int  # in milliseconds since 1970
    transaction: Transacted | None = None  # one decision is of one transaction, or of none


class Transacted(NamedTuple):
    """A producer's transaction that an entry belongs to: it counts when an entry with the outcome follows."""

    producer_id: int
    epoch: int
    committed: bool | None = None  # the outcome; such an entry has no key and no value, and is alone


class Decision(NamedTuple, Generic[Answer]):
    """What a handler returns. Without entries it changes nothing."""

    answer: Answer
    entries: Sequence[Entry] = ()


Then = Callable[[Answer | None, Exception | None], object]  # what follows a decision: its answer, or its error


class PendingAppend(Protocol):
    def when_done(self, callback: Callable[[Self], None], /) -> None:
        """Call back once, from whichever thread answers; at once if the answer is there already."""
        ...

    def result(self) -> object:
        """Raises the error if the entries were lost."""
        ...


class Journal(Protocol):
    """Where the entries live, at rising offsets from 0; some may be gone. It is named in errors, by `str`."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The offset after the last durable entry."""
        ...

    def check(self, entries: Sequence[Entry]) -> None:
        """Raise what `append` would raise, as far as it is known beforehand: here a refusal is cheap.

        It must raise while something that was reported as lost could come back.
        """
        ...

    def append(self, entries: Sequence[Entry]) -> PendingAppend:
        """Accept the entries and return at once; all of them become durable, in the order of the appends, or none.

        When some are lost, so are all that were accepted after them; and nothing is accepted again before every
        callback of the lost ones has returned.
        """
        ...

    def read(self, offset: int) -> Iterator[tuple[int, Entry]]:
        """The durable entries from `offset`, with their offsets."""
        ...

    def delete_before(self, offset: int) -> object: ...


class SnapshotFile(Generic[State]):
    """A state and the offset it was taken at, in one file. It only shortens the way, until the journal is trimmed.

    checksum u32: CRC-32C of the rest | version u16 = 1 | offset i64: the first one that is not in it | the dump
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dump: Callable[[State], bytes],
        load: Callable[[bytes], State],
        files: Files = DISK,
    ) -> None:
        self.path = os.path.abspath(path)
        self._dump = dump
        self._load = load
        self._files = files

    def __str__(self) -> str:
        return f"snapshot {self.path}"

    def write(self, state: State, offset: int) -> None:
        rest = FACTS.pack(VERSION, offset) + self._dump(state)
        replace_file(self._files, self.path, CHECKSUM.pack(crc32c(rest)) + rest)

    def read(self) -> tuple[State, int] | None:
        """None if there is none; ReplayFailed if it is broken."""
        if not self._files.exists(self.path):
            return None
        content = read_file(self._files, self.path)
        try:
            return self._parse(content)
        except Exception as error:  # also what `load` makes of a dump that it does not know
            raise ReplayFailed(f"{self} cannot be used: {error}", hint="restore the file from a backup") from error

    def _parse(self, content: bytes) -> tuple[State, int]:
        rest = content[CHECKSUM.size :]
        if len(rest) < FACTS.size or CHECKSUM.pack(crc32c(rest)) != content[: CHECKSUM.size]:
            raise ValueError(f"the checksum does not fit its {counted(len(content), 'byte')}")
        version, offset = FACTS.unpack_from(rest)
        if version != VERSION:
            raise ValueError(f"it has format {version}, only format {VERSION} is known")
        return self._load(rest[FACTS.size :]), offset


class JournaledState(Generic[State]):
    """One state and its journal. All methods may be called from any thread."""

    def __init__(
        self,
        journal: Journal,
        initial: Callable[[], State],
        replay: Callable[[State, Entry], None],
        snapshot: SnapshotFile[State] | None = None,
    ) -> None:
        self._journal = journal
        self._initial = initial
        self._replay = replay
        self._snapshot = snapshot
        self._state: State | None = None  # None: thrown away, to be rebuilt before the next decision
        self._next_offset = 0  # of the state's next entry
        self._taken: deque[_Taken[Any]] = deque()  # without an answer yet, in the order of the decisions
        self._decider: int | None = None  # the thread in which a handler runs
        self._answering = False
        self._folded = -1  # the offset of the last snapshot that we know to be on the disk
        # Whoever commits the journal waits for `_lock` to tell of a loss, so no holder of it may wait for a commit, nor
        # for anybody who does: `fold` takes `_stored` alone, and trims without it.
        self._lock = threading.RLock()  # the state; again by the same thread if an append is answered at once
        self._turns = threading.Lock()  # `_taken`, never for long: to answer, nobody waits for a handler
        self._stored = threading.Lock()  # the snapshot stays what it is, for those who replay what follows it

    def start(self) -> None:
        """Load the snapshot and replay the rest. The first decision would do it too; this tells errors early."""
        with self._lock:
            self._current()

    def run(self, handler: Callable[[State], Decision[Answer]]) -> Answer:
        """Decide, and return the answer when it is durable."""
        return self.submit(handler).result()

    def read(self, function: Callable[[State], Answer]) -> Answer:
        """What `function` sees in the state, given out when all that it could see is durable: it takes its turn."""
        return self.run(lambda state: Decision(function(state)))

    def peek(self, function: Callable[[State], Answer]) -> Answer:
        """What `function` sees in the state as it is decided now, which need not be durable yet: for looking only."""
        with self._lock:
            state = self._state
            return function(self._current() if state is None else state)

    def submit(self, handler: Callable[[State], Decision[Answer]]) -> Future[Answer]:
        """Decide at once; the answer comes when it is durable. All errors come with the answer."""
        future: Future[Answer] = Future()
        future.set_running_or_notify_cancel()  # a decision cannot be taken back
        self.decide(handler, partial(_settle_future, future))
        return future

    def decide(self, handler: Callable[[State], Decision[Answer]], then: Then[Answer]) -> None:
        """The same without the cost of a future: `then(answer, None)` or `then(None, error)` is called in its turn,
        from whichever thread answers."""
        with self._lock:
            if self._decider is not None:
                raise RuntimeError("a handler asked for another decision: it may only read the state")
            self._decider = threading.get_ident()
            try:
                self._decide(handler, then)
            finally:
                self._decider = None
        self._give_answers()

    @property
    def next_offset(self) -> int:
        """The offset after the last entry that is decided."""
        return self._next_offset

    @property
    def durable_offset(self) -> int:
        """The offset after the last entry that is durable."""
        return self._journal.end_offset

    def fold(self, *, trim: bool = False) -> int:
        """Write a snapshot of what is durable; with `trim`, delete the journal before it. The answer is its offset.

        It is replayed from the last snapshot into a second state: decisions go on, and nothing speculative gets in.
        """
        if self._snapshot is None:
            raise InvalidSetting("snapshot", None, "a SnapshotFile to fold into")
        with _disk_failures(f"folding {self._journal} into {self._snapshot}"):
            with self._stored:
                offset = self._journal.end_offset
                if offset != self._folded:
                    state, offset = self._restored()
                    self._snapshot.write(state, offset)
                    self._folded = offset
            if trim:
                self._journal.delete_before(offset)
        return offset

    # --- deciding

    def _decide(self, handler: Callable[[State], Decision[Answer]], then: Then[Answer]) -> None:
        taken: _Taken[Answer] = _Taken(then)
        append = None
        try:
            append = self._take(taken, handler)
        except Exception as error:  # it is the answer, and waits like one: it may come from what the handler saw
            taken.error = error
        taken.settled = append is None
        with self._turns:
            self._taken.append(taken)
        if append is not None:
            append.when_done(partial(self._settle, taken))

    def _take(self, taken: _Taken[Answer], handler: Callable[[State], Decision[Answer]]) -> PendingAppend | None:
        state = self._current()
        taken.answer, entries = handler(state)
        if not entries:
            return None
        entries = tuple(entries)
        self._journal.check(entries)
        # Replayed first: what cannot be replayed must not get into the journal. Until it is there the state is not
        # one to go on with.
        self._state = None
        offset = self._next_offset
        following = self._replay_all(state, offset, enumerate(entries, offset))
        append = self._journal.append(entries)
        taken.entries, taken.offset = entries, offset
        self._state, self._next_offset = state, following
        return append

    def _settle(self, taken: _Taken[Any], append: PendingAppend) -> None:
        if taken.settled:  # lost together with one before it
            return
        try:
            append.result()
            taken.settled = True
        except Exception as error:
            self._lose_from(taken, error)
        self._give_answers()

    def _lose_from(self, first: _Taken[Any], error: Exception) -> None:
        with self._lock, self._turns:
            self._state = None
            for taken in dropwhile(lambda taken: taken is not first, self._taken):
                taken.error, taken.offset, taken.settled = error, NOWHERE, True

    def _give_answers(self) -> None:
        """In order, by one thread at a time, and without a lock: a callback may submit."""
        while self._decider != threading.get_ident() and (taken := self._next_in_turn()):
            try:
                taken.give_answer()
            finally:
                self._answering = False

    def _next_in_turn(self) -> _Taken[Any] | None:
        with self._turns:
            if self._answering or not self._taken or not self._taken[0].settled:
                return None
            self._answering = True
            return self._taken.popleft()

    # --- rebuilding

    def _current(self) -> State:
        if self._state is None:
            self._journal.check(())  # until it is well, a restart may bring back what was lost
            with self._turns:  # before the journal is read: none may become durable and leave in between
                waiting = tuple(self._taken)
            with _disk_failures(f"rebuilding the state of {self._journal}"), self._stored:
                state, offset = self._restored()
            for taken in waiting:
                if taken.offset >= offset:  # on its way to the journal
                    offset = self._replay_all(state, offset, enumerate(taken.entries, taken.offset))
            self._state, self._next_offset = state, offset
        return self._state

    def _restored(self) -> tuple[State, int]:
        """What is durable now, and the offset after it."""
        end = self._journal.end_offset
        state, offset = self._beginning(end)
        durable = takewhile(lambda placed: placed[0] < end, self._journal.read(offset))
        self._replay_all(state, offset, durable)
        return state, end  # also if the last entries are gone, because nobody needs them any more

    def _beginning(self, end: int) -> tuple[State, int]:
        """What the snapshot holds, or nothing, and the offset to replay from."""
        start = self._journal.start_offset
        found = None
        try:
            found = self._snapshot.read() if self._snapshot else None
        except ReplayFailed as broken:
            if start > 0:
                raise
            logger.warning("%s; %s is replayed from its start", broken.what, self._journal)
        if found is None and start == 0:
            return self._initial(), 0
        if found is None or not start <= found[1] <= end:
            has = "does not exist" if found is None else f"is from offset {found[1]}"
            raise ReplayFailed(
                f"{self._snapshot or 'a snapshot'} {has}, but {self._journal} has the offsets {start} to {end}",
                hint="restore both from the same backup",
            )
        return found

    def _replay_all(self, state: State, offset: int, placed: Iterable[tuple[int, Entry]]) -> int:
        """Replay the entries at their offsets; the answer is the offset after them."""
        for place, entry in placed:
            try:
                self._replay(state, entry)
            except Exception as error:
                raise ReplayFailed(
                    f"the entry at offset {place} of {self._journal} cannot be replayed: {error!r}",
                    hint="this is a defect of the program: replay must take whatever its handlers decide",
                ) from error
            offset = place + 1
        return offset


class _Taken(Generic[Answer]):
    """A decision that waits for its turn to be answered."""

    __slots__ = ("answer", "entries", "error", "offset", "settled", "then")

    answer: Answer

    def __init__(self, then: Then[Answer]) -> None:
        self.then = then
        self.error: Exception | None = None
        self.entries: Sequence[Entry] = ()
        self.offset = NOWHERE
        self.settled = False  # its entries, if it has any, are durable or lost

    def give_answer(self) -> None:
        try:
            if self.error is not None:
                self.then(None, self.error)
            else:
                self.then(self.answer, None)
        except Exception:  # others wait for their answers behind it
            logger.exception("what was to follow a decision failed")


def _settle_future(future: Future[Answer], answer: Answer | None, error: Exception | None) -> None:
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)  # type: ignore[arg-type]  # without an error it is one


@contextmanager
def _disk_failures(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Transient(f"{doing} failed: {error}", hint="try again when the disk is well") from error
