"""Every command, argument and option stands in docs/reference/cli.md, under the heading of its command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from runnel.cli import app

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The command and all below it, by the words that call them."""
    yield name, command
    for part in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(None, part), f"{name} {part}")


def words_of(parameter: Any) -> list[str]:
    """How a parameter is written: the flags of an option, the name of an argument."""
    if parameter.param_type_name == "argument":
        return [parameter.metavar or parameter.name.upper()]
    return [*parameter.opts, *parameter.secondary_opts]


def sections() -> dict[str, str]:
    """The text under each heading that is a command."""
    parts = re.split(r"^##+ `(.+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


ALL = dict(commands(typer.main.get_command(app), "runnel"))


@pytest.mark.parametrize("name", ALL)
def test_a_command_is_described_with_all_its_options(name):
    section = sections().get(name)
    assert section is not None, f"{PAGE.name} has no heading for `{name}`"
    words = [word for parameter in ALL[name].params for word in words_of(parameter) if word != "--help"]
    assert [word for word in words if not re.search(rf"`{re.escape(word)}[` ]", section)] == []


def test_nothing_is_described_that_does_not_exist():
    assert set(sections()) == set(ALL)
    for name, section in sections().items():
        known = {word for parameter in ALL[name].params for word in words_of(parameter)} | {"--help"}
        assert set(re.findall(r"`(--[a-z-]+)", section)) <= known, name


def test_the_walk_finds_the_commands():
    assert {"runnel", "runnel log", "runnel log verify", "runnel log dump"} <= set(ALL)
