"""`runnel run`: keep an app's streams and views up to date, against any Kafka."""

from __future__ import annotations

from contextlib import nullcontext

from runnel.cli.ending import ending
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Metrics, pairs
from runnel.cli.running import (
    AlertCommand,
    Alerts,
    AlertTopic,
    App,
    Data,
    LogJson,
    Master,
    NoScreen,
    Partitions,
    Set,
    SkipGone,
    UntilCaughtUp,
    Views,
    alert_rules,
    log_of_an_app,
    run_app,
)
from runnel.cli.screen import screen

run = noun()


@run.command()
def keep(  # noqa: PLR0913  # what people may type
    app: App,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    data: Data = None,
    views: Views = None,
    master: Master = "local[*]",
    partitions: Partitions = None,
    until_caught_up: UntilCaughtUp = False,
    skip_gone: SkipGone = False,
    settings: Set = None,
    metrics: Metrics = None,
    alert: Alerts = None,
    alert_topic: AlertTopic = None,
    alert_command: AlertCommand = None,
    no_screen: NoScreen = False,
    log_json: LogJson = False,
) -> None:
    """Run an app until SIGTERM or Ctrl-C; the batches under way are finished first."""
    chosen = dict(pairs(settings or (), "--set"))
    alerts = alert_rules(alert, alert_topic, alert_command)
    log_of_an_app(as_json=log_json)
    with ending(is_whole=not until_caught_up) as asked, screen(wanted=not no_screen and not log_json) as shown:
        run_app(
            app,
            nullcontext(bootstrap),
            asked,
            data=data,
            views=views,
            master=master,
            partitions=partitions,
            until_caught_up=until_caught_up,
            skip_gone=skip_gone,
            settings=chosen,
            metrics=metrics,
            alerts=alerts,
            shown=shown,
        )
