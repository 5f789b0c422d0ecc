"""`runnel run`: keep an app's streams and views up to date, against any Kafka."""

from __future__ import annotations

from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from runnel.cli.running import App, Data, LogJson, Master, Set, UntilCaughtUp, Views, run_app

run = noun()


@run.command()
def keep(
    app: App,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    views: Views = None,
    master: Master = "local[*]",
    until_caught_up: UntilCaughtUp = False,
    settings: Set = None,
    log_json: LogJson = False,
) -> None:
    """Run an app until SIGTERM or Ctrl-C; the batches under way are finished first."""
    run_app(
        app,
        bootstrap,
        data=data,
        views=views,
        master=master,
        until_caught_up=until_caught_up,
        settings=dict(pairs(settings or (), "--set")),
        log_json=log_json,
    )
