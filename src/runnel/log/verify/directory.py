"""The files that all partitions of a data directory share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from runnel.errors import UnusableDirectory
from runnel.files import Files, read_file
from runnel.log.checkpoints import CLEAN_OFFSETS, HORIZONS, RECOVERY_POINTS, START_OFFSETS, TopicPartition
from runnel.log.directory import CLEAN_FILE, DELETED_SUFFIX, FORMAT, LOCK_FILE, META_FILE
from runnel.log.dump import CheckpointRow, Malformed, checkpoint_rows, synced_rows
from runnel.log.synced import FILE_NAME as SYNCED_FILE
from runnel.log.verify.partition import Known
from runnel.log.verify.report import Report

CHECKPOINTS = {RECOVERY_POINTS, START_OFFSETS, CLEAN_OFFSETS, HORIZONS}
OURS = {LOCK_FILE, META_FILE, CLEAN_FILE, SYNCED_FILE, "lost+found"} | CHECKPOINTS


@dataclass(slots=True)
class Shared:
    """What the shared files say. A file that cannot be read is None: then nothing is held against it."""

    clean: bool = True
    epoch: int | None = None
    recovery_points: dict[TopicPartition, CheckpointRow] | None = field(default_factory=dict)
    start_offsets: dict[TopicPartition, CheckpointRow] | None = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)

    def known_of(self, partition: TopicPartition) -> Known:
        return Known(
            clean=self.clean,
            start_offset=_offset_of(partition, self.start_offsets),
            recovery_point=_offset_of(partition, self.recovery_points),
            synced_offset=self.synced.get(str(partition), 0),
            epoch=self.epoch,
        )


def _offset_of(partition: TopicPartition, rows: dict[TopicPartition, CheckpointRow] | None) -> int | None:
    """A file that can be read and has no line for the partition says 0."""
    if rows is None:
        return None
    return rows[partition].offset if partition in rows else 0


class DirectoryCheck:
    def __init__(self, files: Files, path: str, report: Report) -> None:
        self._files = files
        self._path = path
        self._report = report

    def shared(self) -> Shared:
        """Read the shared files and tell what is wrong with each of them alone."""
        shared = Shared(clean=self._files.exists(f"{self._path}/{CLEAN_FILE}"), epoch=self._epoch())
        shared.recovery_points = self._checkpoint(RECOVERY_POINTS)
        shared.start_offsets = self._checkpoint(START_OFFSETS)
        shared.synced = self._synced()
        for name in (CLEAN_OFFSETS, HORIZONS):
            self._checkpoint(name)
        return shared

    def partitions(self, shared: Shared) -> list[TopicPartition]:
        """Those that have a folder, after a word on all else that stands in the directory."""
        found: list[TopicPartition] = []
        for name in sorted(self._files.list(self._path)):
            partition = TopicPartition.from_name(name)
            if partition is not None and str(partition) == name:
                found.append(partition)
            elif name not in OURS:
                self._report.note(f"{self._path}/{name}", _what_is_strange(name))
        self._check_named(RECOVERY_POINTS, shared.recovery_points, found)
        self._check_named(START_OFFSETS, shared.start_offsets, found)
        return sorted(found)

    def _epoch(self) -> int | None:
        path = f"{self._path}/{META_FILE}"
        try:
            format_version, epoch = _format_and_epoch(read_file(self._files, path))
        except (ValueError, RecursionError) as error:
            self._report.problem(path, f"it is not what the log writes: {error}", position=0)
            return None
        except OSError as error:
            self._report.problem(path, f"it cannot be read: {error.strerror}")
            return None
        if format_version > FORMAT:
            raise UnusableDirectory(
                self._path,
                f"it has format {format_version}, this version of Runnel knows {FORMAT}",
                hint="use the version of Runnel that wrote it, or a newer one",
            )
        return epoch

    def _checkpoint(self, name: str) -> dict[TopicPartition, CheckpointRow] | None:
        path = f"{self._path}/{name}"
        rows: dict[TopicPartition, CheckpointRow] = {}
        try:
            for row in checkpoint_rows(read_file(self._files, path)):
                partition = TopicPartition(row.topic, row.partition)
                if partition in rows or row.offset < 0:
                    what = "a second line for it" if partition in rows else "no offset"
                    self._report.problem(path, f"{partition} {row.offset}: {what}", position=row.position)
                rows[partition] = row
        except FileNotFoundError:
            return {}
        except Malformed as error:
            self._report.problem(path, error.reason, position=error.position)
            return None
        except OSError as error:
            self._report.problem(path, f"it cannot be read: {error.strerror}")
            return None
        return rows

    def _synced(self) -> dict[str, int]:
        """A hint that is written without syncs: it may be torn, and then counts as unknown."""
        path = f"{self._path}/{SYNCED_FILE}"
        known: dict[str, int] = {}
        torn: list[int] = []
        try:
            for row in synced_rows(read_file(self._files, path)):
                if row.offset is None:
                    torn.append(row.position)
                else:
                    known[row.partition] = row.offset
        except FileNotFoundError:
            pass
        except Malformed as error:
            torn.append(error.position)
        except OSError as error:
            self._report.problem(path, f"it cannot be read: {error.strerror}")
        if torn:
            what = "an entry is torn: up to where its partition was synced counts as unknown"
            self._report.note(path, what, position=torn[0])
        return known

    def _check_named(
        self, name: str, rows: dict[TopicPartition, CheckpointRow] | None, partitions: list[TopicPartition]
    ) -> None:
        for partition, row in (rows or {}).items():
            if partition not in partitions:
                what = f"{partition} is to be there up to offset {row.offset}, but it has no folder"
                self._report.problem(f"{self._path}/{name}", what, position=row.position, offset=row.offset)


def _format_and_epoch(content: bytes) -> tuple[int, int]:
    meta = json.loads(content)
    if not isinstance(meta, dict):
        raise ValueError("no object")
    format_version, epoch = meta.get("format"), meta.get("epoch")
    if type(format_version) is not int or type(epoch) is not int or format_version < 1 or epoch < 0:
        raise ValueError(f"format {format_version!r}, epoch {epoch!r}")
    return format_version, epoch


def _what_is_strange(name: str) -> str:
    if name.endswith(DELETED_SUFFIX):
        return "left over from the deletion of a partition; it will be removed at the next start"
    if name.endswith(".tmp"):
        return "left over from an interrupted write; it is harmless"
    return "not a file of a log; it is left alone"
