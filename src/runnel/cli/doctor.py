"""`runnel doctor`: what is wrong here, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, checked_address, pairs
from runnel.cli.running import Data, Set, Views, directory_of
from runnel.cli.tables import console, print_json
from runnel.cli.values import printable
from runnel.counted import counted

if TYPE_CHECKING:  # it brings Spark
    from runnel.app.finding import Finding

SOMETHING_IS_WRONG = 1
STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}

doctor = noun()


@doctor.command()
def examine(
    app: Annotated[
        Path | None, typer.Argument(metavar="APP.py", help="The Python file that declares the app; it is imported.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT",
            envvar="RUNNEL_BOOTSTRAP",
            callback=checked_address,
            help=f"The address of a broker.  [default: {DEFAULT_BOOTSTRAP}, where none need be]",
        ),
    ] = None,
    data: Data = None,
    views: Views = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Look over all that an app needs, and say what to do. Exit code 1 if something is wrong."""
    # Imported here because it brings much of Spark's side: `runnel doctor --help` need not wait for it.
    from runnel.app.doctor import Patient  # noqa: PLC0415
    from runnel.app.doctor import examine as findings  # noqa: PLC0415
    from runnel.app.finding import Mark  # noqa: PLC0415

    directory = directory_of(app or Path("app.py"), data)
    chosen = dict(pairs(settings or (), "--set"))
    patient = Patient(app, bootstrap or DEFAULT_BOOTSTRAP, directory, views, chosen, is_chosen=bootstrap is not None)
    found = list(findings(patient))
    wrong = sum(each.mark is Mark.WRONG for each in found)
    if as_json:
        print_json({"is_well": not wrong, "findings": [each._asdict() for each in found]})
    else:
        console().print(_table(found))
        print(f"\n{counted(wrong, 'thing is', 'things are') if wrong else 'nothing is'} wrong")
    if wrong:
        raise typer.Exit(SOMETHING_IS_WRONG)


def _table(found: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for each in found:
        texts = (each.what, each.found, each.hint)
        table.add_row(Text(each.mark, STYLES[each.mark]), *(Text(printable(text)) for text in texts))
    return table
