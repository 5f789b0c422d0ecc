"""The command line: it speaks to people and decides nothing.

An error of ours is told in two lines on stderr, what is wrong and a hint what to do, and ends with exit code 1. A call
that makes no sense ends with 2, Ctrl-C with 130. Nobody sees a traceback unless Runnel itself has a defect.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from runnel.cli.nouns import Nouns
from runnel.cli.values import printable
from runnel.errors import RunnelError
from runnel.version import __version__

__all__ = ["app", "main"]

FAILED = 1
INTERRUPTED = 130

app = typer.Typer(
    name="runnel",
    cls=Nouns,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"runnel {__version__}")
        raise typer.Exit


@app.callback()
def runnel(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A streaming data platform: a durable log that every Kafka client can use."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not know all that a record holds
    try:
        try:
            app(prog_name="runnel")
        finally:
            sys.stdout.flush()  # an error is told after what was printed
    except BrokenPipeError:
        # Who read our output has had enough. Python's own last flush must not complain of it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except RunnelError as error:
        _print_error(error.what, error.hint)
        sys.exit(FAILED)
    except OSError as error:
        _print_error(str(error), "")
        sys.exit(FAILED)
    except UnicodeEncodeError:
        if all(map(_is_text, sys.argv)):
            raise
        _print_error("an argument is no text", "give names and values in UTF-8")
        sys.exit(FAILED)


def _open_closed_streams() -> None:
    """One that is closed is as one of /dev/null. Otherwise the file or the socket that is opened next would have its
    number, and get what is written to it; in a process that we start, too.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115  # until the process ends
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _is_text(argument: str) -> bool:
    """Python makes half a character of each byte that is none."""
    return not any("\udc80" <= each <= "\udcff" for each in argument)


def _print_error(what: str, hint: str) -> None:
    print(f"error: {printable(what)}", file=sys.stderr)
    if hint:
        print(f"hint: {printable(hint)}", file=sys.stderr)
