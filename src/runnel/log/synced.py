"""How far each partition is synced, as a hint that survives the process.

After a crash, a broken batch is either the torn end of a write that nobody was told of, or damage to what was synced.
They look alike; what tells them apart is how far the log was synced. Writing that down durably would double the syncs,
so it is written without: after the death of the process the file is exact, after a power cut it may be behind, and
it is never ahead. A torn entry fails its checksum and counts as unknown.

    for each partition: offset i64 | checksum u32 of offset and name | length of the name u16 | the name
"""

from __future__ import annotations

import logging
import struct
import threading

from crc32c import crc32c

from runnel.files import File, Files, read_file, replace_file

FILE_NAME = "synced-offsets"
VALUE = struct.Struct(">qI")
NAME_LENGTH = struct.Struct(">H")

logger = logging.getLogger(__name__)


class SyncedOffsets:
    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        self._positions: dict[str, tuple[int, bytes]] = {}  # of the entry, with the encoded name
        self._end = 0
        self._file: File | None = None

    def load(self) -> dict[str, int]:
        """What was known, by the partition's name; unreadable entries are left out."""
        known: dict[str, int] = {}
        content = read_file(self._files, self._path) if self._files.exists(self._path) else b""
        position = 0
        while position + VALUE.size + NAME_LENGTH.size <= len(content):
            offset, checksum = VALUE.unpack_from(content, position)
            (length,) = NAME_LENGTH.unpack_from(content, position + VALUE.size)
            start = position + VALUE.size + NAME_LENGTH.size
            name = content[start : start + length]
            if checksum == _checksum(offset, name):
                known[name.decode()] = offset
            position = start + length
        return known

    def start(self, offsets: dict[str, int]) -> None:
        """Begin a new file with these entries."""
        entries = bytearray()
        self._positions = {}
        for name, offset in offsets.items():
            self._positions[name] = (len(entries), name.encode())
            entries += _entry(name, offset)
        replace_file(self._files, self._path, bytes(entries))
        self._end = len(entries)
        self._file = self._files.open(self._path)

    def note(self, name: str, offset: int) -> None:
        """Write down that all before `offset` is synced. It is a hint: if it cannot be written, the old one stays."""
        file, known = self._file, self._positions.get(name)
        if file is None:
            return
        try:
            if known is not None:
                position, encoded = known
                file.write([VALUE.pack(offset, _checksum(offset, encoded))], position)
            else:
                self._add(file, _entry(name, offset), name)
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._path, error)

    def _add(self, file: File, entry: bytes, name: str) -> None:
        with self._lock:
            file.write([entry], self._end)
            self._positions[name] = (self._end, name.encode())
            self._end += len(entry)


def _entry(name: str, offset: int) -> bytes:
    encoded = name.encode()
    return VALUE.pack(offset, _checksum(offset, encoded)) + NAME_LENGTH.pack(len(encoded)) + encoded


def _checksum(offset: int, name: bytes) -> int:
    return int(crc32c(struct.pack(">q", offset) + name))
