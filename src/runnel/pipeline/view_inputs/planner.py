"""How far the next batch of a view's changes goes. It lives in the driver, and asks the store each time.

The first batch is the view as it was found: its rows, kept in a file, each an insert. What follows is the view's change
log, in whole batches of its own. An offset is a position of that log, plus one: 0 is before the rows that were found.
When the view is rebuilt and its columns stay the same, the log goes on: what has changed is a batch like any other.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow as pa

from runnel.durable import durable
from runnel.files import DISK, replace_file
from runnel.pipeline.errors import ChangesGone, OtherCheckpoint
from runnel.pipeline.source.agreement import Agreement
from runnel.pipeline.source.hold import FREE, Hold
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.view_inputs.spec import ViewSpec
from runnel.views.errors import PositionOutOfRange
from runnel.views.store import Ahead, Marker, ViewReader

ROWS = 100_000  # of the change log in a batch, about: it ends where a batch of the view ended
BEFORE = 0
FOUND = "found"


class Planner:
    """`reader` is the view's. `rows` are about so many as a batch takes."""

    def __init__(self, spec: ViewSpec, reader: ViewReader, *, rows: int = ROWS, hold: Hold = FREE) -> None:
        self._spec = spec
        self._hold = hold
        self._reader = reader
        self._rows = rows
        self._is_ending = False
        self._until: int | None = None
        self._agreement = Agreement(spec.agreement)

    def first(self) -> Offsets:
        """The offsets of batch 0. What was found is in files by then: a repeat must begin with the same."""
        return Offsets.from_json(self._begun())

    def stop_at_latest(self) -> None:
        """Nothing beyond what is there when the next batch is planned: for a run that ends when it has caught up."""
        self._is_ending = True

    def next(self, start: Offsets) -> Offsets:
        at = self._offset(start)
        if not self._agreement.is_ours:
            return self._agreement.follow(start)
        return self._agreement.decide(start, self._next(start, at))

    def _next(self, start: Offsets, at: int) -> Offsets:
        if not self._hold.is_let_go():
            return start
        if at == BEFORE:
            return Offsets(start.input, {self._spec.place: self._begun()[FOUND]}, start.ids)
        ahead = self._ahead(at - 1)
        known = start.ids.get(self._spec.place[0], "")
        if known not in ("", ahead.log, _checkpoint(ahead.marker)):  # older ones have kept the view's checkpoint
            raise OtherCheckpoint(self._spec.query, f"the view {self._spec.view}, which it reads, was made anew")
        if self._is_ending and self._until is None:
            self._until = ahead.latest
        end = ahead.next_position if self._until is None else min(ahead.next_position, self._until)
        return self._offsets(max(end + 1, at), ahead.log)

    def _ahead(self, position: int) -> Ahead:
        try:
            return self._reader.ahead(position, about=self._rows)
        except PositionOutOfRange as error:
            raise ChangesGone(self._spec.query, error) from error

    def _begun(self) -> dict[str, Any]:
        path = self._spec.start_file
        if not path.exists():
            snapshot = self._reader.snapshot()
            found = snapshot.next_position + 1
            offsets = self._offsets(BEFORE if snapshot.rows.num_rows else found, snapshot.log)
            path.parent.mkdir(parents=True, exist_ok=True)
            mark = f".{os.getpid()}"  # whoever plays an app in a test writes the same, perhaps at the same time
            with durable("view.found"):
                replace_file(DISK, str(self._spec.snapshot_file), _written(snapshot.rows), mark=mark)
            with durable("source.start"):
                replace_file(DISK, str(path), json.dumps({**offsets.to_json(), FOUND: found}).encode(), mark=mark)
        told = json.loads(path.read_text())
        assert isinstance(told, dict)
        return told

    def _offset(self, start: Offsets) -> int:
        """Spark hands sources their offsets by their order in the body, which somebody may have changed."""
        if start.input != self._spec.number or self._spec.place not in start.next:
            where = ", ".join(sorted({name for name, _ in start.next}))
            what = f"its inputs have changed: the view {self._spec.view} is where {where} was"
            raise OtherCheckpoint(self._spec.query, what)
        return start.next[self._spec.place]

    def _offsets(self, offset: int, log: str) -> Offsets:
        name, _ = self._spec.place
        return Offsets(self._spec.number, {self._spec.place: offset}, {name: log})


def _checkpoint(marker: Marker | None) -> str:
    """Of the query that keeps the view."""
    return marker.checkpoint if marker else ""


def _written(rows: pa.Table) -> bytes:
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_file(buffer, rows.schema) as file:
        file.write_table(rows)
    return bytes(buffer.getvalue())
