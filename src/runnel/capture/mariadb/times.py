"""Texts of MariaDB's dates and times as numbers. None stands for what is no date: 0000-00-00, 2023-02-30."""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import Final

DAY: Final = 86_400_000_000
_1970: Final = date(1970, 1, 1).toordinal()


@lru_cache(8192)
def days(text: str) -> int | None:
    """Since 1970, of 2024-02-29."""
    try:
        return date.fromisoformat(text).toordinal() - _1970
    except ValueError:
        return None


def micros_of_time(text: str) -> int:
    """Of 12:34:56.789, -838:59:59 or 100:00:00."""
    is_negative = text[0] == "-"
    whole, _, fraction = text.partition(".")
    hours, minutes, seconds = (abs(int(part)) for part in whole.split(":"))
    found = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int(fraction.ljust(6, "0") or "0")
    return -found if is_negative else found


def micros(text: str) -> int | None:
    """Since 1970, of 2024-02-29 12:34:56.789."""
    day = days(text[:10])
    return None if day is None else day * DAY + micros_of_time(text[11:])
