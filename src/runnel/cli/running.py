"""What `runnel run` and `runnel up` share."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from runnel.cli.ending import Ending
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
SkipGone = Annotated[
    bool, typer.Option("--skip-gone", help="Go on behind records that were deleted before they were read.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A client's setting, such as security.protocol=SSL."),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON, one object a line.")]


def directory_of(app: Path, data: Path | None) -> Path:
    return (data or app.parent / ".runnel").resolve()


def run_app(app: Path, bootstrap: str, asked: Ending, *, data: Path | None, **how: Any) -> None:
    """Until it is `asked` to end. The log must be set up already."""
    # Imported here because they bring Spark: `runnel run --help` need not wait for it.
    from runnel.app.loading import load_app  # noqa: PLC0415
    from runnel.app.runner import Runner, Running  # noqa: PLC0415

    runner = Runner(load_app(app), Running(bootstrap, directory_of(app, data), **how))
    runner.run(when_started=lambda: asked.call(runner.stop))
    if asked.code:
        sys.exit(asked.code)


def log_of_an_app(*, as_json: bool) -> None:
    log_to_stderr(as_json=as_json)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what a call between Java and Python came to is told by us
