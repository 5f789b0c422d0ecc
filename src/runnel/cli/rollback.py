"""`runnel rollback`: let the copy of a view that a rebuild has kept take its place again."""

from __future__ import annotations

from typing import Annotated

import typer

from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from runnel.cli.rebuild import View
from runnel.cli.running import App, Data, LogJson, Master, Set, Views, directory_of, log_of_an_app, made_by

rollback = noun()


@rollback.command()
def back(  # noqa: PLR0913  # what people may type
    name: View,
    app: App,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    views: Views = None,
    discard: Annotated[bool, typer.Option("--discard", help="Remove the copy that is kept instead.")] = False,
    master: Master = "local[*]",
    settings: Set = None,
    log_json: LogJson = False,
) -> None:
    """Bring the copy of a view that a rebuild has kept up to date, show it again, and keep the other one."""
    from runnel.app.loading import load_app  # noqa: PLC0415  # it brings Spark
    from runnel.app.rebuild import Rebuild  # noqa: PLC0415
    from runnel.app.rebuild import discard as remove  # noqa: PLC0415
    from runnel.app.rebuilds import freed  # noqa: PLC0415
    from runnel.app.runner import Running  # noqa: PLC0415

    chosen = dict(pairs(settings or (), "--set"))
    log_of_an_app(as_json=log_json)
    running = Running(bootstrap, directory_of(app, data), views, master=master, settings=chosen)
    if discard:
        print(f"{name}: {freed(remove(load_app(app), name, running))} freed")
        return
    done = made_by(lambda: Rebuild(load_app(app), name, running, back=True), running.data)
    print(f"{name} is rolled back: {done}")
