"""What a store keeps of a view's declaration, and which changes of it the table can follow."""

from __future__ import annotations

import json
from typing import NamedTuple

import pyarrow as pa

from runnel.views.errors import ViewChanged, ViewTaken
from runnel.views.layout import Layout
from runnel.views.store import Marker


class Kept(NamedTuple):
    """A row of the table of views."""

    name: str
    number: int
    query: str
    key: str
    schema: bytes
    epoch: int
    claimed_by: str
    batch: int | None
    checkpoint: str | None
    positions: str | None
    first_position: int
    next_position: int
    log: str | None = None  # a store that an older Runnel made has no such column before its next claim

    def layout(self) -> Layout:
        return Layout(self.name, tuple(json.loads(self.key)), pa.ipc.read_schema(pa.py_buffer(self.schema)))

    def marker(self) -> Marker | None:
        if self.batch is None or self.checkpoint is None or self.positions is None:
            return None
        return Marker(self.query, self.batch, self.checkpoint, json.loads(self.positions))

    def log_id(self) -> str | None:
        """Whose positions are those of the change log: the checkpoint by which it began; None before the first batch.
        It stays when a copy with the same columns takes the view's place, by which the checkpoint becomes another one.
        """
        return self.log or self.checkpoint


def key_text(layout: Layout) -> str:
    return json.dumps(layout.key)


def schema_bytes(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize().to_pybytes())


def check_owner(kept: Kept, query: str) -> None:
    if kept.query != query:
        raise ViewTaken(kept.name, query, kept.query)


def migrated(kept: Layout, declared: Layout) -> Layout:
    """The table that the declaration asks for, new columns at its end. ViewChanged if it cannot follow."""
    if kept.key != declared.key:
        raise ViewChanged(
            kept.name, f"its key was {', '.join(kept.key)} and is now declared as {', '.join(declared.key)}"
        )
    for field in kept.schema:
        _check_kept(kept.name, field, declared.schema)
    new = [field for field in declared.schema if field.name not in kept.columns]
    for field in new:
        _check_new(kept.name, field)
    return Layout(kept.name, kept.key, pa.schema([*kept.schema, *new]))


def _check_kept(view: str, field: pa.Field, declared: pa.Schema) -> None:
    if field.name not in declared.names:
        raise ViewChanged(view, f"its column {field.name!r} is no longer declared")
    now = declared.field(field.name).type
    if now != field.type:
        raise ViewChanged(view, f"its column {field.name!r} was of type {field.type} and is now declared as {now}")


def _check_new(view: str, field: pa.Field) -> None:
    if not field.nullable:
        raise ViewChanged(
            view, f"its new column {field.name!r} is never null, and the rows that are there have no value for it"
        )
