"""How the scalars of JSON are written, where writers differ: a time may be text, or a number of some unit.

A dialect is asked twice for each column, and must give the same answers both times: how one value is read
(`json_value`), and how Arrow's JSON reader reads the whole column (`json_columns`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from runnel.pipeline.source.values.times import Converted

Finish: TypeAlias = Callable[[pa.Array], Converted]
Read: TypeAlias = Callable[[Any], Any]  # of a parsed value, one of the type; None if it is none


class Reading(NamedTuple):
    """What Arrow is asked for, and what turns it into the column; None if it is the column."""

    type: pa.DataType
    finish: Finish | None = None


class Dialect:
    """Plain JSON, as `json_value` says."""

    def inside(self, name: str) -> Dialect:  # noqa: ARG002
        """That of a field of an object."""
        return self

    def reader(self, kind: pa.DataType) -> Read | None:  # noqa: ARG002
        """How one value is read; None: as in plain JSON."""
        return None

    def reading(self, kind: pa.DataType, *, is_number: bool) -> Reading | None:  # noqa: ARG002
        """How a column is read whose values are numbers, or text; None: as in plain JSON."""
        return None


PLAIN = Dialect()
