"""Two readings of one input go the same way.

A body may use an input twice, as in a join with itself. Spark then makes two sources of it, each planned by a process
of its own. If their batches ended at different records, a record could be late in the one and in time in the other, and
would be counted twice. So one of them decides how far a batch goes and writes it down, and the others follow. The one
that Spark asks first decides, and holds a lock as long as its process lives. Nothing of it outlives a run.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from pathlib import Path

from runnel.pipeline.source.offsets import Offsets


class Agreement:
    """`path` is that of the input, without an ending."""

    def __init__(self, path: Path) -> None:
        self._lock = path.with_suffix(".lock")
        self._decision = path.with_suffix(".decision")
        self._is_held = False

    @property
    def is_ours(self) -> bool:
        """Whether we decide; asked again each time, because who did may have ended."""
        if not self._is_held:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                self._is_held = True
                weakref.finalize(self, os.close, descriptor)
        return self._is_held

    def decide(self, start: Offsets, end: Offsets) -> Offsets:
        """What is decided of nothing new need not be told."""
        if end != start:
            self._decision.parent.mkdir(parents=True, exist_ok=True)  # a later run removes what it finds
            temporary = self._decision.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps([start.to_json(), end.to_json()]))
            temporary.replace(self._decision)
        return end

    def follow(self, start: Offsets) -> Offsets:
        """What was decided from there on; where nothing was, there is nothing new."""
        try:
            begun, end = json.loads(self._decision.read_text())
        except FileNotFoundError:
            return start
        return Offsets.from_json(end) if begun == start.to_json() else start
