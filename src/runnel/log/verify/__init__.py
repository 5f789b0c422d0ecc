"""A check of a whole data directory, or of one partition's folder, that changes nothing.

It reads every byte of every segment and holds it against all that is written beside it: checksums, lengths, counts and
offsets of the batches, their records, the indexes, snapshots, leader epochs and checkpoints. So it tells before a
reader meets it what a disk, or somebody, has changed.

    report = verify("data")
    for problem in report.problems:
        print(problem.severity, problem.path, problem.position, problem.offset, problem.what)

A directory that another process has open is refused, since it changes while it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from runnel.errors import DirectoryOwned, UnusableDirectory
from runnel.files import Files, read_file
from runnel.log.checkpoints import TopicPartition
from runnel.log.directory import LOCK_FILE, META_FILE
from runnel.log.read_only import READ_ONLY_DISK
from runnel.log.segment import LOG_SUFFIX
from runnel.log.verify.directory import DirectoryCheck
from runnel.log.verify.partition import Known, PartitionCheck
from runnel.log.verify.report import Meter, Problem, Progress, Report, Severity, Totals

__all__ = ["Problem", "Progress", "Report", "Severity", "Totals", "verify"]


def verify(
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    files: Files = READ_ONLY_DISK,
    progress: Progress | None = None,
) -> Report:
    """Check a data directory or a partition's folder.

    `force` reads a directory that is in use, too: what changes meanwhile may then be told as a problem.
    """
    path = os.path.abspath(path)
    report = Report(path)
    home, names = _home_of(files, path)
    with _owned(files, home, report, force=force):
        if home is None:
            _check_folders(files, {path: Known()}, report, progress)
        else:
            _check_home(files, home, names, report, progress)
    return report


def _home_of(files: Files, path: str) -> tuple[str | None, list[TopicPartition]]:
    """The data directory, and the partition if `path` is one's folder; no directory if it stands alone."""
    hint = "name a data directory, or the folder of a partition"
    try:
        names = files.list(path)
    except OSError as error:
        raise UnusableDirectory(path, error.strerror or str(error), hint=hint) from error
    parent, _, name = path.rpartition("/")
    partition = TopicPartition.from_name(name)
    if META_FILE in names:
        return path, []
    if partition is not None and str(partition) == name and files.exists(f"{parent}/{META_FILE}"):
        return parent, [partition]
    if any(name.endswith(LOG_SUFFIX) for name in names):
        return None, []
    if LOCK_FILE in names or any(TopicPartition.from_name(name) for name in names):
        return path, []
    raise UnusableDirectory(path, "it holds neither a log nor a partition of one", hint=hint)


@contextmanager
def _owned(files: Files, home: str | None, report: Report, *, force: bool) -> Iterator[None]:
    """Hold the directory's lock. One without a lock file was never opened, or is a copy: it has no owner."""
    lock_path = f"{home}/{LOCK_FILE}"
    if home is None or not files.exists(lock_path):
        yield
        return
    try:
        lock = files.lock(lock_path)
    except OSError as error:
        hint = "give yourself access, or check a copy"
        raise UnusableDirectory(home, f"its lock cannot be taken: {error.strerror}", hint=hint) from error
    if lock is None:
        owned = DirectoryOwned(home, _owner(files, lock_path))
        if not force:
            raise owned
        report.note(lock_path, f"{owned.what}: what changed meanwhile may be told as a problem")
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _owner(files: Files, lock_path: str) -> int | None:
    try:
        return int(read_file(files, lock_path))
    except (OSError, ValueError):
        return None


def _check_home(files: Files, home: str, only: list[TopicPartition], report: Report, progress: Progress | None) -> None:
    directory = DirectoryCheck(files, home, report)
    shared = directory.shared()
    partitions = only or directory.partitions(shared)
    known = {f"{home}/{partition}": shared.known_of(partition) for partition in partitions}
    _check_folders(files, known, report, progress)


def _check_folders(files: Files, known: dict[str, Known], report: Report, progress: Progress | None) -> None:
    meter = Meter(progress, sum(_size(files, folder) for folder in known))
    for folder, facts in known.items():
        try:
            PartitionCheck(files, folder, facts, report, meter).run()
        except OSError as error:
            report.problem(folder, f"it cannot be read: {error.strerror}")


def _size(files: Files, folder: str) -> int:
    """The bytes of its segments, as far as they can be told."""
    try:
        paths = [f"{folder}/{name}" for name in files.list(folder) if name.endswith(LOG_SUFFIX)]
        return sum(files.open(path).size() for path in paths)
    except OSError:
        return 0
