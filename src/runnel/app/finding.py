"""What the doctor found of one thing, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from runnel.errors import RunnelError


class Mark(StrEnum):
    WELL = "ok"
    NOTE = "note"  # worth knowing; nothing stops an app
    WRONG = "wrong"


class Finding(NamedTuple):
    what: str
    mark: Mark
    found: str
    hint: str = ""


def well(what: str, found: str) -> Finding:
    return Finding(what, Mark.WELL, found)


def note(what: str, found: str, hint: str = "") -> Finding:
    return Finding(what, Mark.NOTE, found, hint)


def wrong(what: str, found: str, hint: str) -> Finding:
    return Finding(what, Mark.WRONG, found, hint)


def told(what: str, error: RunnelError) -> Finding:
    return wrong(what, error.what, error.hint)
