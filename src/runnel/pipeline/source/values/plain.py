"""Values that need no parsing: text, which must be UTF-8, and bytes as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.pipeline.source.values.parsed import (
    Indices,
    Parsed,
    Rejected,
    Unfit,
    completed,
    with_unread,
    without_tombstones,
)


class RawParser:
    """One column: the bytes."""

    def __init__(self, schema: pa.Schema, asked: Sequence[str]) -> None:
        self.schema = with_unread(schema, asked)
        self._asked = list(asked)

    def parse(self, values: pa.Array) -> Parsed:
        values, kept, tombstones = without_tombstones(values)
        return Parsed(self._rows(values), kept, [], tombstones)

    def _rows(self, values: pa.Array) -> pa.RecordBatch:
        return completed(self.schema, self._asked, [values] * len(self._asked), len(values))


class TextParser(RawParser):
    """One column: a string. A value that is not UTF-8 is rejected, also when nobody asks for the column."""

    def parse(self, values: pa.Array) -> Parsed:
        values, kept, tombstones = without_tombstones(values)
        rejected: list[Rejected] = []
        try:
            text = values.cast(pa.string())
        except pa.ArrowInvalid:
            good, rejected = _split(values, kept)
            text = values.take(pa.array(good)).cast(pa.string())
            kept = good if kept is None else kept[good]
        return Parsed(self._rows(text), kept, rejected, tombstones)


def _split(values: pa.Array, places: Indices | None) -> tuple[Indices, list[Rejected]]:
    good: list[int] = []
    rejected: list[Rejected] = []
    for index, value in enumerate(values.to_pylist()):
        try:
            text_of(value)
            good.append(index)
        except Unfit as unfit:
            rejected.append(Rejected(index if places is None else int(places[index]), str(unfit)))
    return np.array(good, np.int64), rejected


def text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Unfit(f"not UTF-8 at byte {error.start + 1}") from None
