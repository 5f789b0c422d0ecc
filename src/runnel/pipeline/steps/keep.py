"""The view's own steps: pass over what the store has, and keep the rest, in one transaction with its marker."""

from __future__ import annotations

from runnel.pipeline.batch import Batch
from runnel.pipeline.markers import is_done
from runnel.views.store import Marker, ViewWriter


class PassOver:
    """A batch that the store has seen is finished."""

    def __init__(self, writer: ViewWriter) -> None:
        self._writer = writer

    def __call__(self, batch: Batch) -> Batch | None:
        done = is_done(batch.query, batch.number, batch.checkpoint, batch.positions, self._writer.marker())
        return None if done else batch


class Keep:
    def __init__(self, writer: ViewWriter) -> None:
        self._writer = writer

    def __call__(self, batch: Batch) -> Batch:
        assert batch.rows is not None
        batch.wait_for_disk()
        with batch.watch.step("keep"):
            self._writer.apply(batch.rows, Marker(batch.query, batch.number, batch.checkpoint, batch.positions))
            self._writer.trim()
        return batch
