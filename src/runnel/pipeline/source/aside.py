"""Rows that were put aside: late ones and rejected ones, as they came, in a file for each partition and batch.

The source's task writes it when it has read its range to the end, under a temporary name first; for small ranges that
were read at once, and of which nothing is put aside, there is one file with their counts. A repeat of the batch writes
the same. The batch's own transaction publishes the rows, so nothing here has an effect that could come twice, and
nothing need be synced: what is lost with the machine is made again by the repeat.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from runnel.client.columns import HEADERS
from runnel.durable import durable
from runnel.pipeline.source.offsets import Range

LATE = "late"
REJECTED = "rejected"
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("stream", pa.string()),  # as it was declared; one that reads several topics has another name than these
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
LONGEST = 128  # characters of a partition's name that stand in that of a file
IN_TIME = b"in time"
GONE = b"gone"

Gone = tuple[int, int]  # offsets, from the first to before the second


class Aside(NamedTuple):
    """What came of one range: how many rows went on, those that did not, and the offsets that were gone."""

    in_time: int
    rows: pa.Table
    gone: tuple[Gone, ...] = ()

    @property
    def late(self) -> int:
        return self._count(LATE)

    @property
    def rejected(self) -> int:
        return self._count(REJECTED)

    def _count(self, kind: str) -> int:
        return int(pc.sum(pc.equal(self.rows["kind"], kind)).as_py()) if self.rows.num_rows else 0


def directory_of(root: Path, batch: int) -> Path:
    return root / "aside" / str(batch)


def write(
    directory: Path, number: int, read: Range, in_time: int, rows: list[pa.Table], gone: Iterable[Gone] = ()
) -> None:
    """`number` is the input's."""
    directory.mkdir(parents=True, exist_ok=True)
    table = pa.concat_tables(rows) if rows else SCHEMA.empty_table()
    table = table.replace_schema_metadata({IN_TIME: str(in_time).encode(), GONE: json.dumps(list(gone)).encode()})
    temporary = _temporary(directory)
    with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    with durable("source.aside"):
        temporary.replace(path_of(directory, number, read))


def write_counts(directory: Path, number: int, in_time: Mapping[Range, int]) -> None:
    """Of ranges that were read at once: how many rows of each went on, which are all."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(directory)
    temporary.write_text(json.dumps({_name_of(number, read): count for read, count in in_time.items()}))
    with durable("source.aside"):
        temporary.replace(_counts_path(directory, number))


def read_aside(directory: Path, number: int, read: Range) -> Aside | None:
    """None if no task has read this range to its end, or a power cut has left half of what it wrote."""
    path = path_of(directory, number, read)
    if not path.exists():
        return _read_counts(directory, number, read)
    try:
        with pa.OSFile(str(path), "rb") as file:
            table = pa.ipc.open_stream(file).read_all()
    except pa.ArrowInvalid:
        return None
    about = table.schema.metadata
    return Aside(int(about[IN_TIME]), table, tuple((first, end) for first, end in json.loads(about[GONE])))


def forget_before(root: Path, batch: int) -> None:
    """Those of older batches, which are published."""
    for found in (root / "aside").glob("*"):
        if found.name.isdigit() and int(found.name) < batch:
            shutil.rmtree(found, ignore_errors=True)


def forget_after(root: Path, batch: int) -> None:
    """Those of later batches, which are planned anew."""
    for found in (root / "aside").glob("*"):
        if found.name.isdigit() and int(found.name) > batch:
            shutil.rmtree(found, ignore_errors=True)


def path_of(directory: Path, number: int, read: Range) -> Path:
    return directory / f"{_name_of(number, read)}.arrow"


def _name_of(number: int, read: Range) -> str:
    """The name of a topic alone may be nearly as long as that of a file may be: of such a one, its digest."""
    name = read.name if len(read.name) <= LONGEST else hashlib.sha256(read.name.encode()).hexdigest()
    return f"{number}-{name}-{read.start}-{read.end}"


def _counts_path(directory: Path, number: int) -> Path:
    return directory / f"{number}.json"


def _read_counts(directory: Path, number: int, read: Range) -> Aside | None:
    try:
        told = json.loads(_counts_path(directory, number).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    count = told.get(_name_of(number, read))
    return None if count is None else Aside(count, SCHEMA.empty_table())


def _temporary(directory: Path) -> Path:
    return directory / f"{os.getpid()}-{uuid.uuid4().hex}"
