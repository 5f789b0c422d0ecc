"""Durations as people write and read them: `90s`, `15m`; `2 h 5 min`."""

from __future__ import annotations

import typer

from runnel.start import AGE, UNITS

STEPS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> int:
    """In milliseconds; the text must have been checked."""
    found = AGE.fullmatch(text)
    assert found is not None
    return int(found[1]) * UNITS[found[2]]


def checked_duration(text: str | None) -> str | None:
    """A callback of typer's."""
    if text is not None and not AGE.fullmatch(text):
        raise typer.BadParameter(f"'{text}' is no duration: expected one such as 90s, 15m, 2h or 7d.")
    return text


def as_duration(milliseconds: int) -> str:
    """In its largest unit, and the next one where that says something."""
    left = max(0, milliseconds)
    for number, (unit, size) in enumerate(STEPS):
        if left >= size:
            count, rest = divmod(left, size)
            below = STEPS[number + 1 : number + 2]
            more = f" {rest // below[0][1]} {below[0][0]}" if below and unit != "s" and rest >= below[0][1] else ""
            return f"{count:,} {unit}{more}"
    return "0 ms"
