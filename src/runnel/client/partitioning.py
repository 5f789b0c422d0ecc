"""Which partition a key belongs to: what Kafka's own clients in Java choose, murmur2, for a whole column at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[np.uint32]

SEED = 0x9747B28C
FACTOR = np.uint32(0x5BD1E995)
SHIFT = np.uint32(24)
POSITIVE = np.uint32(0x7FFFFFFF)


def partitions_of(keys: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """Of each key its partition; keys that are null get -1."""
    lengths = _lengths(keys)
    hashes = np.zeros(len(keys), np.uint32)
    data, starts = _data(keys)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _hashed(data, starts[rows], int(length))
    chosen = (hashes & POSITIVE).astype(np.int64) % count
    chosen[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return chosen


def _hashed(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], length: int) -> Numbers:
    """Keys of one length, each row of a matrix a key."""
    with np.errstate(over="ignore"):
        found = np.full(len(starts), np.uint32(SEED ^ length), np.uint32)
        words = length // 4
        for word in range(words):
            mixed = _word(data, starts + 4 * word) * FACTOR
            mixed ^= mixed >> SHIFT
            found = (found * FACTOR) ^ (mixed * FACTOR)
        rest = length % 4
        if rest:
            for place in reversed(range(rest)):
                found ^= data[starts + 4 * words + place].astype(np.uint32) << np.uint32(8 * place)
            found *= FACTOR
        found ^= found >> np.uint32(13)
        found *= FACTOR
        return found ^ (found >> np.uint32(15))


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Numbers:
    """Four bytes from each place, the first one the lowest."""
    found = np.zeros(len(at), np.uint32)
    for place in range(4):
        found |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return found


def _lengths(keys: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.binary_length(keys), 0).to_numpy(zero_copy_only=False), np.int64)


def _data(keys: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    _, offsets, data = keys.buffers()
    starts = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys)].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return content, starts
