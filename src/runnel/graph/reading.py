"""How a topic is read: where to begin, how much at a time, and what to do with rows that do not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from runnel.graph.errors import InvalidDeclaration
from runnel.start import InvalidStart, Start

ROWS = 2_000_000
BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Reading:
    """`start` counts when a query has no checkpoint yet: earliest, latest, a time such as 2026-07-01T12:00:00Z, an age
    such as 2h, or offsets by partition. A micro-batch takes at most `rows` rows, and `bytes` bytes of records unpacked,
    as far as a sample tells. `strict` stops the query at the first late or rejected row. `topics` is a regular
    expression: all topics that it describes are read.
    """

    start: str | Mapping[int, int] = "earliest"
    rows: int = ROWS
    bytes: int = BYTES
    strict: bool = False
    topics: str | None = field(default=None)

    def check(self, where: str) -> None:
        self._check_start(where)
        for name in ("rows", "bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidDeclaration(where, f"read.{name}", f"is {value!r}", hint="give a whole number above 0")
        if not isinstance(self.strict, bool):
            raise InvalidDeclaration(where, "read.strict", f"is {self.strict!r}", hint="give True or False")
        if self.topics is not None:
            self._check_topics(where)

    def _check_start(self, where: str) -> None:
        if isinstance(self.start, Mapping):
            if all(type(each) is int and each >= 0 for pair in self.start.items() for each in pair):
                return
            hint = "give partitions and their offsets, such as {0: 120, 1: 0}"
            raise InvalidDeclaration(where, "read.start", f"is {dict(self.start)!r}", hint=hint)
        try:
            Start.parse(self.start, now=0)
        except (InvalidStart, TypeError, AttributeError):
            raise InvalidDeclaration(
                where,
                "read.start",
                f"{self.start!r} is no place to start from",
                hint="expected earliest, latest, a time such as 2026-07-01T12:00:00Z, an age such as 2h, or offsets",
            ) from None

    def _check_topics(self, where: str) -> None:
        if self.topics == "":
            raise InvalidDeclaration(where, "read.topics", "is empty, which no topic fits", hint='such as "clicks-.*"')
        try:
            re.compile(self.topics or "")
        except (re.error, TypeError) as error:
            raise InvalidDeclaration(
                where, "read.topics", f"{self.topics!r} is no regular expression: {error}", hint='such as "clicks-.*"'
            ) from None
