"""The data directory: what all partitions of one log share.

    .lock                              held by the one process that owns the directory, with its pid
    runnel-log.json                    format version, and the directory's epoch
    .clean                             there only between a clean stop and the next start
    recovery-point-offset-checkpoint   up to where each partition needs no check after a crash
    log-start-offset-checkpoint        where partitions begin whose first records were deleted
    cleaner-offset-checkpoint          up to where partitions are compacted
    cleaner-horizon-checkpoint         from when on a compacted partition has a tombstone that may go
    synced-offsets                     a hint, see synced.py
    orders-0/                          a partition

The epoch counts the unclean starts and the recoveries from disk failures: whatever a partition writes after one of
these carries a larger leader epoch than anything before.
"""

from __future__ import annotations

import json
import logging
import random
import threading
from typing import Any

from runnel.clock import Clock
from runnel.errors import DirectoryOwned, DiskLow, FileInTheWay, UnusableDirectory
from runnel.files import Files, Lock, read_file, replace_file
from runnel.log.checkpoints import (
    CLEAN_OFFSETS,
    HORIZONS,
    RECOVERY_POINTS,
    START_OFFSETS,
    TopicPartition,
    read_checkpoint,
    write_checkpoint,
)
from runnel.log.compaction.workers import Workers
from runnel.log.open_files import OpenFiles
from runnel.log.synced import FILE_NAME as SYNCED_FILE
from runnel.log.synced import SyncedOffsets
from runnel.log.tail import TailCache
from runnel.settings import INT32_MAX, MIB, LogSettings

FORMAT = 1
LOCK_FILE = ".lock"
META_FILE = "runnel-log.json"
CLEAN_FILE = ".clean"
DELETED_SUFFIX = "-delete"
ROOM_BETWEEN_LOOKS = 8 * MIB

logger = logging.getLogger(__name__)


