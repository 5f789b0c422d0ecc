"""The files of a log as plain rows, for people who want to see what stands in them.

A generator reads one kind of file from its beginning and yields one row for each thing in it. Where the bytes stop
making sense it raises `Malformed`; the rows before are whole. `rows_of` picks the generator by the file's name and
raises an error that names the file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from runnel.errors import Permanent
from runnel.files import Files, read_file
from runnel.log.dump.rows import (
    BatchRow,
    CheckpointRow,
    EpochRow,
    IndexRow,
    Malformed,
    ProducerRow,
    Row,
    SyncedRow,
    TimeIndexRow,
    TxnIndexRow,
)
from runnel.log.dump.segments import index_rows, segment_rows, time_index_rows, txn_index_rows
from runnel.log.dump.states import checkpoint_rows, epoch_rows, snapshot_rows, synced_rows
from runnel.log.epochs import FILE_NAME as EPOCHS_FILE
from runnel.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from runnel.log.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from runnel.log.synced import FILE_NAME as SYNCED_FILE
from runnel.log.txn_index import SUFFIX as TXN_INDEX_SUFFIX

__all__ = [
    "BatchRow",
    "CheckpointRow",
    "EpochRow",
    "IndexRow",
    "Malformed",
    "ProducerRow",
    "Row",
    "SyncedRow",
    "TimeIndexRow",
    "TxnIndexRow",
    "UnreadableFile",
    "checkpoint_rows",
    "epoch_rows",
    "has_offsets",
    "index_rows",
    "rows_of",
    "segment_rows",
    "snapshot_rows",
    "synced_rows",
    "time_index_rows",
    "txn_index_rows",
]

CHECKPOINT_SUFFIX = "-offset-checkpoint"


class UnreadableFile(Permanent):
    """A file that cannot be shown, or not from `position` on."""

    def __init__(self, path: str, reason: str, *, position: int | None = None, hint: str = "") -> None:
        where = f"is damaged at position {position:,}" if position is not None else "cannot be shown"
        super().__init__(f"{path} {where}: {reason}", hint=hint)
        self.path = path
        self.position = position
        self.reason = reason


def rows_of(files: Files, path: str, *, offset: int = 0, records: bool = True) -> Iterator[Row]:
    """The rows of the file, in its order; of segments and indexes only those from `offset` on."""
    _refuse_unless_file(files, path)
    try:
        yield from _generator(path)(files, path, offset, records)
    except Malformed as end:
        raise UnreadableFile(path, end.reason, position=end.position, hint="what stands before it is whole") from end
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from error


def has_offsets(path: str) -> bool:
    """Whether `rows_of` can begin at an offset."""
    return path.endswith((LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX))


def _refuse_unless_file(files: Files, path: str) -> None:
    if not files.exists(path):
        raise UnreadableFile(path, "there is no such file")
    with contextlib.suppress(OSError):
        files.list(path)
        hint = "name one of its files, or check all of them with `runnel log verify`"
        raise UnreadableFile(path, "it is a directory", hint=hint)


def _generator(path: str) -> Callable[[Files, str, int, bool], Iterator[Row]]:
    name = path.rpartition("/")[2]
    for ending, generator in _GENERATORS.items():
        if name.endswith(ending):
            return generator
    hint = f"files that can be shown end in {', '.join(_GENERATORS)}"
    raise UnreadableFile(path, "its name is of no kind that is known", hint=hint)


def _segment(files: Files, path: str, offset: int, records: bool) -> Iterator[Row]:
    return segment_rows(files.open(path), offset, records=records)


def _index(files: Files, path: str, offset: int, _: bool) -> Iterator[Row]:
    rows = index_rows(files.open(path), _base_offset(path))
    return (row for row in rows if row.offset >= offset)


def _time_index(files: Files, path: str, offset: int, _: bool) -> Iterator[Row]:
    rows = time_index_rows(files.open(path), _base_offset(path))
    return (row for row in rows if row.offset >= offset)


def _txn_index(files: Files, path: str, offset: int, _: bool) -> Iterator[Row]:
    return (row for row in txn_index_rows(files.open(path)) if row.last_offset >= offset)


def _small(rows: Callable[[bytes], Iterator[Row]]) -> Callable[[Files, str, int, bool], Iterator[Row]]:
    return lambda files, path, _offset, _records: rows(read_file(files, path))


def _base_offset(path: str) -> int:
    """From the file's name: an index counts from there."""
    stem = path.rpartition("/")[2].partition(".")[0]
    if not re.fullmatch("[0-9]{20}", stem):
        raise UnreadableFile(
            path,
            "its name is no base offset, from which an index counts",
            hint="name the copy as the file was named, such as 00000000000000001042.index",
        )
    return int(stem)


_GENERATORS: dict[str, Callable[[Files, str, int, bool], Iterator[Row]]] = {
    LOG_SUFFIX: _segment,
    INDEX_SUFFIX: _index,
    TIME_INDEX_SUFFIX: _time_index,
    TXN_INDEX_SUFFIX: _txn_index,
    SNAPSHOT_SUFFIX: _small(snapshot_rows),
    CHECKPOINT_SUFFIX: _small(checkpoint_rows),
    EPOCHS_FILE: _small(epoch_rows),
    SYNCED_FILE: _small(synced_rows),
}
