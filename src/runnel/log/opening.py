"""Opening a partition: from the files of its folder to what the writer and the readers start with.

After a clean stop the files are taken at their word, and the cost does not depend on their size. After a crash the
active segment is checked from the recovery point on: every older segment was synced whole before the next one began.

    a broken batch after the last offset known to be synced   is the torn end of a write: cut off
    a broken batch before it                                  is damage: quarantined, and a new segment begins

Either is logged, and reported as a `Finding`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from runnel.counted import counted
from runnel.errors import UnusableDirectory
from runnel.files import read_file
from runnel.log.aborted import replayed, state_before
from runnel.log.checkpoints import START_OFFSETS, TopicPartition
from runnel.log.compaction.swap import finish_swaps
from runnel.log.damage import Damage
from runnel.log.directory import DataDirectory
from runnel.log.epochs import FILE_NAME as EPOCHS_FILE
from runnel.log.epochs import LeaderEpochs
from runnel.log.place import Place
from runnel.log.producers import Producers
from runnel.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, damage_at
from runnel.log.segments import Segments
from runnel.log.snapshots import remove_snapshots, write_snapshot
from runnel.log.txn_index import EMPTY, Entry
from runnel.log.txn_index import SUFFIX as TXN_INDEX_SUFFIX
from runnel.log.walk import Broken, whole_batches
from runnel.settings import MIB, TopicSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What opening after a crash met in a segment: `size` bytes from `position` on, where `offset` should stand.

    They were cut off as the torn end of a write, or they are damage and were left where they are.
    """

    path: str
    position: int
    size: int
    offset: int
    reason: str
    damage: bool = False


@dataclass(slots=True)
class PartitionState:
    segments: Segments
    epochs: LeaderEpochs
    producers: Producers
    start_offset: int
    active_started: int
    indexes_are_saved: bool
    findings: list[Finding]


def open_partition(
    home: DataDirectory,
    partition: TopicPartition,
    settings: TopicSettings,
    synced_offset: int,
    *,
    trust: bool,
) -> PartitionState:
    """`trust` after a clean stop. `synced_offset`: all before it is known to be synced."""
    directory = f"{home.path}/{partition}"
    for base_offset in finish_swaps(home.files, directory):
        logger.info("%s: the swap of the compacted segment at offset %d was finished", directory, base_offset)
    start_offset = home.start_offsets.get(partition, 0)
    recovery_point = home.recovery_points.get(partition, 0)
    synced_offset = max(synced_offset, recovery_point)
    bases = _bases_from(home, directory, start_offset)
    segments = [Segment(home.open_files, directory, base, settings.index_interval_bytes) for base in bases]
    if not segments:
        segments = [_first_segment(home, directory, settings, start_offset)]
    active = segments[-1]
    cut: list[Finding] = []
    if trust:
        _load_active(active, synced_offset)
    else:
        cut = _recover_active(home, active, recovery_point, synced_offset)
    end = active.next_offset if active.damage is None else max(active.next_offset, synced_offset)
    _refuse_if_before_start(home, partition, start_offset, end)
    if segments[0].base_offset > start_offset:
        segments.insert(0, _lost_segment(home, directory, settings, start_offset))
    chain = Segments(segments)
    if active.damage is not None:
        _begin_behind_damage(home, chain, directory, end, settings)
    _remove_leftovers(home, directory, chain)
    # Snapshots of records that are gone would be believed when others have their offsets.
    remove_snapshots(home.files, directory, after=end)
    epochs = _load_epochs(home, directory, chain, end)
    producers = replayed_producers(home, directory, chain)
    return PartitionState(
        segments=chain,
        epochs=epochs,
        producers=producers,
        start_offset=max(start_offset, segments[0].base_offset),
        active_started=_started(home, chain.active),
        indexes_are_saved=trust and chain.active.indexes_are_saved and chain.active.aborted.saved,
        findings=cut + [_finding(segment, segment.damage) for segment in segments if segment.damage is not None],
    )


def replayed_producers(home: DataDirectory, directory: str, segments: Segments) -> Producers:
    """The state of producers at the end of the segments: the newest snapshot, and the batches after it.

    The active segment's index of aborted transactions is what its file held when that snapshot was written, and the
    markers after it. If the file is not so any more, the replay begins before the segment.
    """
    now, active = home.clock.now(), segments.active
    offset, producers = state_before(home.files, directory, segments, active.next_offset)
    believed = active.aborted.believable(producers.indexed, offset) if offset > active.base_offset else EMPTY
    if believed is None:
        logger.warning("%s is missing or does not fit the segment, and is made anew", active.aborted.path)
        offset, producers = state_before(home.files, directory, segments, active.base_offset)
        believed = EMPTY
    entries: list[Entry] = []
    for segment in segments.from_offset(offset):
        entries = list(replayed(segment, offset, producers, now))
    active.aborted.begin(believed, entries)
    producers.expire(now - home.settings.producer_expiration_ms)
    return producers


def _bases_from(home: DataDirectory, directory: str, start_offset: int) -> list[int]:
    """The base offsets of the segments that hold something from `start_offset` on, and always of the last one."""
    bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in home.files.list(directory) if _is_segment(name))
    return [base for number, base in enumerate(bases) if number + 1 == len(bases) or bases[number + 1] > start_offset]


def _refuse_if_before_start(home: DataDirectory, partition: TopicPartition, start_offset: int, end: int) -> None:
    """Nothing is removed at the word of a file that cannot be right."""
    if end < start_offset:
        raise UnusableDirectory(
            home.path,
            f"its {START_OFFSETS} says that {partition} begins at offset {start_offset}, but it ends at {end}",
            hint="restore that file from a backup",
        )


