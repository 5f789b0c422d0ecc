"""The columns that an app reads of a captured table: one that does not leave the database is null in every row, without
a word. So it is an error when the app starts, and a warning when the table loses it later.
"""

from __future__ import annotations

import logging

from runnel.capture.selection import Selected
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.formats import Columns, Debezium

logger = logging.getLogger(__name__)


def check_columns(where: str, declared: Columns, selected: Selected) -> None:
    for column in missing_columns(declared, selected):
        table = selected.table.id
        known = ", ".join(_leaving(selected))
        if column in (each.name for each in selected.table.columns):
            what = f"has the column {column}, which the capture leaves out of {table}"
            hint = f"name it in columns=[...] of the capture, or leave it out of the schema; it sends {known}"
        else:
            what, hint = f"has the column {column}, which {table} does not have", f"it has {known}"
        raise InvalidDeclaration(where, "schema", what, hint=hint)


def missing_columns(declared: Columns, selected: Selected) -> list[str]:
    """Those that no record has. Other formats than the envelope's do not know of columns."""
    if not isinstance(declared.format, Debezium):
        return []
    leaving = _leaving(selected)
    return [name for name in declared.names if name not in leaving]


class ColumnWarnings:
    """Says of each column once that it is null from here on, and again if it was there in between."""

    def __init__(self) -> None:
        self._missing: dict[str, set[str]] = {}  # by what was declared

    def see(self, where: str, declared: Columns, selected: Selected) -> None:
        missing = missing_columns(declared, selected)
        before = self._missing.get(where, set())
        self._missing[where] = set(missing)
        for column in missing:
            if column not in before:
                known = ", ".join(_leaving(selected))
                logger.warning(
                    "%s: the changes of %s come without the column %s from here on, which is null then: it has %s",
                    where,
                    selected.table.id,
                    column,
                    known,
                )


def _leaving(selected: Selected) -> list[str]:
    return [column.name for _, column in selected.columns]
