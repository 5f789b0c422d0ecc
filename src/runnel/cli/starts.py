"""Where to start, as an option."""

from __future__ import annotations

import typer

from runnel.client import InvalidStart, Start
from runnel.clock import SYSTEM_CLOCK

START_HELP = "earliest, latest, an offset, a time such as 2026-07-01T12:00:00Z, or an age such as 15m or 2d."


def parse_start(text: str) -> Start:
    return Start.parse(text, SYSTEM_CLOCK.now())


def checked_start(text: str) -> str:
    """A callback of typer's, which keeps the text: an age counts back from when it is used."""
    try:
        parse_start(text)
    except InvalidStart as error:
        raise typer.BadParameter(f"{error.what}: {error.hint}.") from None
    return text
