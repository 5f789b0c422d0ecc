"""`runnel replay`: run a derived stream over records of the past, into another topic."""

from __future__ import annotations

from typing import Annotated

import typer

from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from runnel.cli.running import App, Data, LogJson, Master, Set, SkipGone, Views, directory_of, log_of_an_app, made_by

replay = noun()


@replay.command()
def make(  # noqa: PLR0913  # what people may type
    name: Annotated[str, typer.Argument(metavar="NAME", help="The derived stream.")],
    app: App,
    start: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="earliest, a time such as 2026-07-01T12:00:00Z, or an age: 1d."),
    ],
    topic: Annotated[str, typer.Option("--to-topic", metavar="TOPIC", help="Where it writes; made if missing.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    views: Views = None,
    master: Master = "local[*]",
    skip_gone: SkipGone = False,
    settings: Set = None,
    log_json: LogJson = False,
) -> None:
    """Write what a derived stream makes of records from a time on to another topic, once, and end."""
    from runnel.app.loading import load_app  # noqa: PLC0415  # it brings Spark
    from runnel.app.replay import InvalidFrom, Replay  # noqa: PLC0415
    from runnel.app.runner import Running  # noqa: PLC0415

    chosen = dict(pairs(settings or (), "--set"))
    log_of_an_app(as_json=log_json)
    running = Running(bootstrap, directory_of(app, data), views, master=master, settings=chosen, skip_gone=skip_gone)
    try:
        done = made_by(lambda: Replay(load_app(app), name, running, start=start, to=topic), running.data)
    except InvalidFrom as error:
        raise typer.BadParameter(str(error), param_hint="'--from'") from None
    print(f"{name} was replayed into {topic}: {done}")
