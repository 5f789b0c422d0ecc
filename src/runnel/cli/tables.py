"""Tables for people, and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runnel.cli.values import printable

WIDE = 10_000  # what is no terminal gets each row on one line
ALERT = "red"


def console() -> Console:
    """Shows text as it is: no colours by guess, no markup."""
    screen = Console(highlight=False, emoji=False, markup=False)
    if not sys.stdout.isatty():
        screen.width = WIDE
    return screen


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, alert: int | None = None) -> None:
    """Numbers stand on the right. A None is shown as `-`; what stands in the column `alert` is shown in red."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    texts = [list(row) for row in rows]
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in texts)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in texts:
        table.add_row(*(Text(_shown(value), ALERT if index == alert else "") for index, value in enumerate(row)))
    console().print(table)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else printable(str(value))
