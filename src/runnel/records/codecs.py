"""The compressions of a record batch, over bytes.

Snappy is written in xerial's framing, which every Kafka client reads, and read in that framing or raw
(librdkafka and Go clients write it raw). LZ4 frames have independent blocks: Java clients refuse linked ones.

Decompression has a limit, because a few kilobytes can claim to be many gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import cramjam

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch

Buffer = bytes | bytearray | memoryview
DECOMPRESSED_LIMIT = 256 * 1024 * 1024
GUESS = 8  # how many times larger the plain records are, at first guess
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
LENGTH = struct.Struct(">i")
NO_ROOM = "failed to write whole buffer"  # how cramjam says that the output is larger than the buffer


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer) -> bytes:
    try:
        compress_with_codec = _COMPRESS[codec]
    except KeyError as error:
        names = ", ".join(f"Codec.{known.name}" for known in Codec)
        raise InvalidBatch(f"unknown codec {codec!r}", hint=f"expected one of {names}") from error
    return compress_with_codec(data)


def decompress(codec: Codec, data: Buffer, *, limit: int = DECOMPRESSED_LIMIT) -> Buffer:
    """The plain bytes; CorruptBatch when they cannot be had, InvalidBatch when they are more than `limit`."""
    try:
        if codec is Codec.NONE:
            return data
        if codec is Codec.SNAPPY:
            return _snappy_plain(data, limit)
        return _grow_until_it_fits(_DECOMPRESS_INTO[codec], codec, data, limit)
    except (cramjam.DecompressionError, struct.error) as error:
        raise CorruptBatch(f"{codec.name.lower()} data cannot be decompressed: {error}") from error


def _lz4(data: Buffer) -> bytes:
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # the only one of cramjam's that takes no other buffer
    return bytes(compressor.finish())


def _snappy_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK]))
        parts += (LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _snappy_plain(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    blocks = _xerial_blocks(view) if view[: len(XERIAL_MAGIC)] == XERIAL_MAGIC else iter([view])
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        size += cramjam.snappy.decompress_raw_len(block)
        _refuse_over(Codec.SNAPPY, size, limit)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
    return b"".join(parts)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position = len(XERIAL_HEADER)
    if len(view) < position:
        raise CorruptBatch("snappy data ends inside of its header")
    while position < len(view):
        (length,) = LENGTH.unpack_from(view, position)
        position += LENGTH.size
        if not 0 < length <= len(view) - position:
            raise CorruptBatch(f"snappy block of {counted(length, 'byte')} in {len(view) - position:,} that are left")
        yield view[position : position + length]
        position += length


def _grow_until_it_fits(
    decompress_into: Callable[[Any, Any], int], codec: Codec, data: Buffer, limit: int
) -> memoryview:
    room = min(limit, max(4096, GUESS * len(data)))
    while True:
        output = bytearray(room)
        try:
            return memoryview(output)[: decompress_into(data, output)]
        except cramjam.DecompressionError as error:
            if NO_ROOM not in str(error):
                raise
            _refuse_over(codec, room + 1, limit)
            room = min(limit, room * GUESS)


def _refuse_over(codec: Codec, size: int, limit: int) -> None:
    if size > limit:
        raise InvalidBatch(
            f"{codec.name.lower()} data holds more than {limit:,} bytes when decompressed",
            hint="send smaller batches",
        )


_COMPRESS: dict[Codec, Callable[[Buffer], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    Codec.SNAPPY: _snappy_xerial,
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_DECOMPRESS_INTO: dict[Codec, Callable[[Any, Any], int]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}
