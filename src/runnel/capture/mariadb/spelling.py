"""How a server spells the names of tables.

Statements of the log have names as people wrote them, and a server may take `Orders` for `orders`. What is told of a
table goes by the one name that the catalog has.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from runnel.capture.tables import TableId


class Letters(IntEnum):
    """The server's `lower_case_table_names`."""

    AS_WRITTEN = 0  # Orders is another table than orders
    LOWERED = 1
    KEPT = 2  # as when the table was made, and found by any letters; the log may have rows of it under lower ones


class Spelling:
    """`names` are the tables that the catalog has."""

    def __init__(self, letters: Letters, names: Iterable[TableId]) -> None:
        self._letters = letters
        self._kept = {_lowered(name): name for name in names}

    def of(self, table: TableId) -> TableId:
        if self._letters is Letters.AS_WRITTEN:
            return table
        if self._letters is Letters.LOWERED:
            return _lowered(table)
        if not table.name:
            return table._replace(schema=self._schema(table.schema))
        made = table._replace(schema=self._schema(table.schema))
        return self._kept.setdefault(_lowered(table), made)

    def forget(self, table: TableId) -> None:
        """It is gone: another one may be made with other letters."""
        self._kept.pop(_lowered(table), None)

    def _schema(self, written: str) -> str:
        """Of the tables that are captured there is one."""
        return next((name.schema for name in self._kept.values() if name.schema.lower() == written.lower()), written)


def _lowered(table: TableId) -> TableId:
    return TableId(table.schema.lower(), table.name.lower())
