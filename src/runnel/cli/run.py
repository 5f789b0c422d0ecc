"""`runnel run`: keep an app's streams and views up to date, against any Kafka."""

from __future__ import annotations

from runnel.cli.ending import ending
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from runnel.cli.running import App, Data, LogJson, Master, Set, SkipGone, UntilCaughtUp, Views, log_of_an_app, run_app

run = noun()


@run.command()
def keep(  # noqa: PLR0913  # what people may type
    app: App,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    views: Views = None,
    master: Master = "local[*]",
    until_caught_up: UntilCaughtUp = False,
    skip_gone: SkipGone = False,
    settings: Set = None,
    log_json: LogJson = False,
) -> None:
    """Run an app until SIGTERM or Ctrl-C; the batches under way are finished first."""
    chosen = dict(pairs(settings or (), "--set"))
    log_of_an_app(as_json=log_json)
    with ending(is_whole=not until_caught_up) as asked:
        run_app(
            app,
            bootstrap,
            asked,
            data=data,
            views=views,
            master=master,
            until_caught_up=until_caught_up,
            skip_gone=skip_gone,
            settings=chosen,
        )
