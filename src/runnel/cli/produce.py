"""`runnel produce`: lines as records of a topic, of any Kafka."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from runnel.cli.lines import Form, from_json, plain, read_lines
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from runnel.client import Admin, Producer, Refused, Token, UnknownPartition
from runnel.client.texts import is_name
from runnel.errors import RunnelError

produce = noun()

Tell = Callable[[int], object]

LARGEST_BY_DEFAULT, MOST_LARGEST = 1_000_000, 1_000_000_000  # of librdkafka's message.max.bytes


class Tally:
    """What was written: how many records, and the last offset of each partition."""

    def __init__(self) -> None:
        self.written = 0
        self.last: dict[int, int] = {}
        self.failed = False

    def __call__(self, outcome: Token | RunnelError) -> None:
        if isinstance(outcome, RunnelError):
            self.failed = True
            return
        self.written += 1
        self.last[outcome.partition] = max(outcome.offset, self.last.get(outcome.partition, -1))

    def __str__(self) -> str:
        return f"{self.written:,} {'record was' if self.written == 1 else 'records were'} written"


@produce.command("produce")
def write_lines(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")],
    file: Annotated[
        Path | None, typer.Option("--file", exists=True, dir_okay=False, help="Read this file instead of stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The key of all records.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", metavar="TEXT", help="What stands between a line's key and value.")
    ] = None,
    header: Annotated[
        list[str], typer.Option("--header", metavar="NAME=VALUE", help="A header of all records; can be repeated.")
    ] = [],  # noqa: B006  # typer's way to say: none
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Write to this partition.")] = None,
    json_lines: Annotated[
        bool,
        typer.Option("--json", help="Lines are JSON objects as `runnel consume --json` prints them; so is the answer."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write each line of stdin or of a file as a record, without its line feed."""
    form = _form(key, key_separator, header, json_lines)
    admin = Admin(bootstrap)
    _require(admin, topic, partition)
    tally = Tally()
    producer = Producer(bootstrap, settings={"message.max.bytes": _largest(admin, topic)})
    try:
        with _input(file) as (stream, tell):
            for line in read_lines(stream, form, partition):
                producer.send(topic, line.value, on_delivery=tally, **line.about)
                tell(line.size)
                if tally.failed:
                    break
        producer.close()
    except (RunnelError, OSError) as error:
        raise _with_tally(error, producer, tally) from None
    except KeyboardInterrupt:
        print(f"stopped{_lost(producer)}: {tally}", file=sys.stderr)
        raise
    _print_tally(topic, tally, json_lines)


# --- what is asked for


def _form(key: str | None, separator: str | None, header: list[str], json_lines: bool) -> Form:
    headers = pairs(header, "--header")
    if not all(is_name(name) for name, _ in headers):
        raise typer.BadParameter("the name of a header is text.", param_hint="'--header'")
    if json_lines and (key is not None or separator is not None or headers):
        raise typer.BadParameter("lines in JSON have keys and headers of their own.", param_hint="'--json'")
    if key is not None and separator is not None:
        raise typer.BadParameter("keys are given by --key or by --key-separator, not by both.")
    if separator == "":
        raise typer.BadParameter("it cannot be empty.", param_hint="'--key-separator'")
    return from_json if json_lines else plain(key, separator, headers)


def _require(admin: Admin, topic: str, partition: int | None) -> None:
    """A topic must be there: one that is made by a typing error would swallow the records."""
    count = len(admin.topic(topic).partitions)
    if partition is not None and partition >= count:
        raise UnknownPartition(topic, partition, count)


def _largest(admin: Admin, topic: str) -> int:
    """The bytes that a record may have: librdkafka's default is less than what topics take by theirs."""
    try:
        configs = {config.name: config.value for config in admin.configs([topic])[topic]}
    except Refused:  # who may write need not be allowed to see them
        return LARGEST_BY_DEFAULT
    return min(max(int(configs.get("max.message.bytes") or 0), LARGEST_BY_DEFAULT), MOST_LARGEST)


# --- input


@contextmanager
def _input(file: Path | None) -> Iterator[tuple[BinaryIO, Tell]]:
    if file is None:
        with _progress(None, wanted=not sys.stdin.isatty()) as tell:
            yield sys.stdin.buffer, tell
        return
    with file.open("rb") as stream, _progress(file.stat().st_size, wanted=True) as tell:
        yield stream, tell


@contextmanager
def _progress(total: int | None, *, wanted: bool) -> Iterator[Tell]:
    """A bar on a terminal, nothing elsewhere."""
    if not wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    # Imported here because a pipe has no use for it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (TextColumn("writing"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda size: bar.advance(task, size)


# --- the end


def _with_tally(error: RunnelError | OSError, producer: Producer, tally: Tally) -> RunnelError:
    """Nothing is lost in silence: what is handed in is written as far as can be, and counted."""
    what, hint = (error.what, error.hint) if isinstance(error, RunnelError) else (str(error), "")
    return RunnelError(f"{what}{_lost(producer)}; {tally}", hint=hint)


def _lost(producer: Producer) -> str:
    try:
        producer.close()
    except RunnelError as error:
        return f"; {error.what}"
    return ""


def _print_tally(topic: str, tally: Tally, as_json: bool) -> None:
    if as_json:
        partitions: list[dict[str, Any]] = [
            {"partition": partition, "last_offset": offset} for partition, offset in sorted(tally.last.items())
        ]
        print(json.dumps({"topic": topic, "written": tally.written, "partitions": partitions}))
    else:
        print(f'{tally} to topic "{topic}"')
