"""Addresses to listen on, as people type them."""

from __future__ import annotations

import re

import typer

ADDRESS = re.compile(r"(\[[^\]]*\]|[^:\[\]/,]*):\d{1,5}")


def address_form(text: str | None) -> str | None:
    """A callback of typer's."""
    if text is not None and not ADDRESS.fullmatch(text):
        raise typer.BadParameter(f"'{text}' is not of the form HOST:PORT.")
    return text
