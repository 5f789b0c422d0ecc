"""Texts of PostgreSQL's that hold several values: arrays, hstore, points."""

from __future__ import annotations

import re
from typing import Any, Final

_ITEM: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_OTHER_ITEM: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^;{}"]+)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_PAIR: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, )?', re.DOTALL)


def array(text: str, delimiter: str = ",") -> list[Any]:
    """Texts, None, and lists for more dimensions, of {a,"b c",NULL} or [0:1]={1,2}."""
    if text[0] == "[":
        text = text[text.index("=") + 1 :]
    if '"' not in text and "{" not in text[1:]:
        inside = text[1:-1]
        return [None if item == "NULL" else item for item in inside.split(delimiter)] if inside else []
    return _nested(text, _ITEM if delimiter == "," else _OTHER_ITEM)


def _nested(text: str, item: re.Pattern[str]) -> list[Any]:
    outermost: list[Any] = []
    open_lists = [outermost]
    at = 1
    while at < len(text):
        character = text[at]
        if character == "{":
            inner: list[Any] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
            at += 1
        elif character == "}":
            open_lists.pop()
            at += 1
        elif found := item.match(text, at):
            open_lists[-1].append(_value(found))
            at = found.end()
        else:  # the delimiter
            at += 1
    return outermost


def _value(found: re.Match[str]) -> str | None:
    if found[1] is not None:
        return unescaped(found[1])
    return None if found[2] == "NULL" else found[2]


def hstore(text: str) -> dict[str, str | None]:
    """Of "a"=>"1", "b"=>NULL."""
    return {unescaped(found[1]): None if found[2] is None else unescaped(found[2]) for found in _PAIR.finditer(text)}


def unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def point(text: str) -> tuple[str, str]:
    """Of (1.5,-2)."""
    x, y = text[1:-1].split(",")
    return x, y
