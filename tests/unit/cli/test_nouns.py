"""A call pays for what it uses, and no more."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
import typer

from runnel.cli.nouns import NOUNS

HEAVY = {"confluent_kafka", "aiokafka", "rich", "uvloop", "runnel.log", "runnel.client", "runnel.broker", "asyncio"}


def loaded(statement: str) -> set[str]:
    """Which of the heavy modules a statement loads."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return HEAVY & set(run.stdout.split())


def test_the_command_line_alone_is_light():
    assert loaded("import runnel.cli") == set()


def test_options_that_nouns_share_are_light():
    assert loaded("import runnel.cli.options, runnel.cli.values, runnel.cli.nouns") == set()


def test_the_version_loads_no_noun():
    call = "import runnel.cli, contextlib\nsys.argv = ['runnel', '--version']\nwith contextlib.suppress(SystemExit):\n"
    assert loaded(f"{call}    runnel.cli.main()") == set()


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_is_a_module_with_an_application_of_its_name(noun):
    assert isinstance(getattr(import_module(f"runnel.cli.{noun}"), noun), typer.Typer)


def test_the_help_names_every_noun(runnel):
    listed = runnel("--help").out.partition("Commands:")[2]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "] == sorted(
        NOUNS
    )


def test_a_noun_has_its_own_help(runnel):
    result = runnel("topics", "--help")
    assert result.code == 0
    assert result.out.startswith("Usage: runnel topics [OPTIONS] COMMAND [ARGS]...")
    assert "--install-completion" not in result.out


@pytest.mark.parametrize("group", [(), ("capture",), ("transactions",)])
def test_a_list_of_commands_tells_each_by_a_whole_sentence(group, runnel):
    listed = runnel(*group, "--help").out.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize(
    ("typed", "meant"), [("topic", "'topics'"), ("veiw", "'view'"), ("roll", "'rollback'"), ("rebuidl", "'rebuild'")]
)
def test_a_noun_that_is_mistyped_is_told_with_what_was_meant(typed, meant, runnel):
    done = runnel(typed, "list")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith(f"Error: No such command {typed!r}. Did you mean {meant}")


def test_a_noun_that_is_like_no_other_is_told_without_a_guess(runnel):
    assert runnel("xyzzy").err.splitlines()[-1] == "Error: No such command 'xyzzy'."