class DataDirectory:
    def __init__(self, path: str, files: Files, clock: Clock, chance: random.Random, settings: LogSettings) -> None:
        self.path = path
        self.files = files
        self.clock = clock
        self.chance = chance
        self.settings = settings
        self.open_files = OpenFiles(files, settings.open_files)
        self.tails = TailCache(settings.tail_cache_bytes)
        self.synced = SyncedOffsets(files, f"{path}/{SYNCED_FILE}")
        self.recovery_points: dict[TopicPartition, int] = {}
        self.start_offsets: dict[TopicPartition, int] = {}
        self.clean_offsets: dict[TopicPartition, int] = {}
        self.horizons: dict[TopicPartition, int] = {}
        self.workers = Workers(files)
        self.swapping = threading.Lock()  # compaction moves files; a partition's folder must not go meanwhile
        self.epoch = 0
        self.is_new = False
        self.was_clean = True
        self._lock = threading.RLock()  # the checkpoints: deletions and the background write the same files
        self._owned: Lock | None = None
        self._room = 0  # may be written before the disk is asked again how much is free

    # --- open and close

    def open(self) -> None:
        """Own the directory and read what it says of itself; an unclean stop begins a new epoch."""
        self._create_if_missing()
        if not self.files.exists(f"{self.path}/{META_FILE}"):
            self._refuse_if_not_empty()  # before anything is written into what is not ours
        self._owned = self.files.lock(f"{self.path}/{LOCK_FILE}")
        if self._owned is None:
            raise DirectoryOwned(self.path, self._owner())
        try:
            self._read_meta()
            self.recovery_points = self._checkpoint(RECOVERY_POINTS)
            self.start_offsets = self._checkpoint(START_OFFSETS)
            self.clean_offsets = self._checkpoint_if_readable(CLEAN_OFFSETS)
            self.horizons = self._checkpoint_if_readable(HORIZONS)
            self._forget_deleted()
        except BaseException:
            self.release()
            raise

    def start(self, synced: dict[str, int]) -> None:
        """From here on the directory may be written: it is not clean any more."""
        self.synced.start(synced)
        if self.files.exists(f"{self.path}/{CLEAN_FILE}"):
            self.files.remove(f"{self.path}/{CLEAN_FILE}")
            self.files.sync_directory(self.path)

    def stop_clean(self) -> None:
        self.write_recovery_points()
        replace_file(self.files, f"{self.path}/{CLEAN_FILE}", b"")

    def release(self) -> None:
        if self._owned is not None:
            self._owned.release()
            self._owned = None

    def _create_if_missing(self) -> None:
        """Without its meta file the directory is new, or making it was interrupted: then its name is not safe yet."""
        parent = self.path.rpartition("/")[0] or "/"
        try:
            if not self.files.exists(self.path):
                self.files.make_directory(self.path)
            if not self.files.exists(f"{self.path}/{META_FILE}"):
                self.files.sync_directory(parent)
        except NotADirectoryError:
            raise FileInTheWay(self.path, "a file is above it") from None
        except OSError as error:
            raise UnusableDirectory(
                self.path, f"it cannot be made: {error}", hint=f"make {parent} and give yourself access"
            ) from error

    def _owner(self) -> int | None:
        try:
            return int(read_file(self.files, f"{self.path}/{LOCK_FILE}"))
        except (OSError, ValueError):
            return None

    def _read_meta(self) -> None:
        if not self.files.exists(f"{self.path}/{META_FILE}"):
            self._refuse_if_not_empty()
            self._write_meta(self.epoch)
            self.is_new = True
            return
        meta = self._meta()
        if meta["format"] > FORMAT:
            raise UnusableDirectory(
                self.path,
                f"it has format {meta['format']}, this version of Runnel knows {FORMAT}",
                hint="use the version of Runnel that wrote it, or a newer one",
            )
        self.epoch = meta["epoch"]
        self.was_clean = self.files.exists(f"{self.path}/{CLEAN_FILE}")
        if not self.was_clean:
            self.next_epoch()

    def _meta(self) -> dict[str, Any]:
        try:
            meta = json.loads(read_file(self.files, f"{self.path}/{META_FILE}"))
            if not isinstance(meta["format"], int) or not isinstance(meta["epoch"], int):
                raise ValueError("format and epoch are no numbers")
            if not 0 <= meta["epoch"] < INT32_MAX:
                raise ValueError(f"epoch {meta['epoch']}")
            return dict(meta)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UnusableDirectory(
                self.path,
                f"its {META_FILE} cannot be read: {error}",
                hint="restore that file from a backup",
            ) from error

    def _refuse_if_not_empty(self) -> None:
        ours = {LOCK_FILE, META_FILE + ".tmp", "lost+found"}
        names = set(self.files.list(self.path))
        strangers = sorted(names - ours)
        if strangers and META_FILE not in names:  # else another process has just made it
            raise UnusableDirectory(
                self.path,
                f"it is no data directory of Runnel, but holds {strangers[0]}",
                hint="name an empty or a new directory",
            )

    def _write_meta(self, epoch: int) -> None:
        content = json.dumps({"format": FORMAT, "epoch": epoch}).encode() + b"\n"
        replace_file(self.files, f"{self.path}/{META_FILE}", content)

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_checkpoint(self.files, f"{self.path}/{name}")
        except ValueError as error:
            raise UnusableDirectory(
                self.path, f"its {name} cannot be read: {error}", hint="restore that file from a backup"
            ) from error

    def _checkpoint_if_readable(self, name: str) -> dict[TopicPartition, int]:
        """Without it no more is lost than the work of compacting again what is compact already."""
        try:
            return read_checkpoint(self.files, f"{self.path}/{name}")
        except ValueError as error:
            logger.warning("%s/%s cannot be read and is begun anew: %s", self.path, name, error)
            return {}

    # --- the shared facts

    def next_epoch(self) -> int:
        with self._lock:
            epoch = self.epoch + 1
            self._write_meta(epoch)
            self.epoch = epoch  # only now: what is given out must be on the disk
            return epoch

    def write_recovery_points(self) -> None:
        with self._lock:
            write_checkpoint(self.files, f"{self.path}/{RECOVERY_POINTS}", dict(self.recovery_points))

    def save_start_offset(self, partition: TopicPartition, offset: int) -> None:
        with self._lock:
            offsets = {**self.start_offsets, partition: offset}
            write_checkpoint(self.files, f"{self.path}/{START_OFFSETS}", offsets)
            self.start_offsets = offsets

    def save_clean_offset(self, partition: TopicPartition, offset: int, horizon: int | None) -> None:
        """Up to `offset` the partition is compacted; from `horizon` on there is a tombstone in it that may go."""
        with self._lock:
            horizons = {name: time for name, time in self.horizons.items() if name != partition}
            if horizon is not None:
                horizons[partition] = horizon
            if horizons != self.horizons:
                write_checkpoint(self.files, f"{self.path}/{HORIZONS}", horizons)
                self.horizons = horizons
            offsets = {**self.clean_offsets, partition: offset}
            write_checkpoint(self.files, f"{self.path}/{CLEAN_OFFSETS}", offsets)
            self.clean_offsets = offsets

    def forget_partition(self, partition: TopicPartition) -> None:
        """After a partition is gone: what is known of it must not be held against a new one of its name."""
        with self._lock:
            self.recovery_points.pop(partition, None)
            self.start_offsets = {name: offset for name, offset in self.start_offsets.items() if name != partition}
            self.clean_offsets = {name: offset for name, offset in self.clean_offsets.items() if name != partition}
            self.horizons = {name: time for name, time in self.horizons.items() if name != partition}
            self._write_checkpoints()
        self.tails.forget(str(partition))

    def _forget_deleted(self) -> None:
        """The same, for deletions that were interrupted."""
        there = set(self.partitions())
        kept = (self.recovery_points, self.start_offsets, self.clean_offsets, self.horizons)
        if not there.issuperset(name for known in kept for name in known):
            self.clean_offsets = {name: offset for name, offset in self.clean_offsets.items() if name in there}
            self.horizons = {name: time for name, time in self.horizons.items() if name in there}
            self.recovery_points = {name: offset for name, offset in self.recovery_points.items() if name in there}
            self.start_offsets = {name: offset for name, offset in self.start_offsets.items() if name in there}
            self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        self.write_recovery_points()
        write_checkpoint(self.files, f"{self.path}/{START_OFFSETS}", self.start_offsets)
        for name, values in ((CLEAN_OFFSETS, self.clean_offsets), (HORIZONS, self.horizons)):
            if values or self.files.exists(f"{self.path}/{name}"):
                write_checkpoint(self.files, f"{self.path}/{name}", values)

    def free_space(self) -> int | None:
        """None if the disk does not tell: whoever writes to it is told what is wrong."""
        try:
            return self.files.free_space(self.path)
        except OSError:
            return None

    def refuse_if_disk_low(self, size: int) -> None:
        """DiskLow if writing `size` bytes would leave less free than the low-disk mark; a mark of 0 is none.

        The disk is asked again after so many bytes, and each time while it is low.
        """
        self._room -= size
        if self._room < 0 and self.settings.low_disk_bytes:
            free, mark = self.free_space(), self.settings.low_disk_bytes
            if free is None:
                return
            self._room = min(free - size - mark, ROOM_BETWEEN_LOOKS)
            if self._room < 0:
                raise DiskLow(self.path, free, mark)

    def has_room(self, size: int) -> bool:
        """The same as an answer."""
        try:
            self.refuse_if_disk_low(size)
        except DiskLow:
            return False
        return True

    def partitions(self) -> list[TopicPartition]:
        """Those that have a folder, in order."""
        found = (TopicPartition.from_name(name) for name in self.files.list(self.path))
        return sorted(partition for partition in found if partition is not None)

    def remove_deleted(self) -> None:
        """Remove the folders of partitions whose deletion was interrupted, as far as that can be: nobody meets them."""
        for name in self.files.list(self.path):
            if name.endswith(DELETED_SUFFIX):
                try:
                    remove_folder(self.files, f"{self.path}/{name}")
                except OSError as error:
                    logger.warning("%s/%s could not be removed, it is at the next start: %s", self.path, name, error)


def remove_folder(files: Files, path: str) -> None:
    for name in files.list(path):
        files.remove(f"{path}/{name}")
    files.remove_directory(path)
