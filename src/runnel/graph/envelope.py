"""What a captured topic tells of a change beside the row: columns of a stream that asks for metadata.

_op            c, u, d, r (it was there before), t (the table was emptied)
_before        the row before the change, as far as the database tells it
_source_time   when the change was committed
_transaction   the id of its transaction, where the capture writes it
_unavailable   the columns whose values the database did not tell; they are null in the row
"""

from __future__ import annotations

from dataclasses import replace

from runnel.graph.types import TIMESTAMP, Array, Field, Simple, Struct

OP = "_op"
BEFORE = "_before"
SOURCE_TIME = "_source_time"
TRANSACTION = "_transaction"
UNAVAILABLE = "_unavailable"
ENVELOPE = (OP, BEFORE, SOURCE_TIME, TRANSACTION, UNAVAILABLE)


def envelope_fields(row: tuple[Field, ...]) -> tuple[Field, ...]:
    """Of a topic whose rows have these columns. What was there before may lack anything."""
    before = Struct(tuple(replace(field, nullable=True) for field in row))
    return (
        Field(OP, Simple("string")),
        Field(BEFORE, before),
        Field(SOURCE_TIME, TIMESTAMP),
        Field(TRANSACTION, Simple("string")),
        Field(UNAVAILABLE, Array(Simple("string"))),
    )
