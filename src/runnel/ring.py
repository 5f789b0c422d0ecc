"""Syncs that the kernel does by itself: Linux's io_uring, and of it no more than fsync.

A sync is begun without waiting for it, and done by a worker of the kernel, as `fdatasync` would do it. The ring's
descriptor is readable while there are answers, so that an event loop can watch it.

Neither Python's library nor C's wraps these calls, so they are made by their numbers, and the two queues of the ring
are read and written where the kernel maps them. Containers often forbid io_uring, and on other processors than x86-64
reading the queues would need barriers that Python does not have: there is no ring then, and threads sync as everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
import sys
from collections.abc import Sequence
from typing import Any

SETUP, ENTER = 425, 426  # the calls
PARAMETERS_SIZE = 120
SUBMISSIONS_AT, COMPLETIONS_AT = 40, 80  # in the parameters: where the parts of each queue are
PARTS = struct.Struct("<7I")  # head, tail, mask, entries | of submissions: flags, dropped, array; others: -, entries, -
QUEUES, ENTRIES = 0, 0x10000000  # what to map
FSYNC = 3
DATA_ONLY = 1
ENTRY = struct.Struct("<BBHiQQIIQ24x")  # opcode, flags, priority, file | offset, address, length, sync flags | number
ANSWER = struct.Struct("<QiI")  # number, result, flags
NUMBER = struct.Struct("<I")
WRAP = 0xFFFFFFFF
WAIT_FOR_ANSWERS = 1

Answer = tuple[int, OSError | None]


class NoRing(Exception):
    """This system has no io_uring, or does not let us use it."""


class Ring:
    """At most `most` syncs at a time, of one thread at a time."""

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
        try:
            self._map(parameters)
        except OSError as error:
            os.close(self.descriptor)
            raise NoRing(f"io_uring cannot be used: {error}") from error
        self._place = (ctypes.c_long(ENTER), ctypes.c_int(self.descriptor))
        no_signals = (ctypes.c_void_p(0), ctypes.c_size_t(0))
        self._at_once = (ctypes.c_uint(0), ctypes.c_uint(0), *no_signals)
        self._waiting = (ctypes.c_uint(1), ctypes.c_uint(WAIT_FOR_ANSWERS), *no_signals)

    def _map(self, parameters: bytearray) -> None:
        submissions, completions = NUMBER.unpack_from(parameters, 0)[0], NUMBER.unpack_from(parameters, 4)[0]
        self._head_at, self._tail_at, mask_at, _, _, _, array_at = PARTS.unpack_from(parameters, SUBMISSIONS_AT)
        answers = PARTS.unpack_from(parameters, COMPLETIONS_AT)
        self._answers_head_at, self._answers_tail_at, answers_mask_at, _, _, self._answers_at, _ = answers
        size = max(array_at + submissions * NUMBER.size, self._answers_at + completions * ANSWER.size)
        self._queues = mmap.mmap(self.descriptor, size, offset=QUEUES)
        self._entries = mmap.mmap(self.descriptor, submissions * ENTRY.size, offset=ENTRIES)
        (self._mask,) = NUMBER.unpack_from(self._queues, mask_at)
        (self._answers_mask,) = NUMBER.unpack_from(self._queues, answers_mask_at)
        for number in range(submissions):  # each place of the queue holds the entry of its own number
            NUMBER.pack_into(self._queues, array_at + number * NUMBER.size, number)
        self._tail = self._answered = 0

    def begin(self, descriptors: Sequence[int]) -> int:
        """Begin to sync these files, and return at once. The answer is how many were begun: the first ones."""
        for number, descriptor in enumerate(descriptors):
            place = (self._tail & self._mask) * ENTRY.size
            ENTRY.pack_into(self._entries, place, FSYNC, 0, 0, descriptor, 0, 0, 0, DATA_ONLY, number)
            self._tail = (self._tail + 1) & WRAP
        NUMBER.pack_into(self._queues, self._tail_at, self._tail)
        count = len(descriptors)
        begun = self._enter(self._call, count, wait_for=False)
        if begun < count:  # the kernel has not looked at the others: take them back
            (self._tail,) = NUMBER.unpack_from(self._queues, self._head_at)
            NUMBER.pack_into(self._queues, self._tail_at, self._tail)
        return max(0, begun)

    def answers(self) -> list[Answer]:
        """Those that are there: each the number of a file in its `begin`, and the error if its sync failed."""
        (end,) = NUMBER.unpack_from(self._queues, self._answers_tail_at)
        found: list[Answer] = []
        while self._answered != end:
            place = self._answers_at + (self._answered & self._answers_mask) * ANSWER.size
            number, result, _ = ANSWER.unpack_from(self._queues, place)
            found.append((number, None if result >= 0 else OSError(-result, os.strerror(-result))))
            self._answered = (self._answered + 1) & WRAP
        if found:
            NUMBER.pack_into(self._queues, self._answers_head_at, self._answered)
        return found

    def wait(self) -> list[Answer]:
        """The same, at least one."""
        while not (found := self.answers()):
            if self._enter(self._slow_call, 0, wait_for=True) < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return found

    def close(self) -> None:
        self._queues.close()
        self._entries.close()
        os.close(self.descriptor)

    def _enter(self, call: Any, begin: int, *, wait_for: bool) -> int:
        return int(call(*self._place, ctypes.c_uint(begin), *(self._waiting if wait_for else self._at_once)))
