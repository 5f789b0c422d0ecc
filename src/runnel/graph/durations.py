"""Durations as people write them in a program: "30 seconds", "1 minute", "1 hour 30 minutes"."""

from __future__ import annotations

import re

from runnel.graph.errors import InvalidDeclaration

UNITS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
PART = re.compile(r"(\d{1,12})\s*([a-z]+)")
WHOLE = re.compile(rf"\s*{PART.pattern}(?:[\s,]+{PART.pattern})*\s*")
LONGEST = 10_000 * 366 * UNITS["day"]  # ten thousand years: in microseconds, too, it is a number of 64 bits


def milliseconds(text: str, where: str, argument: str) -> int:
    """What the text says. `where` and `argument` are for the error."""
    if not isinstance(text, str) or not WHOLE.fullmatch(text):
        raise _refused(text, where, argument)
    parts = PART.findall(" ".join(text.replace(",", " ").split()))
    sizes = [UNITS.get(unit.removesuffix("s")) for _, unit in parts]
    if None in sizes:
        raise _refused(text, where, argument)
    found = sum(int(count) * (size or 0) for (count, _), size in zip(parts, sizes, strict=True))
    if found > LONGEST:
        hint = "give one of ten thousand years at most"
        raise InvalidDeclaration(where, argument, f"{text!r} is too long a time", hint=hint)
    return found


def _refused(text: object, where: str, argument: str) -> InvalidDeclaration:
    return InvalidDeclaration(
        where, argument, f"{text!r} is no duration", hint='write one such as "30 seconds", "5 minutes" or "1 hour"'
    )
