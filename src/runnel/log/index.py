"""The two sparse indexes of a segment, in Kafka's file formats.

`.index`      relative offset i32, position i32: the last offset of the batch at that position
`.timeindex`  timestamp i64, relative offset i32: the largest timestamp up to the batch with that last offset;
              timestamps strictly increase

An index can be rebuilt from its segment, so it has no checksum: a lookup that leads to the wrong place is noticed
there, and the index is rebuilt. New entries stay in memory until `save`; the saved ones are read from the file when
they are asked for. So opening an index costs the same whatever its size.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from runnel.files import replace_file
from runnel.log.open_files import OpenFiles


class Entries:
    """Entries of a fixed shape: the first ones in a file, the rest in memory.

    One thread changes them while others look up. Both parts are replaced by one assignment, so a lookup sees the same
    entries before and after `save`. After `cut` a number may lead nowhere: then `struct.error` is raised.
    """

    __slots__ = ("_files", "_parts", "_path", "_shape", "saved")

    def __init__(self, files: OpenFiles, path: str, shape: struct.Struct) -> None:
        self._files = files
        self._path = path
        self._shape = shape
        self._parts = (0, bytearray())
        self.saved = False  # whether the file holds all of them

    def __len__(self) -> int:
        saved, memory = self._parts
        return saved + len(memory) // self._shape.size

    def __getitem__(self, number: int) -> tuple[int, int]:
        saved, memory = self._parts
        size = self._shape.size
        if number < saved:
            first, second = self._shape.unpack(self._files.get(self._path).read(size, number * size))
        else:
            first, second = self._shape.unpack_from(memory, (number - saved) * size)
        return first, second

    def load(self) -> None:
        """Take what the file holds; an odd end is left out."""
        exists = self._files.files.exists(self._path)
        saved = self._files.get(self._path).size() // self._shape.size if exists else 0
        self._parts = (saved, bytearray())
        self.saved = exists

    def add(self, first: int, second: int) -> None:
        self._parts[1].extend(self._shape.pack(first, second))
        self.saved = False

    def cut(self, count: int) -> None:
        """Keep the first `count` entries. If none is kept the file stays as it is until `save` replaces it."""
        saved, memory = self._parts
        kept = memory[: max(0, count - saved) * self._shape.size]
        self._parts = (min(saved, count), kept)
        if count < saved:
            if count:
                self._files.get(self._path).truncate(count * self._shape.size)
            else:
                self.saved = False

    def save(self) -> None:
        """Write the entries in memory to the file, synced.

        All of them at once replace the file as a whole: of an index that is made anew, a crash must leave no part.
        """
        saved, memory = self._parts
        if saved:
            self._append(saved, memory)
        else:
            replace_file(self._files.files, self._path, bytes(memory))
            self._files.forget(self._path)
        self._parts = (saved + len(memory) // self._shape.size, bytearray())
        self.saved = True

    def _append(self, saved: int, memory: bytearray) -> None:
        file = self._files.get(self._path)
        size = saved * self._shape.size
        file.write([bytes(memory)], size)
        file.truncate(size + len(memory))
        file.sync()

    def bisect(self, column: int, value: int) -> int:
        """The number of entries whose column is at most `value`."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle][column] <= value:
                low = middle + 1
            else:
                high = middle
        return low


class Indexed(NamedTuple):
    """The batch at `position` ends with `last_offset`."""

    last_offset: int
    position: int


class OffsetIndex:
    __slots__ = ("_base_offset", "entries")

    def __init__(self, files: OpenFiles, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self.entries = Entries(files, path, struct.Struct(">ii"))

    def add(self, last_offset: int, position: int) -> None:
        self.entries.add(last_offset - self._base_offset, position)

    def find(self, offset: int) -> Indexed | None:
        """The last entry that is at or before `offset`."""
        number = self.entries.bisect(0, offset - self._base_offset)
        return self._entry(number - 1) if number else None

    def last(self) -> Indexed | None:
        return self._entry(len(self.entries) - 1) if len(self.entries) else None

    def cut_from(self, position: int) -> None:
        """Forget the batches at `position` and after it."""
        self.entries.cut(self.entries.bisect(1, position - 1))

    def _entry(self, number: int) -> Indexed:
        relative, position = self.entries[number]
        return Indexed(self._base_offset + relative, position)


class Timed(NamedTuple):
    """No batch up to `last_offset` has a larger timestamp, and the one that ends there has this one."""

    timestamp: int
    last_offset: int


class TimeIndex:
    __slots__ = ("_base_offset", "_largest", "entries")

    def __init__(self, files: OpenFiles, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._largest = (-1, -1)  # how many entries there were, and the timestamp of the last one
        self.entries = Entries(files, path, struct.Struct(">qi"))

    def add(self, timestamp: int, last_offset: int) -> None:
        """Add an entry unless its timestamp is no news."""
        count, largest = self._largest
        if count != len(self.entries):
            last = self.last()
            largest = last.timestamp if last is not None else -1
        if timestamp > largest:
            self.entries.add(timestamp, last_offset - self._base_offset)
            largest = timestamp
        self._largest = (len(self.entries), largest)

    def around(self, timestamp: int) -> tuple[Timed | None, Timed | None]:
        """The last entry before this timestamp, and the first that reaches it."""
        number = self.entries.bisect(0, timestamp - 1)
        before = self._entry(number - 1) if number else None
        return before, self._entry(number) if number < len(self.entries) else None

    def last(self) -> Timed | None:
        return self._entry(len(self.entries) - 1) if len(self.entries) else None

    def cut_from(self, offset: int) -> None:
        """Forget what batches that end at `offset` or after it have added."""
        self.entries.cut(self.entries.bisect(1, offset - self._base_offset - 1))

    def _entry(self, number: int) -> Timed:
        timestamp, relative = self.entries[number]
        return Timed(timestamp, self._base_offset + relative)
