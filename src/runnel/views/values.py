"""Values that people ask for, in the types of a view's columns."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
from pyarrow import types


class NotOfType(ValueError):
    """The value cannot be one of that type."""


def typed(value: Any, kind: pa.DataType) -> pa.Scalar:
    """The value as one of that type, null for None. A time or a date may be ISO 8601; one without a zone is UTC."""
    if isinstance(value, bool) and not types.is_boolean(kind):
        raise NotOfType(value)
    try:
        if isinstance(value, str) and types.is_timestamp(kind):
            value = _time(value, kind)
        elif isinstance(value, str) and types.is_date(kind):
            value = datetime.date.fromisoformat(value)
        scalar = pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise NotOfType(value) from error
    return scalar


def _time(text: str, kind: Any) -> datetime.datetime:
    """pyarrow takes a time without a zone for one in UTC, but would drop the zone of the other."""
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None or kind.tz:
        return time
    raise NotOfType(text)
