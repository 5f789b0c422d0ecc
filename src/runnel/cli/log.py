"""`runnel log`: look into the files of a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from runnel.cli.nouns import noun
from runnel.cli.reports import print_json, print_report
from runnel.cli.rows import as_json, as_text
from runnel.log.dump import has_offsets, rows_of
from runnel.log.read_only import READ_ONLY_DISK
from runnel.log.verify import Progress as Tell
from runnel.log.verify import verify as check

PROBLEMS_FOUND = 1

log = noun("Look into the files of a log.")


@log.command()
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory, or the folder of a partition.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, for programs.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Read a directory that is in use, without its lock: what changes meanwhile may be told as a problem.",
        ),
    ] = False,
) -> None:
    """Check every file of a log, and change nothing.

    The exit code is 0 if all is well; 1 if there are problems, or if the check is not possible.
    """
    with _progress() as tell:
        report = check(directory, force=force, progress=tell)
    if as_json:
        print_json(report)
    else:
        print_report(report)
    if not report.is_well:
        raise typer.Exit(PROBLEMS_FOUND)


@log.command()
def dump(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A segment (.log), .index, .timeindex, .txnindex, .snapshot, a checkpoint, or synced-offsets.",
        ),
    ],
    json_lines: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")] = False,
    records: Annotated[
        bool, typer.Option("--records/--no-records", help="Show the records of each batch, or the batches alone.")
    ] = True,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Begin with this offset, in a .log or an index.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Stop after so many batches, or entries of another file.")
    ] = None,
) -> None:
    """Show what stands in a file of a log.

    Where the file is damaged the output ends with an error; what is printed before it is whole.
    """
    path = str(file)
    if offset and not has_offsets(path):
        raise typer.BadParameter("only .log files and indexes have offsets", param_hint="--offset")
    most = None if limit is None else min(limit, sys.maxsize)
    for row in islice(rows_of(READ_ONLY_DISK, path, offset=offset, records=records), most):
        for line in [as_json(row, records=records)] if json_lines else as_text(row):
            print(line)


@contextmanager
def _progress() -> Iterator[Tell | None]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
