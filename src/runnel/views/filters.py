"""Which rows of a view are wanted, and in which order: conditions that the database checks.

A condition is a column, an operator and a value; all that are given must hold. Values never become part of a statement:
they are bound to it. A null fits no condition but `=` and `!=` with None, whose meaning is that there is no value.

| operator | rows |
|---|---|
| `=`, `!=` | whose value is this one, or another one |
| `<`, `<=`, `>`, `>=` | by value: text by its code points, NaN above every number |
| `in`, `not in` | whose value is one of a list, or none of it |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from runnel.views.database import Database
from runnel.views.errors import InvalidFilter, UnknownColumn
from runnel.views.layout import Layout, is_nested
from runnel.views.statements import joined, quoted
from runnel.views.store import Condition, Order, Where
from runnel.views.values import NotOfType, typed

EQUAL, OTHER = "=", "!="
ORDERS = ("<", "<=", ">", ">=")
LISTS = {"in": "IN", "not in": "NOT IN"}
OPERATORS = (EQUAL, OTHER, *ORDERS, *LISTS)
MOST_VALUES = 10_000  # of all lists: a database has a limit
DOWN = "-"


class Checked(NamedTuple):
    """SQL, and the values that are bound to it, in their order."""

    text: str
    values: list[object]


def condition(where: Where, layout: Layout, database: Database) -> Checked:
    """What stands behind WHERE. UnknownColumn or InvalidFilter if a condition does not fit the view."""
    values: list[object] = []
    texts = [_text(each, layout, database, values) for each in where]
    if len(values) > MOST_VALUES:
        hint = f"read the view and compare outside of it, or ask for at most {MOST_VALUES:,} values"
        raise InvalidFilter(layout.name, f"{len(values):,} values are too many", hint=hint)
    return Checked(joined(texts, "AND"), values)


def order(by: Order, layout: Layout, database: Database) -> str:
    """What stands behind ORDER BY; the key comes last, so that no order is left to chance."""
    texts = [_ordered(each, layout, database) for each in by]
    rest = [name for name in layout.key if name not in by]
    return ", ".join([*texts, *map(quoted, rest)])


def field_of(column: object, layout: Layout) -> pa.Field:
    if not isinstance(column, str) or column not in layout.columns:
        raise UnknownColumn(layout.name, str(column), layout.columns)
    return layout.schema.field(column)


def _text(asked: Condition, layout: Layout, database: Database, values: list[object]) -> str:
    field = field_of(asked.column, layout)
    if asked.operator not in OPERATORS:
        reason = f"{asked.operator!r} is no operator"
        raise InvalidFilter(layout.name, reason, hint=f"use one of {', '.join(OPERATORS)}")
    name = quoted(field.name)
    if asked.value is None and asked.operator in (EQUAL, OTHER):
        return f"{name} IS {'NOT ' if asked.operator == OTHER else ''}NULL"
    if is_nested(field.type):
        reason = f"{field.name} is of type {field.type}, which has no order and no equality"
        raise InvalidFilter(layout.name, reason, hint="compare it outside of the view, or give its parts columns")
    if asked.operator in LISTS:
        return _in_list(asked, layout, field, database, values)
    place = _bound(asked.value, layout, field, database, values)
    if asked.operator in ORDERS:
        return f"{database.ordered(name, field.type)} {asked.operator} {place}"
    return f"{name} {'=' if asked.operator == EQUAL else '<>'} {place}"


def _in_list(asked: Condition, layout: Layout, field: pa.Field, database: Database, values: list[object]) -> str:
    if isinstance(asked.value, str | bytes) or not hasattr(asked.value, "__iter__"):
        reason = f"{asked.operator} wants several values, not {asked.value!r}"
        raise InvalidFilter(layout.name, reason, hint=f"give a list: ({field.name!r}, {asked.operator!r}, [...])")
    places = [_bound(value, layout, field, database, values) for value in asked.value]
    if not places:
        return "1 = 0" if asked.operator == "in" else f"{quoted(field.name)} IS NOT NULL"
    return f"{quoted(field.name)} {LISTS[asked.operator]} ({', '.join(places)})"


def _bound(value: Any, layout: Layout, field: pa.Field, database: Database, values: list[object]) -> str:
    if value is None:
        hint = f"({field.name!r}, '=', None) finds rows without a value, ({field.name!r}, '!=', None) those with one"
        raise InvalidFilter(layout.name, f"{field.name} is compared with None", hint=hint)
    try:
        values.append(database.value(typed(value, field.type)))
    except NotOfType:
        hint = f"{field.name} is of type {field.type}"
        raise InvalidFilter(layout.name, f"{value!r} is no value of {field.name}", hint=hint) from None
    return database.place(len(values))


def _ordered(by: str, layout: Layout, database: Database) -> str:
    down = isinstance(by, str) and by not in layout.columns and by.startswith(DOWN)
    field = field_of(by.removeprefix(DOWN) if down else by, layout)
    if is_nested(field.type):
        reason = f"{field.name} is of type {field.type}, which has no order"
        raise InvalidFilter(layout.name, reason, hint="order by another column")
    nulls = "" if field.name in layout.key else " NULLS LAST"
    return f"{database.ordered(quoted(field.name), field.type)}{' DESC' if down else ''}{nulls}"
