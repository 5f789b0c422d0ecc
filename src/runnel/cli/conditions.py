"""Conditions as people type them, and values in the types of a view's columns.

count>=10    page=p1    city is null    page in p1,p2
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import TYPE_CHECKING, Any

from runnel.start import AGE, UNITS

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN = r"(?P<column>[^=<>!]+?)"
NULL = re.compile(COLUMN + r"\s+is\s+(?P<no>not\s+)?null")
LISTED = re.compile(COLUMN + r"\s+(?P<operator>not in|in)\s+(?P<value>.*)", re.DOTALL)
# Other languages' == and <> are none: half of them would be taken for the value.
COMPARED = re.compile(COLUMN + r"\s*(?P<operator>!=|<=|>=|=(?!=)|<(?!>)|>)\s*(?P<value>.*)", re.DOTALL)
BOOLEANS = {"true": True, "false": False}
EXAMPLES = "count>=10, page=p1, page in p1,p2 or city is null"


class NoCondition(ValueError):
    """The text is none."""


def parts(text: str) -> tuple[str, str, str | None]:
    """The column, the operator and the text of the value; None: no value."""
    plain = text.strip()
    if found := NULL.fullmatch(plain):
        return found["column"], "!=" if found["no"] else "=", None
    if found := LISTED.fullmatch(plain) or COMPARED.fullmatch(plain):
        return found["column"], found["operator"], found["value"]
    raise NoCondition(text)


def value_of(text: str, kind: pa.DataType) -> Any:
    """The value that a text means in a column of this type. ValueError if it means none."""
    from pyarrow import types  # noqa: PLC0415  # a call that asks no view need not wait for it

    if types.is_boolean(kind):
        if text.lower() not in BOOLEANS:
            raise ValueError(text)
        return BOOLEANS[text.lower()]
    if types.is_integer(kind):
        return int(text)
    if types.is_floating(kind):
        return float(text)
    if types.is_decimal(kind):
        return _decimal(text)
    if types.is_duration(kind):
        return _duration(text)
    return text.encode() if types.is_binary(kind) else text


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(text) from None


def _duration(text: str) -> datetime.timedelta:
    found = AGE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return datetime.timedelta(milliseconds=int(found[1]) * UNITS[found[2]])
