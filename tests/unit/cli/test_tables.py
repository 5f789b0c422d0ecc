"""Tables for people."""

from __future__ import annotations

from runnel.cli.tables import counted, print_table


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


def test_things_are_counted():
    assert [counted(1, "topic"), counted(2_000, "topic"), counted(0, "batch", "batches")] == [
        "1 topic",
        "2,000 topics",
        "0 batches",
    ]
