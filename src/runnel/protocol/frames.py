"""What stands around a message: the length before it, and the header in front of its body."""

from __future__ import annotations

import struct
from typing import NamedTuple

from runnel.counted import counted
from runnel.errors import MalformedRequest

LENGTH = struct.Struct(">i")
FIXED = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
ANSWER_HEAD = struct.Struct(">ii")
NO_TAGS = b"\x00"


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int  # the position after it: the body begins here, unless tags are in between


def parse_header(data: bytes, start: int, end: int) -> RequestHeader:
    """The header of the request from `start` to `end`, as all versions have it.

    The client id is a plain string even where the rest is compact.
    """
    if end - start < FIXED.size:
        raise MalformedRequest(f"a request of {counted(end - start, 'byte')} is shorter than its header")
    api_key, version, correlation_id, length = FIXED.unpack_from(data, start)
    start += FIXED.size
    stop = start + max(length, 0)
    if length < -1 or stop > end:
        raise MalformedRequest(f"a client id of {counted(length, 'byte')} reaches beyond the request")
    client_id = None if length == -1 else data[start:stop].decode("utf-8", "replace")
    return tuple.__new__(RequestHeader, (api_key, version, correlation_id, client_id, stop))  # without a call in Python


def skip_tags(frame: bytes | bytearray, position: int) -> int:
    """The position after the tagged fields that begin at `position`. None of them means anything to us."""
    try:
        if frame[position] == 0:
            return position + 1
        count, position = unsigned_varint(frame, position)
        for _ in range(count):
            _, position = unsigned_varint(frame, position)
            size, position = unsigned_varint(frame, position)
            position += size
            if position > len(frame):
                raise IndexError
    except IndexError:
        raise MalformedRequest("the tagged fields of its header reach beyond the request") from None
    return position


def unsigned_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedRequest("a variable-length number of more than five bytes")


def answer_head(correlation_id: int, size: int, *, flexible: bool) -> bytes:
    """What comes before a body of `size` bytes."""
    if flexible:
        return ANSWER_HEAD.pack(size + 5, correlation_id) + NO_TAGS
    return ANSWER_HEAD.pack(size + 4, correlation_id)
