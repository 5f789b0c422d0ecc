"""The aborted transactions whose markers stand in a segment, in Kafka's file format.

`.txnindex`   version i16 = 0 | producer id i64 | first offset i64 | last offset i64, which is the marker's
              | last stable offset i64, as it was from the marker on

Last offsets rise. New entries stay in memory until `save`; there is no file as long as there is no entry. The snapshot
of producers at the segment's end says how many entries there are, and their checksum.

A transaction that began before some offset can be aborted much later. But one that ends after an entry begins at the
entry's last stable offset or after it: there a search can stop.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from runnel.files import replace_file
from runnel.log.open_files import OpenFiles
from runnel.log.producers import IndexContent

SUFFIX = ".txnindex"
ENTRY = struct.Struct(">hqqqq")
VERSION = 0
CHUNK = 64  # entries that a search reads at once

EMPTY = IndexContent(0, 0)  # the checksum of nothing is 0


class Aborted(NamedTuple):
    """An aborted transaction: its producer's transactional batches from the first offset up to the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


class Entry(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int

    def encode(self) -> bytes:
        return ENTRY.pack(VERSION, *self)


class TransactionIndex:
    """One thread changes it while others search. Both parts, the entries that are in the file and the rest in memory,
    are replaced by one assignment. It is `known` when its entries were read or made; before, it has none.

    `stable_end` is the last stable offset at the end of the segment: transactions that end later begin there or after
    it. It is 0 while that is not known.
    """

    __slots__ = ("_files", "_longer", "_parts", "known", "path", "stable_end")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self._parts = (EMPTY, bytearray())
        self._longer = False  # whether the file holds more than is believed of it
        self.path = path
        self.known = False
        self.stable_end = 0

    def __len__(self) -> int:
        saved, memory = self._parts
        return saved.entries + len(memory) // ENTRY.size

    @property
    def content(self) -> IndexContent:
        return IndexContent(len(self), crc32c(self._parts[1], self._parts[0].checksum))

    @property
    def saved(self) -> bool:
        return not self._parts[1] and not self._longer

    # --- the committer's side

    def believable(self, content: IndexContent | None, before: int) -> IndexContent | None:
        """Those entries of the file that it should hold, by the word of a snapshot; None if it does not hold them.

        Without such a word it is all those for markers before an offset, if they can be right.
        """
        held = self._held(content.entries if content is not None else None)
        if content is not None:
            return content if len(held) == content.entries * ENTRY.size and crc32c(held) == content.checksum else None
        if not _is_plausible(held):
            return None
        kept = sum(entry.last_offset < before for entry in decode_entries(held)) * ENTRY.size
        return IndexContent(kept // ENTRY.size, crc32c(held[:kept]))

    def _held(self, count: int | None) -> bytes:
        """So many entries of the file, or all of them; none if it has fewer."""
        if count == 0 or not self._files.files.exists(self.path):
            return b""
        file = self._files.get(self.path)
        size = file.size()
        wanted = size // ENTRY.size * ENTRY.size if count is None else count * ENTRY.size
        return file.read(wanted, 0) if 0 <= wanted <= size else b""

    def begin(self, saved: IndexContent = EMPTY, entries: Iterable[Entry] = ()) -> None:
        """Forget what there was, and begin with what is believed of the file, and these."""
        exists = self._files.files.exists(self.path)
        size = self._files.get(self.path).size() if exists else 0
        self._longer = size > saved.entries * ENTRY.size or (exists and not saved.entries)
        self._parts = (saved, bytearray(b"".join(entry.encode() for entry in entries)))
        self.known = True

    def add(self, entry: Entry) -> None:
        self._parts[1].extend(entry.encode())

    def cut_from(self, offset: int) -> None:
        """Forget the markers at `offset` and after it. They were never synced, so the file knows nothing of them."""
        saved, memory = self._parts
        kept = [entry for entry in decode_entries(bytes(memory)) if entry.last_offset < offset]
        self._parts = (saved, bytearray(b"".join(entry.encode() for entry in kept)))

    def save(self) -> None:
        """Bring the file up to date, synced; no file is made for no entries."""
        if self.saved:
            return
        (saved, _), memory = self._parts
        content = self.content
        if saved:
            file = self._files.get(self.path)
            file.write([bytes(memory)], saved * ENTRY.size)
            file.truncate(content.entries * ENTRY.size)
            file.sync()
        elif memory:
            replace_file(self._files.files, self.path, bytes(memory))
            self._files.forget(self.path)
        else:
            self._files.files.remove(self.path)
            self._files.forget(self.path)
        self._longer = False
        self._parts = (content, bytearray())

    # --- the readers' side

    def search(self, first_offset: int, end_offset: int) -> tuple[list[Aborted], bool]:
        """Those that concern a reader of `first_offset` up to before `end_offset`, and whether later segments can
        hold no more of them."""
        found: list[Aborted] = []
        for entry in self._entries_from(self._number_of(first_offset)):
            if entry.first_offset < end_offset:
                found.append(Aborted(*entry[:3]))
            if entry.stable_offset >= end_offset:
                return found, True
        return found, self.stable_end >= end_offset

    def entries(self) -> list[Entry]:
        return list(self._entries_from(0))

    def _number_of(self, offset: int) -> int:
        """The number of entries whose markers stand before the offset."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            entries = self._read(middle, 1)
            if entries and entries[0].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entries_from(self, number: int) -> Iterator[Entry]:
        while True:
            entries = self._read(number, CHUNK)
            if not entries:
                return
            yield from entries
            number += len(entries)

    def _read(self, number: int, count: int) -> list[Entry]:
        """At most `count` entries from this number on; none behind the last one."""
        (saved, _), memory = self._parts
        if number < saved:
            count = min(count, saved - number)
            held = self._files.get(self.path).read(count * ENTRY.size, number * ENTRY.size)
        else:
            start = (number - saved) * ENTRY.size
            held = bytes(memory[start : start + count * ENTRY.size])
        return decode_entries(held)


def decode_entries(held: bytes) -> list[Entry]:
    """The whole entries in these bytes."""
    whole = len(held) // ENTRY.size * ENTRY.size
    return [Entry(*fields[1:]) for fields in ENTRY.iter_unpack(held[:whole])]


def _is_plausible(held: bytes) -> bool:
    last = -1
    for version, _, first_offset, last_offset, stable_offset in ENTRY.iter_unpack(held):
        if version != VERSION or not (0 <= first_offset < last_offset and last < last_offset >= stable_offset - 1):
            return False
        last = last_offset
    return True
