"""The report of a check: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runnel.cli.values import printable
from runnel.counted import counted
from runnel.log.verify import Report, Severity, Totals

WIDE = 10_000  # what is no terminal gets each problem on one line
STYLES = {Severity.PROBLEM: "red", Severity.NOTE: "yellow"}


def print_json(report: Report) -> None:
    print(json.dumps({"is_well": report.is_well, **asdict(report)}, indent=2))


def print_report(report: Report) -> None:
    console = Console(highlight=False, emoji=False, markup=False)
    if not sys.stdout.isatty():
        console.width = WIDE
    if report.problems:
        console.print(_table(report))
        console.print()
    console.print(Text(_summary(report), overflow="fold"))


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("severity")
    table.add_column("file", overflow="fold")
    table.add_column("position", justify="right")
    table.add_column("offset", justify="right")
    table.add_column("what", overflow="fold")
    for problem in report.problems:
        table.add_row(
            Text(problem.severity, STYLES[problem.severity]),
            Text(printable(problem.path.removeprefix(f"{report.path}/"))),
            Text(_number(problem.position)),
            Text(_number(problem.offset)),
            Text(printable(problem.what)),
        )
    return table


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _summary(report: Report) -> str:
    problems = sum(problem.severity is Severity.PROBLEM for problem in report.problems)
    notes = len(report.problems) - problems
    found = counted(problems, "problem") if problems else "no problems"
    if notes:
        found += f", {counted(notes, 'note')}"
    return f"{found} in {_looked_at(report.totals)} of {printable(report.path)}"


def _looked_at(totals: Totals) -> str:
    return ", ".join(
        (
            counted(totals.partitions, "partition"),
            counted(totals.segments, "segment"),
            counted(totals.batches, "batch", "batches"),
            counted(totals.records, "record"),
            counted(totals.bytes, "byte"),
        )
    )
