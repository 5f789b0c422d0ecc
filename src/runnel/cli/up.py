"""`runnel up`: a broker and an app, with one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from runnel.cli.addresses import address_form
from runnel.cli.ending import ending
from runnel.cli.nouns import noun
from runnel.cli.options import Metrics
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
    SkipGone,
    UntilCaughtUp,
    Views,
    alert_rules,
    directory_of,
    log_of,
    log_of_an_app,
    run_app,
)
from runnel.cli.screen import screen

LISTEN = "127.0.0.1:9092"

up = noun()


@up.command()
def keep(  # noqa: PLR0913  # what people may type
    app: App,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            callback=address_form,
            metavar="HOST:PORT",
            help="Where the broker listens; port 0 picks a free one.",
        ),
    ] = LISTEN,
    data: Data = None,
    views: Views = None,
    master: Master = "local[*]",
    partitions: Partitions = None,
    until_caught_up: UntilCaughtUp = False,
    skip_gone: SkipGone = False,
    metrics: Metrics = None,
    alert: Alerts = None,
    alert_topic: AlertTopic = None,
    alert_command: AlertCommand = None,
    no_screen: NoScreen = False,
    log_json: LogJson = False,
) -> None:
    """Start a broker of our own, and run an app on it until SIGTERM or Ctrl-C."""
    alerts = alert_rules(alert, alert_topic, alert_command)
    log_of_an_app(as_json=log_json)
    with ending(is_whole=not until_caught_up) as asked, screen(wanted=not no_screen and not log_json) as shown:
        run_app(
            app,
            _broker(log_of(directory_of(app, data)), listen),
            asked,
            data=data,
            views=views,
            master=master,
            partitions=partitions,
            until_caught_up=until_caught_up,
            skip_gone=skip_gone,
            make_topics=True,
            metrics=metrics,
            alerts=alerts,
            shown=shown,
        )


@contextmanager
def _broker(log: Path, listen: str) -> Iterator[str]:
    from runnel.app.local_broker import local_broker  # noqa: PLC0415

    with local_broker(log, listen) as bootstrap:
        print(f"listening on {bootstrap}", flush=True)
        yield bootstrap
