"""The options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

import typer

from runnel.cli.addresses import address_form

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def checked_address(bootstrap: str | None) -> str | None:
    """A callback of typer's."""
    if bootstrap is None:
        return None
    # Imported here because it costs as much as all the rest, and a noun that shares the options may not need it.
    from runnel.client import InvalidAddress  # noqa: PLC0415
    from runnel.client.connection import Connection  # noqa: PLC0415

    try:
        Connection(bootstrap)
    except InvalidAddress as error:
        raise typer.BadParameter(f"{error.what}: {error.hint}.") from None
    return bootstrap


def checked_number(number: float | None) -> float | None:
    """A callback of typer's, which takes NaN for a number within any bounds."""
    if number is not None and math.isnan(number):
        raise typer.BadParameter(f"'{number}' is no number.")
    return number


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="RUNNEL_BOOTSTRAP",
        callback=checked_address,
        help="The address of a broker, or several with commas in between.",
    ),
]

Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        callback=address_form,
        metavar="HOST:PORT",
        help="Serve Prometheus metrics, /health and /ready there.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def pairs(values: Iterable[str], option: str) -> list[tuple[str, str]]:
    """The names and values of an option that is given as NAME=VALUE, as often as wanted."""
    found = []
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"'{text}' is not of the form NAME=VALUE.", param_hint=f"'{option}'")
        found.append((name, value))
    return found
