"""One segment: a file of record batches and its indexes, in Kafka's layout.

    00000000000000001042.log         batches, the first one with base offset 1042
    00000000000000001042.index       where to begin reading for an offset
    00000000000000001042.timeindex   where to begin reading for a time
    00000000000000001042.txnindex    only if transactions were aborted in it
    00000000000000001042.damage      only if the segment is quarantined

`size` and `next_offset` tell what readers may see. One thread, the one that commits, moves them on; bytes after `size`
are on their way and nobody looks at them. Offsets inside of a segment are consecutive; a gap is damage.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch, UnreadableRecords
from runnel.files import File
from runnel.log.appends import Step
from runnel.log.damage import SUFFIX as DAMAGE_SUFFIX
from runnel.log.damage import Damage, read_damage, write_damage
from runnel.log.index import Indexed, OffsetIndex, Timed, TimeIndex
from runnel.log.open_files import OpenFiles
from runnel.log.place import Place
from runnel.log.txn_index import SUFFIX as TXN_INDEX_SUFFIX
from runnel.log.txn_index import TransactionIndex
from runnel.log.walk import Broken, headers, next_whole_batch
from runnel.records import HEADER_SIZE, BatchHeader, Marker, parse_header, parse_marker, records_of, validate
from runnel.records.batch import LENGTH_PREFIX, MAGIC
from runnel.records.record import NO_TIMESTAMP, Record

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, DAMAGE_SUFFIX)
STEP = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta: all that a read needs to step on
SHORTEST = HEADER_SIZE - LENGTH_PREFIX
READ_AHEAD = 4096  # a lookup leads to at most about an index interval before the batch that is asked for

Found = TypeVar("Found")

logger = logging.getLogger(__name__)


class Slice(NamedTuple):
    """Whole batches, as they stand in the file, and the place after them."""

    data: memoryview
    end: Place


class Growth(NamedTuple):
    """What a segment is to be with some more batches, and the new entries of its indexes."""

    size: int
    next_offset: int
    largest: Timed
    since_index: int
    entries: Sequence[tuple[int, int, Timed]]


class Replaced(Exception):
    """The segment has given its place to a compacted one: look for the offset again."""


class Segment:
    __slots__ = (
        "_files",
        "_index_interval",
        "_since_index",
        "aborted",
        "base_offset",
        "damage",
        "largest",
        "loaded",
        "next_offset",
        "offsets",
        "retired",
        "size",
        "stem",
        "times",
    )

    def __init__(
        self, files: OpenFiles, directory: str, base_offset: int, index_interval: int, state: str = ""
    ) -> None:
        """`state` stands in the names of its files, before the suffix, while compaction makes it."""
        self._files = files
        self._index_interval = index_interval
        self.stem = f"{directory}/{base_offset:020d}{state}"
        self.base_offset = base_offset
        self.offsets = OffsetIndex(files, self.stem + INDEX_SUFFIX, base_offset)
        self.times = TimeIndex(files, self.stem + TIME_INDEX_SUFFIX, base_offset)
        self.aborted = TransactionIndex(files, self.stem + TXN_INDEX_SUFFIX)
        self.damage: Damage | None = None
        self.loaded = False
        self.retired = False  # whether another one has, or is about to have, its place
        self.reset()

    def reset(self) -> None:
        self.size = 0
        self.next_offset = self.base_offset
        self.largest = Timed(NO_TIMESTAMP, self.base_offset - 1)
        self._since_index = 0

    @property
    def path(self) -> str:
        return self.stem + LOG_SUFFIX

    @property
    def directory(self) -> str:
        return self.stem.rpartition("/")[0]

    def file(self) -> File:
        return self._files.get(self.path)

    def open_file(self) -> File | None:
        """The same, if it is open already: touches no disk."""
        return self._files.known(self.path)

    # --- the committer's side

    def create(self) -> None:
        """An empty file, durable when its folder is synced. What stood under its name is replaced."""
        for suffix in SUFFIXES[1:]:
            self._remove(self.stem + suffix)
        temporary = self.path + ".tmp"
        self._files.files.open(temporary, create=True).truncate(0)
        self._files.files.rename(temporary, self.path)
        self._files.forget(self.path)
        self.aborted.begin()
        self.loaded = True

    def note(self, header: BatchHeader, position: int, *, index: bool = True) -> None:
        """A batch stands at `position`: index it if it is its turn, and let readers see it."""
        base_offset, length, _, _, _, _, delta, _, timestamp, _, _, _, _ = header[:]  # a plain tuple: quicker
        last_offset, size = base_offset + delta, length + LENGTH_PREFIX
        if timestamp > self.largest.timestamp:
            self.largest = Timed(timestamp, last_offset)
        if index and self._since_index > self._index_interval:
            self.offsets.add(last_offset, position)
            self.times.add(*self.largest)
            self._since_index = 0
        self._since_index += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def foresee(self, steps: Iterable[Step]) -> Growth:
        """What `note` would do with these batches, which stand behind all others. Nobody sees it yet."""
        largest, since_index, interval = self.largest, self._since_index, self._index_interval
        position, last_offset, latest = self.size, self.next_offset - 1, largest.timestamp
        entries: list[tuple[int, int, Timed]] = []
        for last_offset, size, timestamp in steps:
            if timestamp > latest:
                largest, latest = Timed(timestamp, last_offset), timestamp
            if since_index > interval:
                entries.append((last_offset, position, largest))
                since_index = 0
            since_index += size
            position += size
        return Growth(position, last_offset + 1, largest, since_index, entries)

    def grow(self, growth: Growth) -> None:
        """Let readers see it."""
        for last_offset, position, largest in growth.entries:
            self.offsets.add(last_offset, position)
            self.times.add(*largest)
        self.largest, self._since_index = growth.largest, growth.since_index
        self.size = growth.size
        self.next_offset = growth.next_offset

    def save_indexes(self) -> None:
        self.offsets.entries.save()
        self.times.entries.save()
        self.aborted.save()

    @property
    def indexes_are_saved(self) -> bool:
        """Both of those that can be made from the segment alone."""
        return self.offsets.entries.saved and self.times.entries.saved

    def seal(self) -> None:
        """No batch will follow: the time index ends with the largest time, as Kafka's does."""
        self.times.add(*self.largest)
        self.save_indexes()

    def quarantine(self, damage: Damage) -> None:
        if self.retired:  # its files are gone or are another one's
            raise Replaced(self.path)
        self.damage = self.damage.joined_with(damage) if self.damage else damage
        logger.error("%s", self.damage.error(self.path))
        try:
            write_damage(self._files.files, self.stem, self.damage)
        except OSError as error:  # it will be found again
            logger.warning("%s: the damage could not be written down: %s", self.stem, error)

    def remove(self) -> None:
        for suffix in SUFFIXES:
            self._remove(self.stem + suffix)

    def _remove(self, path: str) -> None:
        if self._files.files.exists(path):
            self._files.files.remove(path)
        self._files.forget(path)

    # --- opening

    def load(self, limit: int | None, synced_offset: int | None = None) -> None:
        """Take the segment as it stands in its files, knowing that it was synced; damage is quarantined.

        Offsets from `limit` on, where the next segment begins, are left-overs of a failed write and not looked at.
        Of the active segment, which has no limit, `synced_offset` may be known.
        """
        self.offsets.entries.load()
        self.times.entries.load()
        file = self.file()
        end = file.size()
        self.damage = self._known_damage(file, end)
        self.note_all(file, end, limit, synced_offset)
        if limit is not None and self.next_offset < limit and not self.lost_its_end:
            self.quarantine(Damage(Place(self.size, self.next_offset), None, f"it ends before offset {limit}"))
        if limit is not None and not self.indexes_are_saved and not self.retired:
            with contextlib.suppress(OSError):  # they are good enough in memory
                self.seal()
        self.loaded = True

    def note_all(self, file: File, end: int, limit: int | None, synced_offset: int | None) -> None:
        """Note every batch but those that are damaged, and those that the indexes know already."""
        while True:
            self.reset()
            try:
                return self._load_around(file, end, limit)
            except Broken as broken:
                self.quarantine(damage_at(file, broken, end, limit if limit is not None else synced_offset))

    def forget_indexes(self) -> None:
        self.offsets.entries.cut(0)
        self.times.entries.cut(0)

    def begin_recovery(self, recovery_point: int) -> Place:
        """From where to check the batches after a crash: what is indexed before the recovery point needs no check."""
        self.offsets.entries.load()
        self.times.entries.load()
        self.reset()
        file = self.file()
        self.damage = self._known_damage(file, file.size())
        entry = None if self.damage else self.offsets.find(recovery_point - 1)
        start = entry and self._verified(file, entry.last_offset, entry.position, file.size())
        if start is not None:
            self.resume_at(start)
        if start is None or not self._times_fit(file, start.position):
            self.forget_indexes()
            start = Place(0, self.base_offset)
            self.resume_at(start)
        self.loaded = True
        return start

    def resume_at(self, place: Place) -> None:
        """Forget all from `place` on: a scan will note it again."""
        self.offsets.cut_from(place.position)
        self.times.cut_from(place.offset)
        last = self.times.last()
        self.size, self.next_offset = place
        self.largest = last or Timed(NO_TIMESTAMP, self.base_offset - 1)
        self._since_index = 2**31 if place.position else 0  # the batch there was indexed, and will be again

    def _known_damage(self, file: File, end: int) -> Damage | None:
        """What the `.damage` file says, at places that are in the segment."""
        damage = read_damage(self._files.files, self.stem)
        if damage is None:
            return None
        start = Place(0, self.base_offset)
        try:
            for position, header in headers(file, 0, min(end, damage.start.position), self.base_offset):
                start = Place(position + header.size, header.last_offset + 1)
        except Broken as broken:
            start = Place(broken.position, broken.offset)
        resume = damage.resume
        if resume is not None and not self._stands_at(resume, file, end):
            resume = damage_at(file, Broken(*start, damage.reason), end).resume
        return Damage(start, resume, damage.reason)

    def _stands_at(self, place: Place, file: File, end: int) -> bool:
        try:
            _, header = next(headers(file, place.position, end, place.offset), (0, None))
        except Broken:
            return False
        return header is not None

    def _load_around(self, file: File, end: int, limit: int | None) -> None:
        damage = self.damage
        if damage is None:
            start = self._last_indexed(file, end)
            self.size, self.next_offset = start
            self.largest = self.times.last() or self.largest
            # The time index may already know the batches that follow: to index them again would disorder it.
            known = len(self.times.entries) > 0
            return self._walk(file, start, end, limit, index=not known)
        self.forget_indexes()
        self._walk(file, Place(0, self.base_offset), min(end, damage.start.position), limit)
        if damage.resume:
            self._walk(file, damage.resume, end, limit)
        return None

    def _last_indexed(self, file: File, end: int) -> Place:
        """The last place that the indexes know, if what they say there is so; else they are made anew."""
        entry = self.offsets.last()
        place = self._verified(file, entry.last_offset, entry.position, end) if entry else Place(0, self.base_offset)
        missing = not self.indexes_are_saved or (entry is None and end > self._index_interval)
        if not missing and place is not None and self._times_fit(file, end):
            return place
        if end:
            logger.warning("%s: the indexes are missing or do not fit the segment, and are made anew", self.stem)
        self.forget_indexes()
        return Place(0, self.base_offset)

    def _times_fit(self, file: File, end: int) -> bool:
        """Whether the last entry of the time index is so, and none is missing behind it."""
        timed = self.times.last()
        try:
            return self._reaches(timed, self.offsets.last(), file, end) and (
                timed is None or self._is_true(timed, file, end)
            )
        except Broken:
            return False

    def _reaches(self, timed: Timed | None, indexed: Indexed | None, file: File, end: int) -> bool:
        """Whether this can be the largest time up to the batch that is indexed there."""
        if indexed is None:
            return True
        header = self._header_at(file, indexed.last_offset, indexed.position, end)
        return header is not None and header.max_timestamp <= (timed.timestamp if timed else NO_TIMESTAMP)

    def _is_true(self, timed: Timed, file: File, end: int) -> bool:
        """Whether the batch that ends with this offset has this largest timestamp."""
        entry = self.offsets.find(timed.last_offset)
        start = self._verified(file, entry.last_offset, entry.position, end) if entry else Place(0, self.base_offset)
        if start is None:
            return False
        for _, header in headers(file, start.position, end, start.offset):
            if header.last_offset >= timed.last_offset:
                return header.last_offset == timed.last_offset and header.max_timestamp == timed.timestamp
        return False

    @property
    def lost_its_end(self) -> bool:
        return self.damage is not None and self.damage.resume is None

    def _walk(self, file: File, start: Place, end: int, limit: int | None, *, index: bool = True) -> None:
        if limit is not None and start.offset >= limit:
            return
        for position, header in headers(file, start.position, end, start.offset):
            self.note(header, position, index=index)
            if limit is not None and self.next_offset >= limit:
                return  # what follows was never acknowledged

    def cut_back(self) -> None:
        """Forget what the indexes and the file hold after `size`: it was never synced, and must not come back."""
        self.offsets.cut_from(self.size)
        self.times.cut_from(self.next_offset)
        self.aborted.cut_from(self.next_offset)
        file = self.file()
        file.truncate(self.size)
        file.sync()

    # --- the readers' side

    def locate(self, offset: int) -> Place:
        """A place from which the batch that holds `offset` is not far."""
        return self._behind_damage(self._indexed_before(offset), offset)

    def _indexed_before(self, offset: int) -> Place:
        file = self.file()
        try:
            entry = self.offsets.find(offset)
        except struct.error:  # cut off while we looked
            entry = None
        if entry is not None:
            place = self._verified(file, entry.last_offset, entry.position, self.size)
            if place is not None:
                return place
            logger.warning("%s: the index is wrong at offset %d; reading without it", self.stem, offset)
        return Place(0, self.base_offset)

    def read(self, start: Place, offset: int, max_bytes: int) -> Slice:
        """Batches from the one that holds `offset` on, at least one if there is one, found by stepping from `start`.

        Broken where the bytes cannot be right.
        """
        file = self.file()
        start = self._behind_damage(start, offset)
        end = self._readable_end(start, offset)
        position, expected = start
        length = max_bytes + READ_AHEAD
        while position < end:
            wanted = min(length, end - position)
            chunk = file.read(wanted, position)
            if len(chunk) < wanted:  # the file is shorter than it was
                end = position + len(chunk)
                if not chunk:
                    raise Broken(position, expected, f"the file ends at position {end:,}, but more was written")
            found = _whole_batches_in(chunk, Place(position, expected), end, offset, max_bytes)
            if found.data or found.end.position >= end:
                return found
            if found.end.position == position:  # one batch is larger than all that was asked for
                length = max(length, _size_of_batch(chunk))
            position, expected = found.end
        return Slice(memoryview(b""), Place(position, expected))

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches from the one that holds `offset` on; what is damaged is stepped over."""
        return self._each_from(offset, lambda _, header: header)

    def marked_headers_from(self, offset: int) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """The same, and what those say that end a transaction."""
        return self._each_from(offset, lambda position, header: (header, self._marker_at(position, header)))

    def _each_from(self, offset: int, find: Callable[[int, BatchHeader], Found]) -> Iterator[Found]:
        while True:
            try:
                for position, header in self._undamaged_headers_from(offset):
                    yield find(position, header)
                    offset = header.last_offset + 1
                return
            except Broken as broken:
                self.quarantine(self.damage_found(broken))

    def _undamaged_headers_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        start, file, end = self.locate(offset), self.file(), self.size
        if self.damage is not None and start.position <= self.damage.start.position:
            yield from _headers_between(file, start, self.damage.start.position, offset)
            if self.damage.resume is None:
                return
            start = self.damage.resume
        yield from _headers_between(file, start, end, offset)

    def _marker_at(self, position: int, header: BatchHeader) -> Marker | None:
        if not header.is_control:
            return None
        batch = self.file().read(header.size, position)
        try:
            validate(batch)
        except CorruptBatch as error:
            raise Broken(position, header.base_offset, error.what) from error
        try:
            return parse_marker(batch)
        except InvalidBatch:  # compaction has emptied it, or it is of a kind that no transaction knows
            return None

    def find_time(self, timestamp: int, least_offset: int) -> Record | None:
        """The first record from `least_offset` on that has at least this timestamp."""
        if self.largest.timestamp < timestamp:
            return None
        start = self._before_time(timestamp, least_offset)
        file = self.file()
        end = self._readable_end(start, start.offset)
        for position, header in headers(file, start.position, end, start.offset):
            if header.max_timestamp < timestamp or header.last_offset < least_offset:
                continue
            for record in _readable_records(file.read(header.size, position), position):
                if record.timestamp >= timestamp and record.offset >= least_offset:
                    return record
        if self.damage and end == self.damage.start.position:
            raise self.damage.error(self.path)
        return None

    def largest_time_from(self, offset: int) -> int:
        """The largest timestamp of the records from `offset` on."""
        if offset <= self.base_offset:
            return self.largest.timestamp
        largest = NO_TIMESTAMP
        for header in self.headers_from(offset):
            if header.base_offset >= offset:
                largest = max(largest, header.max_timestamp)
            else:  # some of its records are before the offset
                found = self.read(self.locate(offset), offset, 1)
                records = _readable_records(bytes(found.data), found.end.position - len(found.data))
                times = (record.timestamp for record in records if record.offset >= offset)
                largest = max(times, default=NO_TIMESTAMP)
        return largest

    def _before_time(self, timestamp: int, least_offset: int) -> Place:
        """A place before the first batch that reaches this time, and not far from it."""
        known = None
        while known != self.next_offset:  # more was written while we looked, and the indexes tell of it in part
            known = self.next_offset
            anchor = self._trusted_before(timestamp)
            if anchor is not None:
                found = self._indexed_before(max(self.base_offset, anchor, least_offset))
                return self._behind_damage(found, least_offset)
        logger.warning("%s: the time index is wrong at %d; reading without it", self.stem, timestamp)
        return self._behind_damage(Place(0, self.base_offset), least_offset)

    def _trusted_before(self, timestamp: int) -> int | None:
        """An offset up to which no time is large enough, by the indexes; None if what they say is not so."""
        file, size = self.file(), self.size
        try:
            before, entry = self.times.around(timestamp)
            # Up to the batch that was indexed last before this entry's, no time was large enough.
            anchor = entry.last_offset - 1 if entry is not None else self.next_offset - 1
            trusted = self._reaches(before, self.offsets.find(anchor), file, size) and all(
                self._is_true(timed, file, size) for timed in (before, entry) if timed is not None
            )
        except (struct.error, Broken):  # cut off while we looked, or damaged
            return None
        return anchor if trusted else None

    def damage_found(self, broken: Broken) -> Damage:
        return damage_at(self.file(), broken, self.size, self.next_offset)

    def _verified(self, file: File, last_offset: int, position: int, end: int) -> Place | None:
        """The place of an index entry, if what it says is so."""
        header = self._header_at(file, last_offset, position, end)
        return Place(position, header.base_offset) if header is not None else None

    def _header_at(self, file: File, last_offset: int, position: int, end: int) -> BatchHeader | None:
        start = file.read(HEADER_SIZE, position) if 0 <= position <= end - HEADER_SIZE else b""
        if len(start) < HEADER_SIZE:
            return None
        header = parse_header(start)
        fits = header.magic == MAGIC and header.last_offset == last_offset and header.last_offset_delta >= 0
        return header if fits and header.base_offset >= self.base_offset else None

    def _behind_damage(self, place: Place, offset: int) -> Place:
        resume = self.damage and self.damage.resume
        return resume if resume and offset >= resume.offset and place.position < resume.position else place

    def _readable_end(self, start: Place, offset: int) -> int:
        damage = self.damage
        if damage is None or (damage.resume and start.position >= damage.resume.position):
            return self.size
        if offset >= damage.start.offset:
            raise damage.error(self.path)
        return damage.start.position


def _headers_between(file: File, start: Place, end: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    for position, header in headers(file, start.position, end, start.offset):
        if header.last_offset >= offset:
            yield position, header


def checked_records(batch: bytes, position: int) -> list[Record]:
    """The records of a batch that was read from `position`.

    Broken if it is not what was written; UnreadableRecords if it is, but its producer wrote no records.
    """
    try:
        header = validate(batch)
    except CorruptBatch as error:
        raise Broken(position, parse_header(batch).base_offset, error.what) from error
    try:
        return records_of(batch)
    except InvalidBatch as error:
        raise UnreadableRecords(header.base_offset, header.last_offset + 1, error.what) from error


def _readable_records(batch: bytes, position: int) -> list[Record]:
    """The same for a search, to which a record that nobody can read does not matter."""
    try:
        return checked_records(batch, position)
    except UnreadableRecords:
        return []


def damage_at(file: File, broken: Broken, end: int, end_offset: int | None = None) -> Damage:
    """What cannot be read because of `broken`: up to the next batch that is whole."""
    found = next_whole_batch(file, broken.position + 1, end, broken.offset, end_offset)
    resume = Place(found[0], found[1].base_offset) if found else None
    return Damage(Place(broken.position, broken.offset), resume, broken.reason)


def _whole_batches_in(chunk: bytes, start: Place, end: int, offset: int, max_bytes: int) -> Slice:
    """Those of the chunk's batches that are whole, from the one that holds `offset`, at most `max_bytes` but one."""
    position, expected = 0, start.offset
    first = -1
    stop = len(chunk)
    last_header = len(chunk) - HEADER_SIZE
    unpack = STEP.unpack_from
    while position <= last_header:
        base, length, magic, delta = unpack(chunk, position)
        if base != expected or magic != MAGIC or length < SHORTEST or delta < 0:
            raise Broken(start.position + position, expected, f"no batch with base offset {expected} stands there")
        after = position + length + LENGTH_PREFIX
        if after > stop:
            break
        expected = base + delta + 1
        if first < 0 and expected > offset:
            first = position
            stop = min(stop, max(after, first + max_bytes))
        position = after
    at_end = start.position + len(chunk) >= end
    if at_end and position < len(chunk) and (position > last_header or after > len(chunk)):
        raise Broken(
            start.position + position,
            expected,
            f"{counted(len(chunk) - position, 'byte is', 'bytes are')} no whole batch",
        )
    data = memoryview(chunk)[first:position] if first >= 0 else memoryview(b"")
    return Slice(data, Place(start.position + position, expected))


def _size_of_batch(chunk: bytes) -> int:
    return parse_header(chunk).size
