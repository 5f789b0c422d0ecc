"""Syncs that the kernel does by itself: Linux's io_uring, and of it no more than fsync.

A sync is begun without waiting for it, and done by a worker of the kernel, as `fdatasync` would do it. The ring's
descriptor is readable while there are answers, so that an event loop can watch it; or it waits for them, but only so
long.

Neither Python's library nor C's wraps these calls, so they are made by their numbers, and the two queues of the ring
are read and written where the kernel maps them. Containers often forbid io_uring, and on other processors than x86-64
reading the queues would need barriers that Python does not have: there is no ring then, and threads sync as everywhere.

What the kernel may read meanwhile has to be written in one store. `struct.pack_into` is none: it fills its place with
zeros first. A kernel that reads a zero as the head of the completion queue takes the queue for full, and keeps its
answers back until it is asked for them.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import select
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

SETUP, ENTER = 425, 426  # the calls
PARAMETERS_SIZE = 120
FEATURES_AT, SUBMISSIONS_AT, COMPLETIONS_AT = 20, 40, 80  # in the parameters: where the parts of each queue are
ONE_MAP, KEEPS_ALL_ANSWERS = 1, 2  # features: both queues are in one place; answers that find no room wait for it
KNOWS_LIMITS = 256  # another one, of Linux 5.11: it can be told how long to wait
PARTS = struct.Struct("<7I")  # head, tail, mask, entries | of submissions: flags, dropped, array; others: -, entries, -
QUEUES, ENTRIES = 0, 0x10000000  # what to map
FSYNC = 3
DATA_ONLY = 1
ENTRY = struct.Struct("<BBHiQQIIQ24x")  # opcode, flags, priority, file | offset, address, length, sync flags | number
ANSWER = struct.Struct("<QiI")  # number, result, flags
NUMBER = struct.Struct("<I")
WRAP = 0xFFFFFFFF
GET_ANSWERS = 1  # of `ENTER`: also those that found no room
WITH_LIMIT = 8  # of `ENTER`: in the place of the signals comes a `LIMIT`
LIMIT = struct.Struct("<QIIQ")  # signals, their size, -, where the `TIME` is
TIME = struct.Struct("<qq")  # seconds, nanoseconds
NANOSECONDS = 1_000_000_000
NO_ROOM = 2  # in the flags of the submission queue: there are such answers
SECONDS_TO_TRY = 10.0

Answer = tuple[int, OSError | None]


class Synced(Protocol):
    def fileno(self) -> int: ...


class NoRing(Exception):
    """This system has no io_uring, or does not let us use it."""


class Ring:
    """At most `most` syncs at a time, of one thread at a time. Made only where it has proved that it syncs."""

    def __init__(self, most: int) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise NoRing(f"io_uring is not used on {sys.platform}, {platform.machine()}")
        self.most = most
        # To begin takes a moment only: giving up the interpreter's lock for it would take longer.
        self._call, self._slow_call = (kind(None, use_errno=True).syscall for kind in (ctypes.PyDLL, ctypes.CDLL))
        self._call.restype = self._slow_call.restype = ctypes.c_long
        parameters = bytearray(PARAMETERS_SIZE)
        space = (ctypes.c_char * PARAMETERS_SIZE).from_buffer(parameters)
        self.descriptor = int(self._call(ctypes.c_long(SETUP), ctypes.c_uint(most), space))
        if self.descriptor < 0:
            raise NoRing(f"io_uring cannot be used: {os.strerror(ctypes.get_errno())}")
        self._place = (ctypes.c_long(ENTER), ctypes.c_int(self.descriptor))
        no_signals = (ctypes.c_void_p(0), ctypes.c_size_t(0))
        self._at_once = (ctypes.c_uint(0), ctypes.c_uint(0), *no_signals)
        self._asking = (ctypes.c_uint(0), ctypes.c_uint(GET_ANSWERS), *no_signals)
        self._waiting = (ctypes.c_uint(1), ctypes.c_uint(GET_ANSWERS), *no_signals)
        self._time = ctypes.create_string_buffer(TIME.size)
        limit = ctypes.create_string_buffer(LIMIT.pack(0, 0, 0, ctypes.addressof(self._time)), LIMIT.size)
        how = ctypes.c_uint(GET_ANSWERS | WITH_LIMIT)
        self._waiting_a_while = (ctypes.c_uint(1), how, limit, ctypes.c_size_t(LIMIT.size))
        # A sync's ticket is its own for good: the answer to one that nobody waits for any more is told apart. The
        # kernel may look a descriptor up late, so its file must not be closed before the answer.
        self._under_way: dict[int, Synced] = {}
        self._next_ticket = self._first_ticket = 0
        self._maps: list[mmap.mmap] = []
        try:
            self._map(parameters)
            self._try_out()
        except (OSError, NoRing) as error:
            self.close()
            raise NoRing(f"io_uring cannot be used: {error}") from error

    def _map(self, parameters: bytearray) -> None:
        submissions, completions = NUMBER.unpack_from(parameters, 0)[0], NUMBER.unpack_from(parameters, 4)[0]
        features = NUMBER.unpack_from(parameters, FEATURES_AT)[0]
        if features & (ONE_MAP | KEEPS_ALL_ANSWERS) != ONE_MAP | KEEPS_ALL_ANSWERS:
            raise NoRing("the kernel is too old")
        self._knows_limits = bool(features & KNOWS_LIMITS)
        head_at, tail_at, mask_at, _, flags_at, _, array_at = PARTS.unpack_from(parameters, SUBMISSIONS_AT)
        answers = PARTS.unpack_from(parameters, COMPLETIONS_AT)
        answers_head_at, answers_tail_at, answers_mask_at, _, _, self._answers_at, _ = answers
        size = max(array_at + submissions * NUMBER.size, self._answers_at + completions * ANSWER.size)
        self._queues = mmap.mmap(self.descriptor, size, offset=QUEUES)
        self._maps.append(self._queues)
        self._entries = mmap.mmap(self.descriptor, submissions * ENTRY.size, offset=ENTRIES)
        self._maps.append(self._entries)
        (self._mask,) = NUMBER.unpack_from(self._queues, mask_at)
        (self._answers_mask,) = NUMBER.unpack_from(self._queues, answers_mask_at)
        self._head, self._shown_tail, self._flags, self._shown_answered, self._answers_tail = (
            ctypes.c_uint32.from_buffer(self._queues, place)  # one load, one store
            for place in (head_at, tail_at, flags_at, answers_head_at, answers_tail_at)
        )
        for number in range(submissions):  # each place of the queue holds the entry of its own number
            NUMBER.pack_into(self._queues, array_at + number * NUMBER.size, number)
        self._tail = self._answered = 0

    def _try_out(self) -> None:
        """Let it sync a file, and refuse what is none: a system may have the calls, and do nothing, or anything."""
        answers: list[Answer] = []
        end = time.monotonic() + SECONDS_TO_TRY
        with os.fdopen(os.memfd_create("runnel-ring"), "wb", 0) as file, select.epoll() as no_file:
            no_file.register(self.descriptor, select.EPOLLIN)
            if self.begin([file, no_file]) != 2:
                raise NoRing("it takes no sync")
            while len(answers) < 2 and time.monotonic() < end:
                no_file.poll(max(0.0, end - time.monotonic()))
                answers += self.answers()
        if [error and error.errno for _, error in sorted(answers, key=_number)] != [None, errno.EINVAL]:
            raise NoRing(f"of a file and what is none it says {answers}")

    def begin(self, files: Sequence[Synced]) -> int:
        """Begin to sync these files, and return at once. The answer is how many were begun: the first ones.

        What an earlier call has still under way is not answered any more.
        """
        self._first_ticket = self._next_ticket
        for ticket, file in enumerate(files, self._next_ticket):
            place = (self._tail & self._mask) * ENTRY.size
            ENTRY.pack_into(self._entries, place, FSYNC, 0, 0, file.fileno(), 0, 0, 0, DATA_ONLY, ticket)
            self._under_way[ticket] = file
            self._tail = (self._tail + 1) & WRAP
        self._next_ticket += len(files)
        self._shown_tail.value = self._tail
        begun = max(0, self._enter(self._call, len(files), self._at_once))
        if begun < len(files):  # the kernel has not looked at the others: take them back
            self._tail = self._shown_tail.value = self._head.value
            for ticket in range(self._first_ticket + begun, self._next_ticket):
                del self._under_way[ticket]
        return begun

    def answers(self) -> list[Answer]:
        """Those that are there: each the number of a file in its `begin`, and the error if its sync failed."""
        if self._answered == self._answers_tail.value and self._flags.value & NO_ROOM:
            self._enter(self._slow_call, 0, self._asking)
        end = self._answers_tail.value
        if self._answered == end:
            return []
        found: list[Answer] = []
        while self._answered != end:
            place = self._answers_at + (self._answered & self._answers_mask) * ANSWER.size
            ticket, result, _ = ANSWER.unpack_from(self._queues, place)
            self._answered = (self._answered + 1) & WRAP
            self._under_way.pop(ticket, None)
            if ticket >= self._first_ticket:
                error = None if result >= 0 else OSError(-result, os.strerror(-result))
                found.append((ticket - self._first_ticket, error))
        self._shown_answered.value = self._answered
        return found

    def wait(self) -> list[Answer]:
        """The same, at least one."""
        while not (found := self.answers()):
            if self._enter(self._slow_call, 0, self._waiting) < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return found

    def wait_a_while(self, seconds: float) -> list[Answer]:
        """The same, or none if that takes longer. Where the kernel knows no limits: those that are there."""
        found = self.answers()
        if not found and self._knows_limits:
            TIME.pack_into(self._time, 0, *divmod(int(seconds * NANOSECONDS), NANOSECONDS))
            self._enter(self._slow_call, 0, self._waiting_a_while)
            found = self.answers()
        return found

    def close(self) -> None:
        # Whoever shares the memory of a map keeps it from being closed.
        self._head = self._shown_tail = self._flags = self._shown_answered = self._answers_tail = ctypes.c_uint32()
        for mapped in self._maps:
            mapped.close()
        os.close(self.descriptor)

    def _enter(self, call: Any, begin: int, how: tuple[Any, ...]) -> int:
        return int(call(*self._place, ctypes.c_uint(begin), *how))


def _number(answer: Answer) -> int:
    return answer[0]