def _remove_leftovers(home: DataDirectory, directory: str, segments: Segments) -> None:
    """Remove what an interrupted write or deletion has left."""
    stems = {f"{base:020d}" for base in segments.base_offsets}
    for name in home.files.list(directory):
        stem, dot, suffix = name.partition(".")
        ours = dot + suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        orphan = ours and stem not in stems
        if orphan or name.endswith(".tmp"):
            home.files.remove(f"{directory}/{name}")


def _is_segment(name: str) -> bool:
    stem = name.removesuffix(LOG_SUFFIX)
    return stem != name and len(stem) == 20 and stem.isdecimal()


def _first_segment(home: DataDirectory, directory: str, settings: TopicSettings, base_offset: int) -> Segment:
    segment = Segment(home.open_files, directory, base_offset, settings.index_interval_bytes)
    segment.create()
    home.files.sync_directory(directory)
    return segment


def _lost_segment(home: DataDirectory, directory: str, settings: TopicSettings, base_offset: int) -> Segment:
    """In place of a first segment whose file is gone: it says so to whoever asks for its records."""
    segment = _first_segment(home, directory, settings, base_offset)
    segment.quarantine(Damage(Place(0, base_offset), None, "the file was gone"))
    return segment


def _load_active(active: Segment, synced_offset: int) -> None:
    active.load(None, synced_offset or None)
    if active.next_offset < synced_offset and not active.lost_its_end:
        active.quarantine(_missing(active, synced_offset))


def _recover_active(home: DataDirectory, active: Segment, recovery_point: int, synced_offset: int) -> list[Finding]:
    """Check the segment from the recovery point on, cut its torn end, and make sure of what is left."""
    place = active.begin_recovery(recovery_point)
    findings = _check_from(place, active, synced_offset)
    if active.damage is not None:  # what is indexed may stand behind it
        active.note_all(active.file(), active.file().size(), None, synced_offset or None)
    if active.next_offset < synced_offset and not active.lost_its_end:
        active.quarantine(_missing(active, synced_offset))
    _write_again(active, synced_offset)
    home.files.sync_directory(active.directory)
    return findings


def _check_from(place: Place, active: Segment, synced_offset: int) -> list[Finding]:
    known, file = active.damage, active.file()
    end = file.size()
    while True:
        try:
            for position, header in whole_batches(file, place.position, end, place.offset):
                active.note(header, position)
            return []
        except Broken as broken:
            if broken.offset >= synced_offset and not _is_seen(known, broken):
                return [_cut(active, broken, end)]
            damage = damage_at(file, broken, end, synced_offset or None)
            active.quarantine(damage)
            if damage.resume is None:
                return []
            place = damage.resume


def _cut(active: Segment, broken: Broken, end: int) -> Finding:
    finding = Finding(active.path, broken.position, end - broken.position, broken.offset, broken.reason)
    logger.warning(
        "%s: cut %s of a torn write at position %d, before offset %d: %s",
        finding.path, counted(finding.size, "byte"), finding.position, finding.offset, finding.reason,
    )  # fmt: skip
    active.file().truncate(broken.position)
    return finding


def _write_again(active: Segment, synced_offset: int) -> None:
    """Sync what is not known to be synced, before a reader sees it.

    If the last process died after a failed sync, the kernel has these pages in memory, believes that they are on the
    disk, and would sync nothing. So they are written once more.
    """
    file = active.file()
    if synced_offset < active.next_offset:
        for position in range(active.locate(synced_offset).position, active.size, MIB):
            file.write([file.read(min(MIB, active.size - position), position)], position)
    file.sync()


def _is_seen(known: Damage | None, broken: Broken) -> bool:
    """What readers met as damage, and what was before it, had been synced, also if a power cut took the note of it."""
    return known is not None and broken.position <= (known.resume or known.start).position


def _missing(active: Segment, synced_offset: int) -> Damage:
    reason = f"the file ends before offset {synced_offset}, which was synced"
    return Damage(Place(active.size, active.next_offset), None, reason)


def _finding(segment: Segment, damage: Damage) -> Finding:
    position, offset = damage.start
    end = damage.resume.position if damage.resume else segment.file().size()
    return Finding(segment.path, position, max(0, end - position), offset, damage.reason, damage=True)


def _begin_behind_damage(
    home: DataDirectory, segments: Segments, directory: str, base_offset: int, settings: TopicSettings
) -> None:
    producers, old = replayed_producers(home, directory, segments), segments.active
    old.aborted.save()
    indexed = old.aborted.content if base_offset > old.base_offset else None
    write_snapshot(home.files, directory, base_offset, producers, indexed)
    segments.add(_first_segment(home, directory, settings, base_offset))


def _load_epochs(home: DataDirectory, directory: str, segments: Segments, end: int) -> LeaderEpochs:
    path = f"{directory}/{EPOCHS_FILE}"
    epochs = LeaderEpochs()
    if home.files.exists(path):
        try:
            epochs = LeaderEpochs.decode(read_file(home.files, path))
            epochs.cut_from(end)
            return epochs
        except ValueError as error:
            logger.warning("%s cannot be read and is made anew from the batches: %s", path, error)
    for segment in segments:
        for header in segment.headers_from(segment.base_offset):
            epochs.begin(header.leader_epoch, header.base_offset)
    return epochs


def _started(home: DataDirectory, active: Segment) -> int:
    """When the first batch of the active segment was written, as well as can be told."""
    now = home.clock.now()
    first = next(iter(active.headers_from(active.base_offset)), None)
    if first is None:
        return now
    return min(now, first.max_timestamp if first.max_timestamp >= 0 else home.files.modified(active.path))
