"""Where in a query's directory its checkpoint is: in `checkpoint`, or in one whose name stands in a file beside it.

The checkpoint of a copy has a name that no other one has had. A Spark that has run a query holds the query's state for
some minutes more, in all of its processes, and writes a snapshot of it to where it was. When a copy has taken the place
of its view meanwhile, that is a directory nobody reads, and never the state of the copy.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

from runnel.files import DISK, replace_file

FIRST = "checkpoint"
NAME = "checkpoint-name"


def checkpoint_in(directory: Path) -> Path:
    try:
        return directory / (directory / NAME).read_text()
    except FileNotFoundError:
        return directory / FIRST


def is_named(directory: Path) -> bool:
    """Whether its checkpoint has a name of its own."""
    return (directory / NAME).exists()


def name_checkpoint(directory: Path) -> None:
    """So that it has one, if it has none; also if whoever did it before has died on the way."""
    if not is_named(directory):
        let_count(another_in(directory))
    named = checkpoint_in(directory)
    if not named.exists() and (directory / FIRST).exists():
        (directory / FIRST).rename(named)
        DISK.sync_directory(str(directory))


def another_in(directory: Path) -> Path:
    """For one that is not there yet."""
    return directory / f"{FIRST}-{uuid4().hex}"


def let_count(checkpoint: Path) -> None:
    """From now on this is the one of its directory. On the disk when it returns."""
    DISK.sync_directory(str(checkpoint.parent))
    replace_file(DISK, str(checkpoint.parent / NAME), checkpoint.name.encode())


def remove_strays(directory: Path) -> None:
    """What a Spark has written of another one's state. It has no metadata, which Spark writes when it begins one."""
    for found in directory.glob(f"{FIRST}*"):
        if found.is_dir() and found != checkpoint_in(directory) and not (found / "metadata").exists():
            shutil.rmtree(found, ignore_errors=True)
