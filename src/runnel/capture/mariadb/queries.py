"""Rows of a table by SQL: in the order of the key, from behind a key on, as the same values that the log has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from runnel.capture.mariadb.connections import identifier, literal
from runnel.capture.mariadb.kinds import Kind
from runnel.capture.tables import Row, Table

_NUMBERS: Final = frozenset({"decimal", "bit", "year"})
_TIMES: Final = frozenset({"date", "time", "datetime", "timestamp"})


def query_of(
    table: Table, kinds: Sequence[Kind], after: Row | None, limit: int | None = None, where: str | None = None
) -> str:
    columns = ", ".join(_selected(column.name, kind) for column, kind in zip(table.columns, kinds, strict=True))
    query = f"SELECT {columns} FROM {identifier(*table.id)}"
    conditions = [f"({where}\n)"] if where else []
    if after is not None:
        key = [(table.columns[place].name, kinds[place]) for place in table.key]
        conditions.append(_behind(key, after))
    if conditions:
        query += f" WHERE {' AND '.join(conditions)}"
    if table.key:
        query += f" ORDER BY {', '.join(identifier(table.columns[place].name) for place in table.key)}"
    return query if limit is None else f"{query} LIMIT {limit}"


def _selected(name: str, kind: Kind) -> str:
    # the text of a number of four bytes has only six digits
    return f"CAST({identifier(name)} AS DOUBLE)" if kind.name == "float" else identifier(name)


def _behind(key: Sequence[tuple[str, Kind]], after: Row) -> str:
    """Rows with a greater key: greater in a column, and the same in those before it. The first condition is for the
    server, which sees by it where in the index to begin.
    """
    pairs = [(_compared(*column), _literal(column[1], value)) for column, value in zip(key, after, strict=True)]
    cases = []
    for place, (column, value) in enumerate(pairs):
        same = [f"{each} = {its}" for each, its in pairs[:place]]
        cases.append(f"({' AND '.join([*same, f'{column} > {value}'])})")
    first, value = pairs[0]
    return f"{first} >= {value} AND ({' OR '.join(cases)})"


def _compared(name: str, kind: Kind) -> str:
    """Words of an enum are in the order of their numbers, and would be compared as texts."""
    return f"{identifier(name)} + 0" if kind.name in ("enum", "set", "bit") else identifier(name)


def _literal(kind: Kind, value: Any) -> str:
    name = kind.name
    if "int" in name or name in _NUMBERS:
        return str(value)
    if name in ("float", "double"):
        return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"
    if name == "enum":
        return str(kind.labels.index(value) + 1 if value in kind.labels else 0)
    if name == "set":
        words = value.split(",") if value else []
        return str(sum(1 << kind.labels.index(word) for word in words))
    return f"'{value}'" if name in _TIMES else literal(value)


# --- values


def _plain_decimal(text: str) -> str:
    """Without the zeros of ZEROFILL."""
    if not text.startswith("0") or text[1:2] in ("", "."):
        return text
    whole, point, fraction = text.partition(".")
    return f"{whole.lstrip('0') or '0'}{point}{fraction}"


def _number_of_bits(value: bytes) -> int:
    return int.from_bytes(value, "big")


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "float": float,
    "double": float,
    "year": int,
    "decimal": _plain_decimal,
    "bit": _number_of_bits,
}


def converter(kinds: Sequence[Kind]) -> Callable[[Sequence[Any]], Row]:
    """From what a query gives to the values of a row."""
    found = [(place, conversion) for place, kind in enumerate(kinds) if (conversion := _conversion(kind)) is not None]
    if not found:
        return tuple

    def convert(values: Sequence[Any]) -> Row:
        row = list(values)
        for place, conversion in found:
            if row[place] is not None:
                row[place] = conversion(row[place])
        return tuple(row)

    return convert


def _conversion(kind: Kind) -> Callable[[Any], Any] | None:
    if kind.name.split(" ")[0] in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return int
    return _CONVERSIONS.get(kind.name)
