"""The snapshots of producer state in a partition's folder: `00000000000000001042.snapshot` is that before offset 1042.

One is written whenever a segment begins, at a checkpoint and at a clean stop; what stands in the log after the newest
one is replayed. Any of them may be missing or broken: then the one before it is used.
"""

from __future__ import annotations

import logging

from runnel.errors import CorruptBatch
from runnel.files import Files, read_file, replace_file
from runnel.log.producers import IndexContent, Producers

SUFFIX = ".snapshot"

logger = logging.getLogger(__name__)


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SUFFIX}"


def write_snapshot(
    files: Files, directory: str, offset: int, producers: Producers, indexed: IndexContent | None = None
) -> None:
    """`indexed` is what the `.txnindex` of the segment that ends there, or up to there, holds."""
    replace_file(files, snapshot_path(directory, offset), producers.encode(indexed))


def read_snapshot(files: Files, directory: str, offset: int) -> Producers | None:
    """The one at this offset; None if it is missing or cannot be read."""
    path = snapshot_path(directory, offset)
    if not files.exists(path):
        return None
    try:
        return Producers.decode(read_file(files, path))
    except CorruptBatch as error:
        logger.warning("%s: %s", path, error)
        return None


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    stems = [name.removesuffix(SUFFIX) for name in files.list(directory) if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def newest_snapshot(files: Files, directory: str, end: int) -> tuple[int, Producers] | None:
    """The newest one that can be read and is not from after `end`."""
    for offset in reversed(snapshot_offsets(files, directory)):
        if offset > end:
            continue
        path = snapshot_path(directory, offset)
        try:
            return offset, Producers.decode(read_file(files, path))
        except CorruptBatch as error:
            logger.warning("%s: %s; using an older one", path, error)
    return None


def remove_snapshots(
    files: Files,
    directory: str,
    *,
    keep: set[int] | None = None,
    before: int | None = None,
    after: int | None = None,
) -> None:
    """Remove those that are not to be kept, or are before an offset, or after one."""
    for offset in snapshot_offsets(files, directory):
        if (
            (keep is not None and offset not in keep)
            or (before is not None and offset < before)
            or (after is not None and offset > after)
        ):
            files.remove(snapshot_path(directory, offset))
