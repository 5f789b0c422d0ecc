"""The nouns of the command line, each loaded when it is called: a call pays for what it uses, and no more.

A noun is a module of this package, and in it a `typer.Typer` of the same name. A new one is a word in NOUNS.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

NOUNS = (
    "broker",
    "capture",
    "consume",
    "doctor",
    "groups",
    "log",
    "new",
    "produce",
    "rebuild",
    "replay",
    "rollback",
    "run",
    "topics",
    "transactions",
    "up",
    "view",
)


class Nouns(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return sorted(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        return get_command(getattr(import_module(f"runnel.cli.{cmd_name}"), cmd_name))


def noun(about: str | None = None) -> typer.Typer:
    """For several verbs under one noun, with `about` in its help; or for one command of the noun's own name."""
    return typer.Typer(help=about, no_args_is_help=about is not None, add_completion=False, rich_markup_mode=None)
