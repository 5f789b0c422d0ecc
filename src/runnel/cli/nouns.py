"""The nouns of the command line, each loaded when it is called: a call pays for what it uses, and no more.

A noun is a module of this package, and in it a `typer.Typer` of the same name. A new one is a word in NOUNS.
"""

from __future__ import annotations

from difflib import get_close_matches
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


WHOLE = 1_000  # characters: no sentence has more


class Verbs(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each with its first sentence, on several lines if it must be: Typer would cut it off."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            rows.append((name, command.get_short_help_str(WHOLE)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Nouns(Verbs):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return sorted(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        return get_command(getattr(import_module(f"runnel.cli.{cmd_name}"), cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Typer looks for what was meant among commands that are loaded, and nouns are not."""
        if args[0] not in NOUNS and (meant := get_close_matches(args[0], NOUNS)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {', '.join(map(repr, meant))}?")
        return super().resolve_command(ctx, args)


def noun(about: str | None = None) -> typer.Typer:
    """For several verbs under one noun, with `about` in its help; or for one command of the noun's own name."""
    return typer.Typer(
        cls=Verbs, help=about, no_args_is_help=about is not None, add_completion=False, rich_markup_mode=None
    )
