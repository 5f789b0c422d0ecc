"""`runnel rebuild`: read the log again into a new copy of a view, which then takes its place."""

from __future__ import annotations

from typing import Annotated

import typer

from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from runnel.cli.running import App, Data, LogJson, Master, Set, SkipGone, Views, directory_of, log_of_an_app, made_by

View = Annotated[str, typer.Argument(metavar="NAME", help="The view.")]

rebuild = noun()


@rebuild.command()
def make(  # noqa: PLR0913  # what people may type
    name: View,
    app: App,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    views: Views = None,
    master: Master = "local[*]",
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            help="How many tasks share what the view remembers, from now on.  [default: as many as cores]",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the old copy for seven days, for a rollback.")] = False,
    skip_gone: SkipGone = False,
    settings: Set = None,
    log_json: LogJson = False,
) -> None:
    """Make a new copy of a view while the old one goes on; when it has caught up, it takes the view's place."""
    from runnel.app.loading import load_app  # noqa: PLC0415  # it brings Spark
    from runnel.app.rebuild import Rebuild  # noqa: PLC0415
    from runnel.app.runner import Running  # noqa: PLC0415

    chosen = dict(pairs(settings or (), "--set"))
    log_of_an_app(as_json=log_json)
    running = Running(bootstrap, directory_of(app, data), views, master=master, settings=chosen, skip_gone=skip_gone)
    done = made_by(lambda: Rebuild(load_app(app), name, running, keep=keep, partitions=partitions), running.data)
    print(f"{name} was rebuilt: {done}")
