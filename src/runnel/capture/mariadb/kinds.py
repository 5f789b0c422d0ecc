"""What a column holds, in so many words as its form needs: the same from the log and from the catalog.

The log knows most of it by itself. What it does not tell is the catalog's: that a text is JSON, and that sixteen bytes
are a UUID or an address. Values are what both the log and a query give:

    whole numbers, years, bits   int
    float, double                float
    decimal                      the text, with all digits behind the point
    dates and times              the server's text, timestamps in UTC: 2024-02-29 12:00:00.000
    texts, enums, sets, JSON     str
    bytes, geometries            bytes
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")
_SIGN: Final = re.compile(r"''|\\.")
_SIGNS: Final = {"0": "\0", "n": "\n", "r": "\r"}
_WHOLE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SHAPES: Final = frozenset(
    {"geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}
)
_PLAIN: Final = frozenset({"float", "double", "year", "date", "uuid", "inet4", "inet6", "point"})
_TIMES: Final = frozenset({"time", "datetime", "timestamp"})


class Kind(NamedTuple):
    """`size` are the digits of a decimal, the bits of a bit field, or the digits behind a time's point."""

    name: str
    size: int = 0
    scale: int = 0
    labels: tuple[str, ...] = ()


def type_of(data_type: str, column_type: str, *, is_json: bool) -> str:
    """The server's own name of a type, without a length: as information_schema.COLUMNS tells it, and as the log can."""
    name = "JSON" if is_json else data_type.upper()
    return f"{name} UNSIGNED" if " unsigned" in column_type and data_type not in ("enum", "set") else name


def labels_of(column_type: str) -> tuple[str, ...]:
    """Of enum('a','it''s','back\\\\slash'): some signs stand behind a backslash, in any mode of the server's."""
    return tuple(_SIGN.sub(_sign, found[1]) for found in _LABEL.finditer(column_type))


def _sign(found: re.Match[str]) -> str:
    return _SIGNS.get(found[0][1], found[0][1])


def kind_of(data_type: str, column_type: str, precision: int, scale: int, *, is_json: bool) -> Kind:
    """As information_schema.COLUMNS tells it."""
    if data_type in _WHOLE:
        return Kind(f"{data_type} unsigned" if "unsigned" in column_type else data_type)
    if data_type == "decimal":
        return Kind("decimal", precision, scale)
    if data_type == "bit" or data_type in _TIMES:
        return Kind(data_type, precision)
    if data_type in ("enum", "set"):
        return Kind(data_type, labels=labels_of(column_type))
    if data_type in _TEXTS:
        return Kind("json" if is_json else "text")
    if data_type in _BYTES:
        return Kind("bytes")
    if data_type in _SHAPES:
        return Kind("geometry")
    return Kind(data_type) if data_type in _PLAIN else Kind("unknown")
