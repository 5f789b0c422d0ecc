"""Texts of PostgreSQL's dates and times, in the style ISO and the zone UTC, as numbers.

The server knows more years than Python, from 4713 BC to 294276, and both infinities. Those stand as the numbers that
Debezium writes for them.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

DAY: Final = 86_400_000_000
INFINITE_DAYS: Final = {"infinity": -2_147_472_692, "-infinity": -2_147_472_691}
INFINITE_MICROS: Final = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
INFINITE_INTERVALS: Final = {"infinity": 2**63 - 1, "-infinity": -(2**63)}  # of PostgreSQL 17 and later
_1970: Final = date(1970, 1, 1).toordinal()
_CYCLE_YEARS: Final = 400  # after so many years the calendar repeats
_CYCLE_DAYS: Final = 146_097
_AVERAGE_MONTH: Final = 365.25 / 12.0
_INTERVAL: Final = re.compile(
    r"(?:(?P<years>[+-]?\d+) years? ?)?(?:(?P<months>[+-]?\d+) mons? ?)?(?:(?P<days>[+-]?\d+) days? ?)?"
    r"(?:(?P<sign>[+-])?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?))?"
)


@lru_cache(8192)
def days(text: str) -> int:
    """Since 1970, of 2024-02-29, 0044-03-15 BC or infinity."""
    if len(text) == 10:
        return date.fromisoformat(text).toordinal() - _1970
    if text.endswith(" BC"):
        year, month, day = text[:-3].split("-")
        return _far_days(1 - int(year), int(month), int(day))
    if text in INFINITE_DAYS:
        return INFINITE_DAYS[text]
    year, month, day = text.split("-")
    return _far_days(int(year), int(month), int(day))


def _far_days(year: int, month: int, day: int) -> int:
    cycles, rest = divmod(year - 1, _CYCLE_YEARS)
    return date(rest + 1, month, day).toordinal() + cycles * _CYCLE_DAYS - _1970


def micros_of_day(text: str) -> int:
    """Since midnight, of 12:34:56.789 or 24:00:00."""
    whole = (int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])) * 1_000_000
    return whole + int(text[9:15].ljust(6, "0")) if len(text) > 8 else whole


def micros(text: str) -> int:
    """Since 1970, of 2024-02-29 12:34:56.789 or infinity."""
    if text[10:11] == " " and text[-1] != "C":
        return days(text[:10]) * DAY + micros_of_day(text[11:])
    if text in INFINITE_MICROS:
        return INFINITE_MICROS[text]
    day, time, *era = text.split(" ")
    return days(" ".join([day, *era])) * DAY + micros_of_day(time)


def zone_seconds(text: str) -> int:
    """East of Greenwich, of +05:30 or -03."""
    parts = text[1:].split(":")
    seconds = sum(int(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return -seconds if text[0] == "-" else seconds


def interval_parts(text: str) -> tuple[int, int, int, int, int, str]:
    """Years, months, days, hours, minutes, and seconds as text; the last three have one sign."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError(f"no interval: {text!r}")
    years, months, day = (int(found[name] or 0) for name in ("years", "months", "days"))
    sign = "-" if found["sign"] == "-" else ""
    hours, minutes = (int(sign + (found[name] or "0")) for name in ("hours", "minutes"))
    return years, months, day, hours, minutes, sign + (found["seconds"] or "0")


def interval_micros(text: str) -> int:
    """A month has 30.4375 days, as Debezium counts. It is a float's arithmetic, for the same numbers as Debezium's;
    what is beyond 64 bits is the last number in them.
    """
    if text in INFINITE_INTERVALS:
        return INFINITE_INTERVALS[text]
    years, months, day, hours, minutes, seconds = interval_parts(text)
    in_days = (years * 12 + months) * _AVERAGE_MONTH + day
    in_seconds = (((in_days * 24 + hours) * 60) + minutes) * 60 + float(seconds)
    return max(-(2**63), min(2**63 - 1, int(in_seconds * 1e6)))
