"""A table: a keyed topic, compacted or captured, read as the latest row of each key."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.graph.formats import Columns
from runnel.graph.inputs import Keyed
from runnel.graph.reading import Reading


@dataclass(frozen=True, eq=False)
class Table(Keyed):
    """A record without a value deletes the row of its key. The key's columns are read from the value."""

    name: str
    columns: Columns
    key: tuple[str, ...]
    reading: Reading

    @property
    def topic(self) -> str:
        return self.name

    def __str__(self) -> str:
        return f'table "{self.name}"'
