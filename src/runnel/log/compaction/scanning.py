"""The bytes of a batch's records, without making records of them: keys, tombstones, and where each record ends.

A round looks at every record once or twice, so this is where its time goes: the loops are written out.

Records have the same key exactly if `keys_of` gives them the same number. A short key is its own number, with its
length in front. Of a longer one the number is a digest of 128 bits: two keys with the same digest would have to be
made with intent, and BLAKE2 with a secret that is drawn anew for each process leaves no way to.
"""

from __future__ import annotations

import os
from hashlib import blake2b

from runnel.counted import counted
from runnel.errors import CorruptBatch
from runnel.records.record import read_varint, write_varint

LONGEST_PLAIN = 21  # with its length in front; the numbers of all of these have 168 bits at most
# By the first byte of a key's length: the size of a plain key, its length included; 0 if it is none.
PLAIN_SIZE = bytes(0 if byte & 1 or byte // 2 >= LONGEST_PLAIN else 1 + byte // 2 for byte in range(256))
DIGEST = 16
DIGESTED = 0xFF << 168  # so that a digest is not the number of a short key
SECRET = os.urandom(16)


def keys_of(body: bytes, count: int, keys: list[int | None], tombstones: list[int]) -> None:
    """Add the key of each record to `keys`, None for a record without one, and to `tombstones` the numbers in `keys`
    of those records that have a key and no value. CorruptBatch if the bytes are no `count` records."""
    size = len(body)
    number_of, plain_size = int.from_bytes, PLAIN_SIZE
    add = keys.append
    position = 0
    try:
        for _ in range(count):
            length = body[position]
            if length < 0x80:
                start = position + 1
                position = start + (length >> 1)
            else:
                second = body[position + 1]
                if second < 0x80:
                    start = position + 2
                    position = start + (((length & 0x7F) | (second << 7)) >> 1)
                else:
                    length, start = read_varint(body, position)
                    position = start + length
            start += 1  # the attributes
            while body[start] > 0x7F:  # the timestamp
                start += 1
            start += 1
            while body[start] > 0x7F:  # the offset
                start += 1
            start += 1
            length = plain_size[body[start]]
            if length:
                end = start + length
                add(number_of(body[start:end]))
                if body[end] == 1:
                    tombstones.append(len(keys) - 1)
            else:
                end = _add_long_or_none(body, start, keys)
                if body[end] == 1 and keys[-1] is not None:
                    tombstones.append(len(keys) - 1)
            if end >= position:
                raise CorruptBatch("a key that is longer than its record")
    except IndexError as error:
        raise CorruptBatch("records end inside of a field") from error
    if position != size:
        raise CorruptBatch(f"{counted(count, 'record has', 'records have')} {counted(position, 'byte')}, not {size:,}")


def _add_long_or_none(body: bytes, start: int, keys: list[int | None]) -> int:
    """Add the key whose length stands at `start`; the answer is where it ends."""
    length = body[start]
    if length <= 0x7F and not length & 1:
        end = start + 1 + (length >> 1)
        keys.append(_digest(body[start:end]))
        return end
    length, begin = read_varint(body, start)
    if length < -1:
        raise CorruptBatch(f"a key of {counted(length, 'byte')}")
    end = begin + max(0, length)
    keys.append(None if length == -1 else _digest(body[start:end]))
    return end


def _digest(key: bytes) -> int:
    return DIGESTED | int.from_bytes(blake2b(key, digest_size=DIGEST, key=SECRET).digest())


def ends_of(body: bytes, count: int) -> list[int]:
    """Where each record ends; the bytes were looked at by `keys_of` before."""
    ends: list[int] = []
    position = 0
    for _ in range(count):
        length = body[position]
        if length < 0x80:
            position += 1 + (length >> 1)
        elif (second := body[position + 1]) < 0x80:
            position += 2 + (((length & 0x7F) | (second << 7)) >> 1)
        else:
            length, position = read_varint(body, position)
            position += length
        ends.append(position)
    return ends


def time_delta_of(record: bytes) -> int:
    """How far after its batch's base timestamp this record's is."""
    _, position = read_varint(record, 0)
    return read_varint(record, position + 1)[0]


def shifted(record: bytes, shift: int) -> bytes:
    """The same record for a batch whose base timestamp is `shift` earlier."""
    _, start = read_varint(record, 0)
    delta, rest = read_varint(record, start + 1)
    time = bytearray()
    write_varint(time, delta + shift)
    changed = bytearray()
    write_varint(changed, 1 + len(time) + len(record) - rest)
    return bytes(changed) + record[start : start + 1] + bytes(time) + record[rest:]
