"""Rows on which the body raises, and which are left out of their batch: a file for each batch that has any.

The driver has found them, and writes the file before the batch is run again without them. A task that reads a partition
puts them aside with the rejected ones, as it does in every repeat of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from runnel.durable import durable
from runnel.files import DISK, make_directories, replace_file
from runnel.pipeline.source.offsets import Range

KEPT = 1  # batches before the one that runs, since Spark may repeat the last that is done

Place: TypeAlias = tuple[str, int, int]  # topic, partition, offset


class LeftOut(NamedTuple):
    """One row, of the input of this number, and why."""

    input: int
    topic: str
    partition: int
    offset: int
    reason: str

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset

    def is_in(self, read: Range) -> bool:
        return (self.topic, self.partition) == (read.topic, read.partition) and read.start <= self.offset < read.end


def read_left_out(root: Path, batch: int) -> list[LeftOut]:
    """`root` is the query's directory."""
    try:
        told = json.loads(path_of(root, batch).read_text())
    except FileNotFoundError:
        return []
    return [LeftOut(*each) for each in told]


def write_left_out(root: Path, batch: int, rows: Iterable[LeftOut]) -> None:
    """Besides those that are there already. On the disk when it returns."""
    known = {(each.input, each.place): each for each in [*read_left_out(root, batch), *rows]}
    path = path_of(root, batch)
    make_directories(str(path.parent))
    with durable("body.left out"):
        replace_file(DISK, str(path), json.dumps([known[each] for each in sorted(known)]).encode())


def forget_before(root: Path, batch: int) -> None:
    for found in path_of(root, 0).parent.glob("*.json"):
        if found.stem.isdigit() and int(found.stem) < batch - KEPT:
            found.unlink(missing_ok=True)


def forget_after(root: Path, batch: int) -> None:
    """Those of later batches, which are planned anew."""
    for found in path_of(root, 0).parent.glob("*.json"):
        if found.stem.isdigit() and int(found.stem) > batch:
            found.unlink(missing_ok=True)


def path_of(root: Path, batch: int) -> Path:
    return root / "left-out" / f"{batch}.json"
