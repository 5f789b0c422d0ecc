"""A small view that the tests keep: how often each page was seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from runnel.views.store import Declared, Marker, Store, ViewWriter

QUERY = "shop.clicks"
CHECKPOINT = "checkpoint-1"
SCHEMA = pa.schema([("page", pa.string()), ("seen", pa.int64())])
CLICKS = Declared("clicks", ("page",), SCHEMA)


def marker(batch: int, checkpoint: str = CHECKPOINT, **positions: Any) -> Marker:
    return Marker(QUERY, batch, checkpoint, positions)


def seen(*rows: tuple[str | None, int | None], changes: list[str] | None = None) -> pa.Table:
    columns: dict[str, Any] = {
        "page": pa.array([page for page, _ in rows], pa.string()),
        "seen": pa.array([count for _, count in rows], pa.int64()),
    }
    if changes is not None:
        columns["_change"] = changes
    return pa.table(columns)


@contextmanager
def claimed(store: Store, declared: Declared = CLICKS) -> Iterator[ViewWriter]:
    with store.writer(declared, QUERY) as writer:
        writer.claim()
        yield writer


def content(store: Store, name: str = "clicks") -> dict[str, int]:
    with store.reader(name) as reader:
        return {row["page"]: row["seen"] for row in reader.rows().to_pylist()}


def told(store: Store, from_position: int = 0) -> list[tuple[Any, ...]]:
    """The changes: position, kind, page, seen before, seen after."""
    with store.reader("clicks") as reader:
        return [
            (
                change.position,
                change.kind,
                change.key["page"],
                change.before and change.before["seen"],
                change.after and change.after["seen"],
            )
            for change in reader.changes(from_position)
        ]
