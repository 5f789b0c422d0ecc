"""Checks what a program gives the readers of views, before it leads to an error that nobody can read."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from runnel.views.errors import InvalidArgument, InvalidStore

Given = TypeVar("Given")

NO_NUMBER = "is no number of seconds"


def path(address: object) -> str:
    """Of a store, as text."""
    text = os.fspath(address) if isinstance(address, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidStore(repr(address), "it is neither text nor a path")
    return text


def settings(given: Mapping[str, str] | None) -> Mapping[str, str]:
    """Those of a connection."""
    found: Any = {} if given is None else given
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        hint = "give names and values: settings={'security.protocol': 'SSL'}"
        raise InvalidArgument("runnel.views", "settings are no settings of librdkafka", hint=hint)  # nor shown: secrets
    return found


def timeout(view: str, given: float) -> float:
    """In seconds; one that is over already is none to wait for."""
    if not _is_number(given):
        raise _refused(view, "timeout", given, NO_NUMBER, "give one: timeout=5")
    return float(given)


def interval(view: str, given: float) -> float:
    """In seconds."""
    if not _is_number(given) or not 0 <= given <= threading.TIMEOUT_MAX:
        raise _refused(view, "interval", given, f"{NO_NUMBER} to wait", "give one, 0 or more: interval=0.05")
    return float(given)


def token(view: str, given: Given) -> Given:
    """Of a record that was written."""
    topic, *numbers = (getattr(given, name, None) for name in ("topic", "partition", "offset"))
    if not isinstance(topic, str) or not all(isinstance(each, Integral) for each in numbers):
        hint = (
            "give what produce(...) returned; several one after the other: wait_for(first, second) or wait_for(*tokens)"
        )
        raise InvalidArgument(f"view {view!r}", f"{given!r} is no token of a record", hint=hint)
    return given


def _is_number(given: object) -> bool:
    return not isinstance(given, bool) and isinstance(given, Real) and not math.isnan(given)


def _refused(view: str, argument: str, given: object, reason: str, hint: str) -> InvalidArgument:
    return InvalidArgument(f"view {view!r}", f"{argument}={given!r} {reason}", hint=hint)
