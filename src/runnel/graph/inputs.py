"""What a body can take as an input, and how it wants it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from runnel.graph.derived import Derived
    from runnel.graph.stream import Stream
    from runnel.graph.table import Table
    from runnel.graph.view import View

    Noun: TypeAlias = Stream | Derived | Table | View

CHANGE = "_change"
METADATA = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")


def taken_by_metadata(columns: Iterable[str]) -> list[str]:
    """Those that nobody could tell from the metadata of the record. Spark does not tell names apart by their case."""
    return [name for name in columns if name.lower() in METADATA]


@dataclass(frozen=True)
class Input:
    """A noun as a body reads it. With `changes`, a keyed one gives every change of a row, told apart by `_change`."""

    noun: Noun
    changes: bool = False
    metadata: bool = False

    def with_metadata(self) -> Input:
        """Also `_topic`, `_partition`, `_offset`, `_timestamp`, `_key` and `_headers` of each record; of a stream of
        changes, `_op`, `_before`, `_source_time`, `_transaction` and `_unavailable`, too.
        """
        return replace(self, metadata=True)


class Readable:
    """What every noun offers to those that read it."""

    def with_metadata(self: Noun) -> Input:  # type: ignore[misc]
        """Also `_topic`, `_partition`, `_offset`, `_timestamp`, `_key` and `_headers` of each record."""
        return Input(self, metadata=True)


class Keyed(Readable):
    def changes(self: Noun) -> Input:  # type: ignore[misc]
        """Every change instead of the latest rows: `_change` says insert, update_before, update_after or delete."""
        return Input(self, changes=True)
