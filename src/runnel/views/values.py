"""Values that people ask for, in the types of a view's columns."""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import re
from typing import Any

import pyarrow as pa
from pyarrow import types

NANOSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")  # in a text: what Python's datetime leaves out


class NotOfType(ValueError):
    """The value cannot be one of that type."""


def typed(value: Any, kind: pa.DataType) -> pa.Scalar:
    """The value as one of that type, null for None. A time or a date may be ISO 8601; one without a zone is UTC.

    Nothing is cut off: 1.5 is no whole number, a time is no date, and nanoseconds are refused. A time is of the years
    1 to 9999, in UTC.
    """
    try:
        if (isinstance(value, bool) and not types.is_boolean(kind)) or _would_be_cut(value, kind):
            raise NotOfType(value)
        if isinstance(value, str) and types.is_timestamp(kind):
            value = _time(value, kind)
        elif isinstance(value, str) and types.is_date(kind):
            value = datetime.date.fromisoformat(value)
        scalar = pa.scalar(value, kind)
        found = scalar.as_py()
        if isinstance(found, float) and math.isinf(found) and not math.isinf(value):
            raise NotOfType(value)  # too large for 32 bits
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise NotOfType(value) from error
    return scalar


def _would_be_cut(value: Any, kind: Any) -> bool:
    """pyarrow takes the whole part of a number, the day of a time, a time in UTC for one without a zone, and of pandas'
    Timestamp and Timedelta the microseconds.
    """
    if isinstance(value, decimal.Decimal):
        return not _has_fractions(kind) and not (value.is_finite() and value == value.to_integral_value())
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):  # numpy's, too
        return not _has_fractions(kind) and not float(value).is_integer()
    if isinstance(value, datetime.timedelta):
        return bool(getattr(value, "nanoseconds", 0))
    if isinstance(value, datetime.datetime):
        if getattr(value, "nanosecond", 0):
            return True
        is_midnight = value.tzinfo is None and value.time() == datetime.time()
        return (types.is_date(kind) and not is_midnight) or (
            types.is_timestamp(kind) and kind.tz is None and value.tzinfo is not None
        )
    return False


def _has_fractions(kind: Any) -> bool:
    return bool(types.is_floating(kind) or types.is_decimal(kind))


def _time(text: str, kind: Any) -> datetime.datetime:
    """pyarrow takes a time without a zone for one in UTC, but would drop the zone of the other. Python drops
    nanoseconds.
    """
    time = datetime.datetime.fromisoformat(text)
    if not NANOSECONDS.search(text) and (time.tzinfo is None or kind.tz):
        return time
    raise NotOfType(text)
