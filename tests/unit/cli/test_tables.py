"""Tables for people."""

from __future__ import annotations

from runnel.cli.tables import print_table


def test_numbers_stand_on_the_right_and_none_is_a_dash(capsys):
    print_table(["name", "count"], [("a", 1), ("bcd", 1_000), ("e", None)])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name  count",
        "a         1",
        "bcd    1000",
        "e         -",
    ]


def test_a_row_stays_on_one_line_and_cannot_command_the_terminal(capsys):
    print_table(["name"], [("x" * 500,), ("\x1b[2J[red]",)])
    assert capsys.readouterr().out.split() == ["name", "x" * 500, "\\x1b[2J[red]"]
