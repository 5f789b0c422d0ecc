"""What the values of a stream look like, learnt from one of them, to find those that are broken in a block.

Arrow's JSON reader stops at the first mistake in a block. To find the others by reading again and again would cost more
than the reading. So a pattern is made of a good value and the types of the columns, and matched with all values at
once; what does not match is read one by one. It only guesses: a good value may not match, and a broken one may.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

BLANK = r"[ \t\r\n]*"
STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*"'
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
BOOLEAN = r"true|false"
DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
TIME = r"(?:[01][0-9]|2[0-3])[0-9:.+-]*Z?"
MORE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}  # after the first one, by bits
LEVELS = 3  # of objects and arrays in fields that are not read


def _anything(levels: int) -> str:
    simple = f"{STRING}|{NUMBER}|{BOOLEAN}|null"
    if not levels:
        return simple
    inner = _anything(levels - 1)
    element = f"(?:{inner}){BLANK},?{BLANK}"
    member = f"{STRING}{BLANK}:{BLANK}{element}"
    return rf"{simple}|\[{BLANK}(?:{element})*\]|\{{{BLANK}(?:{member})*\}}"


ANYTHING = _anything(LEVELS)


def shape_of(example: dict[str, Any], fields: Iterable[pa.Field]) -> str:
    """A pattern (RE2's) of values that are like `example`, with columns of these types."""
    return f"^{BLANK}{_object(example, fields)}{BLANK}$"


def _object(example: dict[str, Any], fields: Iterable[pa.Field]) -> str:
    types = {field.name: field.type for field in fields}
    members = [
        rf"(?:{re.escape(json.dumps(name, ensure_ascii=False))}{BLANK}:{BLANK}"
        rf"(?:{_value(each, types.get(name))}|null){BLANK},?{BLANK})?"
        for name, each in example.items()
    ]
    return rf"\{{{BLANK}{''.join(members)}\}}"


def _value(example: Any, kind: pa.DataType | None) -> str:
    if kind is None:
        return ANYTHING
    if pa.types.is_struct(kind):
        return _object(example, kind) if isinstance(example, dict) else ANYTHING
    if pa.types.is_list(kind):
        element = example[0] if isinstance(example, list) and example else None
        return rf"\[{BLANK}(?:(?:{_value(element, kind.value_type)}|null){BLANK},?{BLANK})*\]"
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return rf"-?(?:0|[1-9][0-9]{{0,{MORE_DIGITS[kind.bit_width]}}})"
    if pa.types.is_floating(kind):
        return NUMBER
    if pa.types.is_decimal128(kind):
        return _decimal(kind)
    if pa.types.is_timestamp(kind):
        return f'"{DAY}(?:[T ]{TIME})?"|-?[0-9]+'
    return f'"{DAY}"' if pa.types.is_date32(kind) else STRING


def _decimal(kind: pa.Decimal128Type) -> str:
    before, after = max(kind.precision - kind.scale, 1), kind.scale
    fraction = rf"(?:\.[0-9]{{1,{after}}})?" if after else ""
    digits = rf"-?[0-9]{{1,{before}}}{fraction}"
    return f'{digits}|"{digits}"'
