"""Which records of the dirty part are the newest of their key: the first half of a round.

The dirty part is read from its end to its start, so that a record is the newest exactly if its key was not met before.
What is remembered of a key is a number in a set, and of a record one byte. That is a third of what a mapping from keys
to offsets would take, and the second half of a round looks up no key of the dirty part again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runnel.errors import InvalidBatch
from runnel.files import File
from runnel.log.compaction.keys import BYTES_PER_KEY, Keys
from runnel.log.compaction.scanning import keys_of
from runnel.log.compaction.transactions import Transactions
from runnel.log.compaction.windows import Window, batches_in
from runnel.records import BatchHeader, decompress
from runnel.records.batch import HEADER_SIZE

DEAD, LIVE, TOMBSTONE, UNREADABLE = 0, 1, 2, 3  # fates of a record


class Dirty(NamedTuple):
    """A piece of the dirty part; `first` is the number of its first record."""

    file: File
    window: Window
    first: int


class TooManyKeys(Exception):
    """The keys do not fit into the memory that was granted."""


class Newest:
    """The keys of the dirty part, and the fate of each of its records, in their order.

    `capacity` keys fit into the memory that was granted, and so do the fates of `most_records`.
    """

    def __init__(self, buffer_bytes: int) -> None:
        self.capacity = buffer_bytes // BYTES_PER_KEY
        self.most_records = max(self.capacity, buffer_bytes // 4)
        self.keys = Keys()
        self.fates = bytearray()

    def find(self, dirty: list[Dirty], transactions: Transactions, pace: Callable[[], None]) -> None:
        """TooManyKeys if they do not fit; then nothing is known."""
        self.keys = Keys()
        self.fates = bytearray(sum(piece.window.records for piece in dirty))
        for piece in reversed(dirty):
            self._look_into(piece, transactions)
            if len(self.keys) > self.capacity:
                self.keys = Keys()
                raise TooManyKeys
            pace()

    def _look_into(self, piece: Dirty, transactions: Transactions) -> None:
        keys: list[int | None] = []
        tombstones: list[int] = []
        unreadable: list[range] = []
        for _, header, batch in batches_in(piece.file, piece.window):
            if header.is_control:
                continue
            count = len(keys)
            if transactions.is_aborted(header) or not _add_keys(header, batch, keys, tombstones):
                if not transactions.is_aborted(header):
                    unreadable.append(range(count, count + header.count))
                del keys[count:]
                keys.extend([None] * header.count)
        fates, first = self.fates, piece.first
        last = dict(zip(keys, range(first, first + len(keys)), strict=True))
        last.pop(None, None)
        new = self.keys.add(last)
        for number in last.values() if len(new) == len(last) else map(last.__getitem__, new):
            fates[number] = LIVE
        for number in tombstones:
            if fates[first + number]:
                fates[first + number] = TOMBSTONE
        for numbers in unreadable:
            fates[first + numbers.start : first + numbers.stop] = bytes([UNREADABLE]) * len(numbers)


def _add_keys(header: BatchHeader, batch: bytes, keys: list[int | None], tombstones: list[int]) -> bool:
    """False if nobody can read its records: then `keys` may have some of them."""
    known = len(tombstones)
    try:
        keys_of(plain_body(header, batch), header.count, keys, tombstones)
    except InvalidBatch:
        del tombstones[known:]
        return False
    return True


def plain_body(header: BatchHeader, batch: bytes) -> bytes:
    """The bytes of the records, decompressed; InvalidBatch if they cannot be had."""
    body = batch[HEADER_SIZE:]
    return bytes(decompress(header.codec, body)) if header.attributes & 7 else body
