"""Takes back a batch that was planned and has had no effect: it is planned anew, and may read other records.

What the batch had decided beside its offsets goes with them: which versions of tables it counts as of, which rows it
leaves out, what it has put aside and remembered. All of that is found by the batch's number, and the new one has the
same.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from runnel.files import DISK
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_path import checkpoint_in
from runnel.pipeline.source import aside, left_out
from runnel.pipeline.tables.told import UNTOLD, forget_untold
from runnel.pipeline.tables.versions import Versions


def unplan(directory: Path, done: int) -> None:
    """All that the query in this directory has planned behind batch `done`, or behind the last that Spark says is done.
    To be called while nobody runs the query. On the disk when it returns.

    The plan goes first: who dies before that leaves the batch with all that it had decided; who dies later leaves what
    no batch belongs to, and the next call takes it away.
    """
    last = Checkpoint(checkpoint_in(directory)).unplan(done)
    for part in (directory / "tables").glob("*/*"):
        if part.is_dir():
            Versions(part, pa.schema([])).take_back_after(last)
    left_out.forget_after(directory, last)
    aside.forget_after(directory, last)
    forget_untold(directory, after=last)
    for each in ("left-out", "aside", UNTOLD):
        if (directory / each).exists():
            DISK.sync_directory(str(directory / each))
