"""A replication connection that reads a slot: raw messages in, and word back of how far they are safe.

The server forgets what is before the position that it is told was flushed. It is told so by `confirm` only. How far
was received is told, too: the server need not ask for it, and tells how far it has come only when that is news. Its
question whether we are still there is answered while `read` or `confirm` is called.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from struct import Struct
from typing import Final

from psycopg import pq
from psycopg.errors import error_from_result

from runnel.capture.postgres.connections import Address
from runnel.capture.postgres.errors import DatabaseUnreachable, SlotInUse
from runnel.capture.postgres.pgoutput import EPOCH

LOG, KEEPALIVE = b"wk"
HEADER: Final = 25  # bytes before a message of the log: its kind, its place, the log's end, the time
MESSAGES: Final = 4096
BYTES: Final = 4 * 1024 * 1024
REPORT_SECONDS: Final = 10.0
STREAMS_FROM: Final = 14  # the version that sends transactions before their commit
IN_USE: Final = "55006"
IN_USE_SECONDS: Final = 5.0

_PLACE: Final = Struct(">QQq").unpack_from
_KEEPALIVE: Final = Struct(">QqB").unpack_from
_REPORT: Final = Struct(">cQQQqB").pack


def place_of(data: bytes) -> tuple[int, int]:
    """Where in the log the message is that begins behind the header, and when it was sent, since 1970."""
    lsn, _, micros = _PLACE(data, 1)
    return lsn, micros + EPOCH


def end_of(data: bytes) -> int:
    """How far the server has come, of a keepalive."""
    return int(_KEEPALIVE(data, 1)[0])


class Replication:
    def __init__(self, address: Address, slot: str, publication: str, lsn: int, *, in_progress: bool = False) -> None:
        """`in_progress`: large transactions come in pieces before they are committed, see `in_progress`."""
        self._address = address
        self._flushed = self._received = lsn
        self._reported = time.monotonic()
        self._connection = address.connect(replication=True)
        self._pgconn = self._connection.pgconn
        try:
            with address.telling():
                self._start(slot, publication, lsn, in_progress=in_progress)
        except BaseException:
            self.close()
            raise

    def read(self, seconds: float) -> Sequence[bytes]:
        """The next messages of the log and keepalives, whole; none if nothing comes for so long."""
        with self._address.telling():
            deadline = time.monotonic() + seconds
            while not (found := self._available()):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self.report_if_due()
                if self._is_ready(select.POLLIN, min(left, REPORT_SECONDS)):
                    self._pgconn.consume_input()
            self.report_if_due()
            return found

    def confirm(self, lsn: int) -> None:
        """Of a stream that was closed nothing is told any more: the next one does."""
        if lsn > self._flushed and not self._connection.closed:
            self._flushed = lsn
            with self._address.telling():
                self._report()

    def close(self) -> None:
        self._connection.close()

    def _start(self, slot: str, publication: str, lsn: int, *, in_progress: bool) -> None:
        version = self._pgconn.server_version // 10_000
        options = {
            # 15 knows up to 3; what we ask for is the same in all of them
            "proto_version": "4" if version >= 16 else "3" if version == 15 else "2" if version == 14 else "1",
            "publication_names": '"' + publication.replace('"', '""') + '"',
            "messages": "true",
        }
        if in_progress and version >= STREAMS_FROM:
            options["streaming"] = "on"
        listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} ({listed})'
        deadline = time.monotonic() + IN_USE_SECONDS
        while True:
            result = self._pgconn.exec_(command.encode())
            if result.status == pq.ExecStatus.COPY_BOTH:
                return
            error = error_from_result(result)
            if error.sqlstate != IN_USE:
                raise error
            if time.monotonic() > deadline:
                raise SlotInUse(self._address.shown, slot, " ".join(str(error).split()))
            time.sleep(0.05)  # the server lets go of a reader that died when it notices

    def _available(self) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        last = b""
        get = self._pgconn.get_copy_data
        while len(found) < MESSAGES and size < BYTES:
            length, view = get(1)
            if length > 0:
                data = bytes(view)
                if data[0] == LOG:
                    last = data
                else:
                    self._take(data)
                found.append(data)
                size += length
            elif length == 0:
                if not self._is_ready(select.POLLIN, 0):
                    break
                self._pgconn.consume_input()
            else:
                raise self._ended()
        if last:
            self._received = max(self._received, place_of(last)[0])
        return found

    def _is_ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._pgconn.socket, event)
        return bool(poll.poll(seconds * 1000))

    def _take(self, data: bytes) -> None:
        if data[0] == KEEPALIVE:
            lsn, _, is_asked = _KEEPALIVE(data, 1)
            self._received = max(self._received, lsn)
            if is_asked:
                self._report()

    def _ended(self) -> Exception:
        result = self._pgconn.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return error_from_result(result)
        return DatabaseUnreachable(self._address.shown, "the server ended the replication")

    def report_if_due(self) -> None:
        """For whoever does not read for a while: a server that hears nothing ends the connection."""
        if time.monotonic() - self._reported >= REPORT_SECONDS:
            with self._address.telling():
                self._report()

    def _report(self) -> None:
        now = int(time.time() * 1_000_000) - EPOCH
        self._pgconn.put_copy_data(_REPORT(b"r", self._received, self._flushed, self._flushed, now, 0))
        while self._pgconn.flush():
            self._is_ready(select.POLLOUT, REPORT_SECONDS)
        self._reported = time.monotonic()


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)
