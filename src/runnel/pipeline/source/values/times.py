"""Dates and times in text, ISO 8601: one by one, and a whole column at once with the same answers.

    2026-11-15                          a date; as a timestamp, its midnight
    2026-11-15T20:40, 2026-11-15 20:40:32.123456, 2026-11-15T20:40:32Z, 2026-11-15T20:40:32.5+01:00

A timestamp without a zone is UTC. Digits after the microseconds are cut off. A timestamp_ntz has no zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runnel.pipeline.source.values.schema import TIMESTAMP_NTZ

MICROSECONDS = 1_000_000
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
# What Arrow certainly reads, and to the same answer: the 29th of February is left to the way one by one.
SURE_DATE = r"\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
SURE_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
LONG_FRACTION = r"^([^.]*\.\d{6})\d{1,3}($|[Z+-].*$)"  # nanoseconds, which are cut to microseconds
EXAMPLES = 20
SURE_ZONE = r"(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)"

Mask: TypeAlias = npt.NDArray[np.bool_]
Converted: TypeAlias = tuple[pa.Array, Mask | None]  # and where text could not be read: null there, not null before


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def date_of(text: str) -> int | None:
    """Days since 1970, or None."""
    return _days(text) if DATE.fullmatch(text) else None


def moment_of(text: str, *, zoned: bool) -> int | None:
    """Microseconds since 1970, or None."""
    match = MOMENT.fullmatch(text)
    if match is None:
        return None
    date, hour, minute, second, fraction, zone = match.groups()
    days = _days(date)
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or hours > 23 or minutes > 59 or seconds > 59 or (zone and not zoned):
        return None
    away = _minutes_away(zone or "Z")
    if away is None:
        return None
    whole = ((days * 24 + hours) * 60 + minutes - away) * 60 + seconds
    return whole * MICROSECONDS + int((fraction or "").ljust(6, "0")[:6])


def _days(date: str) -> int | None:
    try:
        return int(np.datetime64(date, "D").astype(np.int64))
    except ValueError:
        return None


def _minutes_away(zone: str) -> int | None:
    """How far a zone is ahead of UTC."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)


def dates_of(texts: pa.Array) -> Converted:
    try:
        return texts.cast(pa.date32()), None
    except pa.ArrowInvalid:
        return _partly(texts, f"^{SURE_DATE}$", lambda sure: sure.cast(pa.date32()), date_of)


def moments_of(texts: pa.Array, kind: pa.DataType) -> Converted:
    """The column as timestamps of `kind`, which has the zone UTC or none."""
    example = _example(texts)
    if example is None or len(example[4] or "") > 6:
        texts = pc.replace_substring_regex(texts, LONG_FRACTION, r"\1\2")
    zoned = kind.tz is not None
    written = zoned and example is not None and example[5] is not None
    try:
        return texts.cast(kind if written else TIMESTAMP_NTZ).view(kind), None
    except pa.ArrowInvalid:
        pattern = f"^{SURE_DATE}[T ]{SURE_TIME}{SURE_ZONE if written else ''}$"
        return _partly(
            texts,
            pattern,
            lambda sure: sure.cast(kind if written else TIMESTAMP_NTZ).view(kind),
            lambda text: moment_of(text, zoned=zoned),
        )


def _example(texts: pa.Array) -> Sequence[str | None] | None:
    """The parts of the first text that is a timestamp; how it is written the others are, most likely."""
    for text in texts[:EXAMPLES].drop_null().to_pylist():
        if match := MOMENT.fullmatch(text):
            return match.groups()
    return None


def _partly(
    texts: pa.Array, pattern: str, cast: Callable[[pa.Array], pa.Array], convert: Callable[[str], int | None]
) -> Converted:
    """The sure ones by `cast`, the others one by one."""
    there = np.asarray(texts.is_valid())
    sure = np.asarray(pc.match_substring_regex(texts, pattern).fill_null(False))
    converted = cast(pc.if_else(pa.array(sure), texts, pa.scalar(None, pa.string())))
    others = np.flatnonzero(there & ~sure)
    if not others.size:
        return converted, None
    distinct = texts.take(pa.array(others)).dictionary_encode()
    numbers = pa.array([convert(text) for text in distinct.dictionary.to_pylist()], pa.int64())
    numbers = numbers.take(distinct.indices)
    scattered = np.zeros(len(texts), np.int64)
    scattered[others] = numbers.fill_null(0)
    known = np.zeros(len(texts), np.bool_)
    known[others] = np.asarray(numbers.is_valid())
    storage = pa.int32() if pa.types.is_date32(converted.type) else pa.int64()
    single = pa.array(scattered, mask=~known).cast(storage).view(converted.type)
    unread = there & ~sure & ~known
    return pc.coalesce(converted, single), unread if unread.any() else None
