"""Rows of the log, one after the other: which columns are null, and then the values of the others. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

from runnel.capture.mariadb.binlog import Rows
from runnel.capture.mariadb.values import Decode
from runnel.capture.tables import UNCHANGED, UNKNOWN, Absent, Row


class Image:
    """Rows with these of a table's columns. Those that the log leaves out are `absent`."""

    def __init__(self, decoders: Sequence[Decode], places: Sequence[int], absent: Absent) -> None:
        self._decoders = [decoders[place] for place in places]
        self._nulls = (len(places) + 7) // 8
        self._places = None if len(places) == len(decoders) else places
        self._width = len(decoders)
        self._absent = absent

    def read(self, data: bytes, at: int) -> tuple[Row, int]:
        behind = at + self._nulls
        nulls, at = int.from_bytes(data[at:behind], "little"), behind
        values: list[Any] = []
        for decode in self._decoders:
            if nulls & 1:
                values.append(None)
            else:
                value, at = decode(data, at)
                values.append(value)
            nulls >>= 1
        return (tuple(values) if self._places is None else self._spread(values)), at

    def _spread(self, values: list[Any]) -> Row:
        assert self._places is not None
        found: list[Any] = [self._absent] * self._width
        for place, value in zip(self._places, values, strict=True):
            found[place] = value
        return tuple(found)


def pairs_of(
    rows: Rows, decoders: Sequence[Decode], hidden: Set[int] = frozenset()
) -> Iterator[tuple[Row | None, Row | None]]:
    """Each row as it was before and is after; what there is of it, without the columns at hidden places."""
    before = None if rows.before is None else Image(decoders, rows.before, UNKNOWN)
    after = None if rows.after is None else Image(decoders, rows.after, UNCHANGED)
    data, at, end = rows.data, rows.at, len(rows.data)
    old: Row | None = None
    new: Row | None = None
    while at < end:
        if before is not None:
            old, at = before.read(data, at)
        if after is not None:
            new, at = after.read(data, at)
            if old is not None and UNCHANGED in new:
                new = _filled(new, old)
        if hidden:
            yield _without(hidden, old), _without(hidden, new)
        else:
            yield old, new


def _without(hidden: Set[int], row: Row | None) -> Row | None:
    return None if row is None else tuple(value for place, value in enumerate(row) if place not in hidden)


def _filled(new: Row, old: Row) -> Row:
    """What an update left as it was, from the old row where that has it."""
    return tuple(
        before if value is UNCHANGED and before is not UNKNOWN else value
        for value, before in zip(new, old, strict=True)
    )
