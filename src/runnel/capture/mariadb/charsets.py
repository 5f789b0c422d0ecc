"""Texts of the log, which are bytes in the character set of their column, known by the number of a collation.

Python knows the sets of several bytes a character. Those of one byte are asked from the server, all 256 at once: it
knows them as it means them; its latin1 is nobody else's.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

from runnel.capture.mariadb.values import Text

BINARY: Final = 63
CODECS: Final = {
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "gb18030": "gb18030",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
}


def codec(name: str) -> Text:
    decode = codecs.getdecoder(name)
    return lambda value: decode(value, "replace")[0]


class Charsets:
    """`look_up` gives the set of each collation; `table` the 256 characters of a set of one byte."""

    def __init__(self, look_up: Callable[[], dict[int, str]], table: Callable[[str], str]) -> None:
        self._look_up = look_up
        self._table = table
        self._names: dict[int, str] | None = None
        self._known: dict[int, Text] = {}

    def text_of(self, collation: int | None) -> Text | None:
        if collation is None or collation == BINARY:
            return None
        known = self._known.get(collation)
        if known is None:
            known = self._known[collation] = self._made(collation)
        return known

    def _made(self, collation: int) -> Text:
        if self._names is None or collation not in self._names:
            self._names = self._look_up()
        name = self._names.get(collation, "utf8mb4")
        if name in CODECS:
            return codec(CODECS[name])
        characters = self._table(name)
        return lambda value: codecs.charmap_decode(value, "replace", characters)[0]
