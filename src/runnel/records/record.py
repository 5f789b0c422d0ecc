"""One record, and the bytes of the records inside of a batch.

A record holds its offset and time as differences to its batch's, as zigzag varints. So the bytes of a record
stay the same wherever its batch is placed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records.codecs import Buffer

NO_TIMESTAMP = -1
INT32_MAX = 2**31 - 1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1

ATTRIBUTES = b"\x00"  # a record's own attributes, unused by Kafka
NONE = b"\x01"  # the length -1, which stands for None
NO_HEADERS = b"\x00"
REMEMBERED_VARINTS = 16 * 1024

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """What is written and read. A record to be written has no offset yet, and needs no timestamp."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()
    offset: int = -1


class _Varints(dict[int, bytes]):
    """The bytes of a number. Small numbers are remembered, because nearly all of a batch's are small."""

    def __missing__(self, number: int) -> bytes:
        out = bytearray()
        write_varint(out, number)
        encoded = bytes(out)
        if 0 <= number < REMEMBERED_VARINTS:
            self[number] = encoded
        return encoded


_VARINTS = _Varints()


def encode_records(records: Iterable[Record], base_timestamp: int) -> bytes:
    """The bytes of the records, at consecutive offsets.

    It checks no types, because that would cost as much as the encoding. A wrong one ends in the TypeError,
    AttributeError or ValueError of whatever it was used for; `mistake_in` tells which record it was.
    """
    parts: list[bytes] = []
    size = 0
    for delta, (value, key, timestamp, headers, _) in enumerate(records):
        time = _VARINTS[timestamp - base_timestamp]
        place = _VARINTS[delta]
        if key is None:
            key_length, key = NONE, b""
        else:
            key_length = _VARINTS[len(key)]
        if value is None:
            value_length, value = NONE, b""
        else:
            value_length = _VARINTS[len(value)]
        rest = encode_headers(headers) if headers else NO_HEADERS
        numbers = len(time) + len(place) + len(key_length) + len(value_length)
        length = len(ATTRIBUTES) + numbers + len(key) + len(value) + len(rest)
        prefix = _VARINTS[length]
        parts += (prefix, ATTRIBUTES, time, place, key_length, key, value_length, value, rest)
        size += len(prefix) + length
    if size > INT32_MAX:
        raise InvalidBatch(f"records of {size:,} bytes, Kafka's limit is 2 GiB", hint="send smaller batches")
    encoded = b"".join(parts)
    if len(encoded) != size:
        raise TypeError("a key or value whose length is not its number of bytes")
    return encoded


def encode_headers(headers: Headers) -> bytes:
    parts = [_VARINTS[len(headers)]]
    for name, value in headers:
        encoded_name = name.encode()
        parts += (_VARINTS[len(encoded_name)], encoded_name)
        if value is None:
            parts.append(NONE)
        else:
            parts += (_VARINTS[len(value)], value)
    encoded = b"".join(parts)
    if len(encoded) != sum(map(len, parts)):
        raise TypeError("a header's value whose length is not its number of bytes")
    return encoded


def decode_records(
    data: Buffer, count: int, base_offset: int, base_timestamp: int, append_time: int | None = None
) -> list[Record]:
    """The `count` records in `data`; their time is `append_time` if the log has set it for all of them."""
    data = bytes(data)
    size = len(data)
    make_record = Record._make  # skips the call in Python that Record(...) makes
    records: list[Record] = []
    position = 0
    last_delta = -1
    try:
        for _ in range(count):
            length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > size:
                raise CorruptBatch(f"record of {counted(length, 'byte')} in {size - position:,} that are left")
            time_delta, position = read_varint(data, position + len(ATTRIBUTES))
            offset_delta, position = read_varint(data, position)
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            headers, position = _read_headers(data, position, end) if data[position] else ((), position + 1)
            if position != end:
                raise CorruptBatch(f"record of {counted(length, 'byte')} whose fields have {length + position - end:,}")
            if offset_delta <= last_delta:
                raise CorruptBatch(f"record with offset delta {offset_delta} after {last_delta}")
            last_delta = offset_delta
            time = base_timestamp + time_delta if append_time is None else append_time
            if not INT64_MIN <= time <= INT64_MAX:
                raise CorruptBatch(f"record with timestamp {time}, which is more than 64 bits")
            records.append(make_record((value, key, time, headers, base_offset + offset_delta)))
    except IndexError as error:
        raise CorruptBatch("records end inside of a field") from error
    if position != size:
        raise CorruptBatch(f"{counted(size - position, 'byte is', 'bytes are')} left after {counted(count, 'record')}")
    return records


def write_varint(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it. IndexError if the bytes end before it does."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        value = (first & 0x7F) | (second << 7)
        return (value >> 1) ^ -(value & 1), position + 2
    return _read_long_varint(data, position)


def _read_long_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if byte >= 0x80 or value > UINT64_MAX:
        raise CorruptBatch("a number of more than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    first = data[position]
    if first & 0x81:  # -1 for None, or a length of several bytes
        length, position = read_varint(data, position)
        if length == -1:
            return None, position
    else:
        length = first >> 1
        position += 1
    stop = position + length
    if length < 0 or stop > end:
        raise CorruptBatch(f"a field of {counted(length, 'byte')} in a record with {max(0, end - position):,} left")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise CorruptBatch(f"{counted(count, 'header')} in {counted(max(0, end - position), 'byte')}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        if name is None:
            raise CorruptBatch("a header without a name")
        # No broker looks at it, and the record is a good one. Kafka's own clients read U+FFFD there, too.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position
