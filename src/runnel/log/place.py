"""A place in a segment file."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """The batch at `position` has base offset `offset`, or the segment ends there."""

    position: int
    offset: int
