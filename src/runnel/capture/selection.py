r"""What leaves the database: which tables, columns and rows, what of them is hidden, and the keys of their records.

    Selection(tables=["main\\.orders", "main\\.customers"], hidden={"main\\.customers\\.email": Hashed("pepper")})

Tables and columns are chosen by regular expressions for whole names, `schema.table` and `schema.table.column`, as
Debezium's lists have them; upper and lower case are the same. The expressions are re2's: no one can be slow.

A row filter sees a row as it is after a change, or before a delete, by the names of its columns. An update that brings
a row in becomes a create, one that takes it out a delete: whoever reads the topic has the rows that pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import re2  # type: ignore[import-untyped]

from runnel.capture.errors import ANY_SCHEMA, InvalidChoice
from runnel.capture.forms import STRING, quoted
from runnel.capture.tables import Column, Form, Row, Table, TableId

RowFilter: TypeAlias = Callable[[Mapping[str, Any]], bool]
OF_ANY_CASE = "(?i)"
HINTS = {
    "table": r"it is a regular expression for whole names, such as main\.orders or public\.order.*",
    "column": r"it is a regular expression for whole names, such as orders\.total or public\.orders\.t.*",
}


class Hiding(Protocol):
    def form(self, form: Form) -> Form: ...


@dataclass(frozen=True)
class Masked:
    """So many asterisks, whatever the value is."""

    length: int = 3

    def form(self, form: Form) -> Form:  # noqa: ARG002
        text = quoted("*" * self.length)
        return STRING._replace(write=lambda _: text, fallback=text, unavailable=text)


@dataclass(frozen=True)
class Hashed:
    """The SHA-256 of a salt and the value's text: the same values stay the same, and can be joined."""

    salt: str

    def form(self, form: Form) -> Form:  # noqa: ARG002
        began = hashlib.sha256(self.salt.encode())

        def write(value: Any) -> str:
            digest = began.copy()
            digest.update(value if isinstance(value, bytes) else str(value).encode("utf-8", "replace"))
            return f'"{digest.hexdigest()}"'

        return STRING._replace(write=write)


class Selected(NamedTuple):
    """A table as it leaves: the places of its columns with what they are there, and the places of the record's key."""

    table: Table
    columns: tuple[tuple[int, Column], ...]
    key: tuple[tuple[int, Column], ...]
    passes: Callable[[Row], bool] | None


@dataclass(frozen=True)
class Selection:
    """`tables` and `columns` are all where nothing is said. `keys` names the columns of a record's key, by table."""

    tables: Sequence[str] = ()
    without_tables: Sequence[str] = ()
    columns: Sequence[str] = ()
    without_columns: Sequence[str] = ()
    hidden: Mapping[str, Hiding] = field(default_factory=dict)
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: Mapping[str, RowFilter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self._patterns  # an expression that is none is told of at once

    def has(self, table: TableId) -> bool:
        name = str(table)
        chosen = not self.tables or any(self._fits(each, name) for each in self.tables)
        return chosen and not any(self._fits(each, name) for each in self.without_tables)

    def has_all_rows(self, table: TableId) -> bool:
        return not any(self._fits(each, str(table)) for each in self.rows)

    def unmatched(self, tables: Sequence[TableId]) -> list[str]:
        """The expressions for tables that fit none of these."""
        return [each for each in self.tables if not any(self._fits(each, str(table)) for table in tables)]

    def check(self, tables: Sequence[Table]) -> None:
        """InvalidChoice, if an expression that hides or chooses something fits nothing: what it was to hide would leave
        as it is.
        """
        names = [str(table.id) for table in tables]
        columns = [f"{table.id}.{column.name}" for table in tables for column in table.columns]
        given = [
            *(("table", each, names) for each in (*self.keys, *self.rows)),
            *(("column", each, columns) for each in (*self.hidden, *self.columns, *self.without_columns)),
        ]
        for what, expression, known in given:
            if not any(self._fits(expression, name) for name in known):
                raise InvalidChoice(what, expression, f"no {what} that is captured fits it", hint=HINTS.get(what, ""))

    def of(self, table: Table) -> Selected:
        name = str(table.id)
        key = self._key(table, name)
        leaving = tuple(
            (place, self._shown(column, f"{name}.{column.name}"))
            for place, column in enumerate(table.columns)
            if self._has_column(f"{name}.{column.name}")
        )
        keyed = tuple(
            (place, self._shown(table.columns[place], f"{name}.{table.columns[place].name}")) for place in key
        )
        return Selected(table, leaving, keyed, self._filter(table, name))

    # --- inside

    def _key(self, table: Table, name: str) -> tuple[int, ...]:
        for expression, columns in self.keys.items():
            if self._fits(expression, name):
                return tuple(place_of(table, column, "key column") for column in columns)
        return table.key

    def _has_column(self, name: str) -> bool:
        chosen = not self.columns or any(self._fits(each, name) for each in self.columns)
        return chosen and not any(self._fits(each, name) for each in self.without_columns)

    def _shown(self, column: Column, name: str) -> Column:
        for expression, hiding in self.hidden.items():
            if self._fits(expression, name):
                return Column(column.name, hiding.form(column.form), column.optional)
        return column

    def _filter(self, table: Table, name: str) -> Callable[[Row], bool] | None:
        filters = [each for expression, each in self.rows.items() if self._fits(expression, name)]
        if not filters:
            return None
        names = [column.name for column in table.columns]
        for each in filters:
            for column in sorted(getattr(each, "columns", ())):
                place_of(table, column, "column of a condition")
        return lambda row: all(each(dict(zip(names, row, strict=True))) for each in filters)

    def _fits(self, expression: str, name: str) -> bool:
        return bool(self._patterns[expression].fullmatch(name))

    @cached_property
    def _patterns(self) -> dict[str, Any]:
        given = [
            *(("table", each) for each in (*self.tables, *self.without_tables, *self.keys, *self.rows)),
            *(("column", each) for each in (*self.columns, *self.without_columns, *self.hidden)),
        ]
        return {each: compiled(what, each) for what, each in given}


def table_expression(given: str) -> str:
    """As people name a table: a name without a schema is one of any."""
    return given if "." in given else f"{ANY_SCHEMA}{given}"


def column_expression(given: str) -> str:
    return given if given.count(".") > 1 else f"{ANY_SCHEMA}{given}"


def masked(given: str) -> tuple[str, Masked]:
    """The expression of a column that is to be masked, as TABLE.COLUMN or TABLE.COLUMN:LENGTH, and its mask."""
    name, _, length = given.rpartition(":")
    if name and length.isascii() and length.isdigit():
        return column_expression(name), Masked(int(length))
    return column_expression(given), Masked()


def compiled(what: str, expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(f"{OF_ANY_CASE}{expression}", options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise InvalidChoice(what, expression, reason, hint=HINTS.get(what, "")) from None


def place_of(table: Table, column: str, what: str) -> int:
    for place, each in enumerate(table.columns):
        if each.name == column:
            return place
    known = ", ".join(each.name for each in table.columns)
    raise InvalidChoice(what, column, f"table {table.id} has {known}", hint="name one of these, as it is written there")
