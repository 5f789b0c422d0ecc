"""What `runnel run` and `runnel up` share."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from runnel.cli.structured_log import log_to_stderr

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
UntilCaughtUp = Annotated[bool, typer.Option("--until-caught-up", help="End when all that is there now has been read.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A client's setting, such as security.protocol=SSL."),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON, one object a line.")]


def directory_of(app: Path, data: Path | None) -> Path:
    return (data or app.parent / ".runnel").resolve()


def run_app(
    app: Path, bootstrap: str, *, data: Path | None, settings: dict[str, str], log_json: bool, **how: Any
) -> None:
    # Imported here because they bring Spark: `runnel run --help` need not wait for it.
    from runnel.app.loading import load_app  # noqa: PLC0415
    from runnel.app.runner import Runner, Running  # noqa: PLC0415

    log_to_stderr(as_json=log_json)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call between Python and Java
    runner = Runner(load_app(app), Running(bootstrap, directory_of(app, data), settings=settings, **how))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runner.stop())
    runner.run()
