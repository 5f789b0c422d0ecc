"""The frames of a connection to a broker, as they come: a length, and so many bytes."""

from __future__ import annotations

import socket
import time

from runnel.counted import counted
from runnel.protocol.frames import LENGTH

LARGEST_ANSWER = 64 * 1024 * 1024
TLS_ALERT = b"\x15\x03"  # how a broker that expects TLS refuses what is none


class AsksForTls(OSError):
    """A broker that expects TLS refuses what is none."""


def receive(connection: socket.socket, deadline: float | None) -> bytearray:
    """The next answer, without its length; OSError if there is none, TimeoutError if it comes too late."""
    head = _exactly(connection, LENGTH.size, deadline)
    if head.startswith(TLS_ALERT):
        raise AsksForTls
    (size,) = LENGTH.unpack(head)
    if not LENGTH.size <= size <= LARGEST_ANSWER:
        raise OSError(f"an answer of {counted(size, 'byte')}")
    return _exactly(connection, size, deadline)


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    room = memoryview(data)
    while room:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        received = connection.recv_into(room)
        if not received:
            raise OSError("the broker closed the connection")
        room = room[received:]
    return data


def reason_of(error: OSError) -> str:
    """In words: those of the system begin with a capital."""
    return error.strerror.lower() if error.strerror else str(error)
