"""Where to begin reading a partition: its earliest record, behind its latest, at an offset, or at a time."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from runnel.errors import Permanent
from runnel.settings import INT64_MAX

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MOST_DIGITS = 19  # of 63 bits; Python refuses to read thousands
AGE = re.compile(r"(\d{1,12})(ms|s|m|h|d)")


class Place(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


class InvalidStart(Permanent):
    def __init__(self, text: str) -> None:
        super().__init__(
            f'"{text}" is no place to start from',
            hint="expected earliest, latest, an offset, a time such as 2026-07-01T12:00:00Z, or an age such as 2h",
        )
        self.text = text


@dataclass(frozen=True)
class Start:
    """`number` is an offset, or a time in milliseconds since 1970: the first record at or after it."""

    place: Place
    number: int = 0

    @classmethod
    def offset(cls, number: int) -> Start:
        try:
            return cls(Place.OFFSET, operator.index(number))
        except TypeError:
            raise InvalidStart(str(number)) from None

    @classmethod
    def time(cls, milliseconds: float) -> Start:
        """One before 1970 is 0: Kafka knows places by negative ones. One after all that can be is the last."""
        try:
            return cls(Place.TIME, min(max(0, int(milliseconds)), INT64_MAX))
        except (TypeError, ValueError, OverflowError):
            raise InvalidStart(str(milliseconds)) from None

    @classmethod
    def parse(cls, text: str, now: int) -> Start:
        """From what people write. A time without a zone is UTC; an age counts back from `now`, in milliseconds."""
        if text in (Place.EARLIEST.value, Place.LATEST.value):
            return cls(Place(text))
        if text.isascii() and text.isdigit():
            if len(text) > MOST_DIGITS or int(text) >= 2**63:  # Python would take some for a time
                raise InvalidStart(text)
            return cls.offset(int(text))
        if age := AGE.fullmatch(text):
            return cls.time(now - int(age[1]) * UNITS[age[2]])
        try:
            moment = datetime.fromisoformat(text)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return cls.time(round(zoned.timestamp() * 1_000))
        except (ValueError, OverflowError):
            raise InvalidStart(text) from None


EARLIEST = Start(Place.EARLIEST)
LATEST = Start(Place.LATEST)
