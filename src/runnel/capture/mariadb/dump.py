"""The log as the server sends it to a replica: raw events in.

The server is told where to begin by the last transaction of each domain, finds the place in its files by itself, and
sends a heartbeat when it has nothing else to send. It keeps nothing for us.
"""

from __future__ import annotations

import select
import time
import zlib
from collections.abc import Sequence
from struct import pack
from typing import Any, Final

from runnel.capture.errors import PositionLost
from runnel.capture.mariadb.connections import Address, ask, ask_one, literal
from runnel.capture.mariadb.errors import DatabaseRefused, DatabaseUnreachable
from runnel.errors import RunnelError

BINLOG_DUMP, REGISTER = 0x12, 0x15
FIRST: Final = 4  # where a file's events begin
LONGEST: Final = 0xFFFFFF  # of a packet; a longer one goes on in the next
EVENTS: Final = 4096
BYTES: Final = 4 * 1024 * 1024
RECEIVE: Final = 256 * 1024
HEARTBEAT_SECONDS: Final = 1.0
STALLED_SECONDS: Final = 60.0
CAPABILITY: Final = 4  # of a replica that knows global transaction ids
FATAL: Final = 1236
OK, FAILED = 0x00, 0xFF
KIND, FORMAT = 4, 15  # where an event's kind is; the kind of a file's first one
CHECKSUM: Final = 4  # bytes


class Dump:
    """From behind the transactions of `start` on, or from the beginning of a `file`."""

    def __init__(self, address: Address, server_id: int, start: str = "", *, file: str = "") -> None:
        self._address = address
        self._buffer = bytearray()
        self._has_checksums = False
        self._connection = address.connect(anywhere=bool(file))
        try:
            with address.telling():
                self._start(server_id, start, file)
        except BaseException:
            self.close()
            raise
        self._socket: Any = self._connection._sock
        self._socket.settimeout(STALLED_SECONDS)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def read(self, seconds: float) -> Sequence[bytes]:
        """The next events, whole; none if nothing comes for so long."""
        deadline = time.monotonic() + seconds
        with self._address.telling():
            while not (found := self._available()):
                left = deadline - time.monotonic()
                if left <= 0 or not self._receive(left):
                    break
            return found

    def close(self) -> None:
        """Without a word to the server, which would wait for it to end."""
        self._connection._force_close()

    def _start(self, server_id: int, start: str, file: str) -> None:
        settings = {
            "master_heartbeat_period": str(round(HEARTBEAT_SECONDS * 1_000_000_000)),
            "master_binlog_checksum": "@@GLOBAL.binlog_checksum",
            "mariadb_slave_capability": str(CAPABILITY),
        }
        if not file:
            settings |= {
                "slave_connect_state": literal(start),
                "slave_gtid_strict_mode": "0",
                "slave_gtid_ignore_duplicates": "0",
            }
        ask(self._connection, "SET " + ", ".join(f"@{name} = {value}" for name, value in settings.items()))
        (checksum,) = ask_one(self._connection, "SELECT @master_binlog_checksum")
        self._has_checksums = checksum == "CRC32"
        name = self._address.application.encode()[:60]
        told = pack("<I", server_id) + bytes([len(name)]) + name + b"\0\0" + pack("<HII", 0, 0, 0)
        self._connection._execute_command(REGISTER, told)
        self._connection._read_packet()
        self._connection._execute_command(BINLOG_DUMP, pack("<IHI", FIRST, 0, server_id) + file.encode())

    def _available(self) -> list[bytes]:
        found: list[bytes] = []
        size = at = 0
        buffer = self._buffer
        while len(found) < EVENTS and size < BYTES:
            packet, behind = _packet(buffer, at)
            if packet is not None:
                at = behind
                found.append(self._event(packet))
                size += len(packet)
            elif not (found and self._receive(0)):
                break
        del buffer[:at]
        return found

    def _receive(self, seconds: float) -> bool:
        if not self._is_pending() and not self._poll.poll(seconds * 1000):
            return False
        data = self._socket.recv(RECEIVE)
        if not data:
            raise DatabaseUnreachable(self._address.shown, "the server ended the connection")
        self._buffer += data
        return True

    def _is_pending(self) -> bool:
        """With TLS, bytes may be here that no poll tells of."""
        pending = getattr(self._socket, "pending", None)
        return bool(pending is not None and pending())

    def _event(self, packet: bytes) -> bytes:
        if packet[0] == OK:
            return self._checked(packet[1:])
        if packet[0] == FAILED:
            raise self._failed(int.from_bytes(packet[1:3], "little"), packet[9:].decode("utf-8", "replace"))
        raise DatabaseUnreachable(self._address.shown, "the server ended the replication")

    def _checked(self, event: bytes) -> bytes:
        """Without its checksum. Each file of the log has them or not, and its first event says so."""
        if event[KIND] == FORMAT:
            self._has_checksums = bool(event[-CHECKSUM - 1])
        if not self._has_checksums:
            return event
        content = event[:-CHECKSUM]
        if zlib.crc32(content) != int.from_bytes(event[-CHECKSUM:], "little"):
            raise DatabaseUnreachable(self._address.shown, "an event of its log came broken")
        return content

    def _failed(self, number: int, reason: str) -> RunnelError:
        if number == FATAL and ("purged" in reason or "not in the master's binlog" in reason):
            return PositionLost(self._address.shown, f"its log does not have our position any more: {reason}")
        if number == FATAL:
            return DatabaseRefused(self._address.shown, reason, hint="this is unexpected: please report it")
        if number == 1227:
            hint = "run GRANT REPLICATION SLAVE ON *.* for this user"
            return DatabaseRefused(self._address.shown, reason, hint=hint)
        return DatabaseUnreachable(self._address.shown, f"{reason} ({number})")


def _packet(buffer: bytearray, at: int) -> tuple[bytes | None, int]:
    """The next packet, if all of it is here, and the place behind it."""
    places: list[tuple[int, int]] = []
    while at + 4 <= len(buffer):
        length = int.from_bytes(buffer[at : at + 3], "little")
        start, at = at + 4, at + 4 + length
        if at > len(buffer):
            break
        places.append((start, at))
        if length < LONGEST:
            return b"".join(bytes(buffer[start:end]) for start, end in places), at
    return None, at
