"""What the commands that run an app share."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from runnel.cli.ending import Ending, ending
from runnel.cli.screen import Screen
from runnel.cli.structured_log import log_to_stderr
from runnel.errors import RunnelError
from runnel.graph.alert import WAYS, Alert, AlertRule, rules

App = Annotated[Path, typer.Argument(metavar="APP.py", help="The Python file that declares the app.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Where the app keeps what is its own.  [default: .runnel beside the file]"
    ),
]
Views = Annotated[
    str | None,
    typer.Option(
        "--views", metavar="URL", help="Where views are kept: a directory, or postgresql://...  [default: DIR]"
    ),
]
Master = Annotated[str, typer.Option("--master", metavar="M", help="The master of Spark.")]
Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        min=1,
        help="How many tasks share what each output remembers, from now on.  [default: as before; at first, cores]",
    ),
]
UntilCaughtUp = Annotated[bool, typer.Option("--until-caught-up", help="End when all that is there now has been read.")]
SkipGone = Annotated[
    bool, typer.Option("--skip-gone", help="Go on behind records that were deleted before they were read.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A client's setting, such as security.protocol=SSL."),
]
Alerts = Annotated[
    list[str] | None,
    typer.Option("--alert", metavar="WHAT", help=f"Tell when it happens; as often as wanted: {WAYS}."),
]
AlertTopic = Annotated[
    str | None, typer.Option("--alert-topic", metavar="TOPIC", help="Tell the alerts of --alert to a topic, too.")
]
AlertCommand = Annotated[
    str | None,
    typer.Option("--alert-command", metavar="COMMAND", help="Call this for each of them; it gets JSON on stdin."),
]
NoScreen = Annotated[bool, typer.Option("--no-screen", help="Write the log alone, also on a terminal.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON, one object a line.")]


def directory_of(app: Path, data: Path | None) -> Path:
    return (data or app.parent / ".runnel").resolve()


def log_of(directory: Path) -> Path:
    """Of the broker that `runnel up` starts."""
    return directory / "log"


def alert_rules(alerts: list[str] | None, topic: str | None, command: str | None) -> tuple[AlertRule, ...]:
    """What was asked for on the command line."""
    if not alerts:
        for option, given in (("--alert-topic", topic), ("--alert-command", command)):
            if given is not None:
                raise typer.BadParameter("name what to tell by --alert.", param_hint=f"'{option}'")
        return ()
    try:
        return tuple(rules(tuple(map(Alert.parse, alerts)), None, topic, command))
    except RunnelError as error:
        raise typer.BadParameter(f"{error.what}: {error.hint}.", param_hint="'--alert'") from None


def run_app(
    app: Path,
    broker: AbstractContextManager[str],
    asked: Ending,
    *,
    data: Path | None,
    shown: Screen | None = None,
    **how: Any,
) -> None:
    """Until it is `asked` to end. The log must be set up already. The broker, which gives its address, is started when
    the file is loaded: one that cannot be leaves nothing behind.
    """
    # Imported here because they bring Spark: `runnel run --help` need not wait for it.
    from runnel.app.loading import load_app  # noqa: PLC0415
    from runnel.pipeline.session import prepare_session  # noqa: PLC0415

    loaded = load_app(app)
    # Java starts while the rest is imported: as for few records, if it is to end, which are not counted yet.
    prepare_session(how.get("master", "local[*]"), brief=how.get("until_caught_up", False))

    from runnel.app.runner import Runner, Running  # noqa: PLC0415

    if shown is not None and shown.is_on:
        how["report_every"] = None
    directory = directory_of(app, data)
    with broker as bootstrap, _told_where_the_log_is(directory):
        runner = Runner(loaded, Running(bootstrap, directory, **how))
        if shown is not None:
            shown.ask = lambda: runner.progress
        runner.run(when_started=lambda: asked.call(runner.stop))
    if asked.code:
        sys.exit(asked.code)


class Work(Protocol):
    """Something that ends, or is stopped: then it has made nothing."""

    def run(self, *, when_started: Callable[[], object]) -> object: ...

    def stop(self) -> object: ...


def made_by(begin: Callable[[], Work], directory: Path) -> object:
    """What it has made. If it is ended by a signal, so is the program."""
    with ending(is_whole=False) as asked, _told_where_the_log_is(directory):
        work = begin()
        done = work.run(when_started=lambda: asked.call(work.stop))
    if done is None:
        sys.exit(asked.code)
    return done


@contextmanager
def _told_where_the_log_is(directory: Path) -> Iterator[None]:
    """Whoever has used `runnel up` has no broker once the app has ended, and the log is still there."""
    from runnel.client.errors import Unreachable  # noqa: PLC0415  # it brings a client

    try:
        yield
    except Unreachable as error:
        log = log_of(directory)
        if log.is_dir():
            serving = f"`runnel broker start --data {shlex.quote(str(log))}`"
            error.hint = f"the broker of `runnel up` ends with the app: {serving} serves its log; else {error.hint}"
        raise


def log_of_an_app(*, as_json: bool) -> None:
    log_to_stderr(as_json=as_json)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what a call between Java and Python came to is told by us
