"""A database with one table, as far as the checks of an app ask for it."""

from __future__ import annotations

from runnel.capture.tables import Table, TableId


class OneTable:
    database = "shop"

    def __init__(self, table: Table) -> None:
        self._table = table
        self.is_closed = False

    def tables(self) -> list[TableId]:
        return [self._table.id]

    def table(self, _: TableId) -> Table:
        return self._table

    def close(self) -> None:
        self.is_closed = True
