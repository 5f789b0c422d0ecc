"""`runnel capture`: the changes of a database into topics, how far that is, and how to take it back."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Annotated, Any

import typer

from runnel.capture.capture import Capture
from runnel.capture.chosen import Mode, Reading
from runnel.capture.envelope import Envelope
from runnel.capture.errors import NothingCaptured
from runnel.capture.forms import Binary
from runnel.capture.incremental import CHUNK_ROWS
from runnel.capture.opening import check_name, open_source
from runnel.capture.publisher import Publisher, admin_of
from runnel.capture.selection import Hiding, Masked, Selection
from runnel.capture.signals import signals_topic
from runnel.capture.state import State, read_state, topic_of
from runnel.cli import capture_signals
from runnel.cli.capture_signals import table_expression as _table
from runnel.cli.durations import checked_duration, parse_duration
from runnel.cli.ending import stopped_by_signals
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from runnel.cli.tables import print_json, print_table
from runnel.client import Admin, UnknownTopic
from runnel.client.cluster import Cluster
from runnel.client.transaction import Transaction

PROGRESS_SECONDS = 1.0

capture = noun("Capture the changes of a database into topics.")

Name = capture_signals.Name
Url = Annotated[
    str, typer.Argument(metavar="URL", help="The database: sqlite:PATH, or the path of a file of SQLite's.")
]


def _keys(given: list[str]) -> list[str]:
    for each in given:
        table, separator, columns = each.rpartition(":")
        if not (table and separator and columns):
            raise typer.BadParameter(f"'{each}' is no key: expected TABLE:COLUMN,COLUMN.")
    return given


def _mode(given: str) -> str:
    known = [mode.value for mode in Mode]
    if given not in known:
        raise typer.BadParameter(f"'{given}' is no way to read the tables: expected {', '.join(known)}.")
    return given


def _binary(given: str) -> str:
    known = [mode.value for mode in Binary]
    if given not in known:
        raise typer.BadParameter(f"'{given}' is no way to write bytes: expected {', '.join(known)}.")
    return given


@capture.command()
def run(  # noqa: PLR0913  # what people may type
    name: Name,
    url: Url,
    tables: Annotated[
        list[str], typer.Option("--tables", metavar="TABLE", help="A table, or an expression for several; repeatable.")
    ] = [],  # noqa: B006  # typer's way to say: all
    without_tables: Annotated[
        list[str], typer.Option("--without-tables", metavar="TABLE", help="Leave these out; repeatable.")
    ] = [],  # noqa: B006
    without_columns: Annotated[
        list[str],
        typer.Option("--without-columns", metavar="COLUMN", help="Leave out, as TABLE.COLUMN; repeatable."),
    ] = [],  # noqa: B006
    mask: Annotated[
        list[str], typer.Option("--mask", metavar="COLUMN", help="Show *** instead, as TABLE.COLUMN; repeatable.")
    ] = [],  # noqa: B006
    key: Annotated[
        list[str],
        typer.Option(
            "--key", metavar="TABLE:COLUMNS", callback=_keys, help="The columns of a record's key; repeatable."
        ),
    ] = [],  # noqa: B006
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="What topics begin with; the name if not given.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Of topics that are not there yet.")
    ] = None,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Write Kafka Connect's schemas beside the values.")
    ] = False,
    transactions: Annotated[bool, typer.Option("--transactions", help="Write the transaction topic.")] = False,
    heartbeat: Annotated[
        str | None,
        typer.Option(
            "--heartbeat", metavar="DURATION", callback=checked_duration, help="Write a heartbeat so often, as 10s."
        ),
    ] = None,
    binary: Annotated[
        str,
        typer.Option("--binary", metavar="MODE", callback=_binary, help="bytes, base64, base64-url-safe or hex."),
    ] = Binary.BYTES.value,
    snapshot: Annotated[
        str,
        typer.Option("--snapshot", metavar="MODE", callback=_mode, help="initial, incremental or none."),
    ] = Mode.INITIAL.value,
    chunk: Annotated[
        int, typer.Option("--chunk", metavar="ROWS", min=1, help="So many rows at once, beside the changes.")
    ] = CHUNK_ROWS,
    snapshot_rate: Annotated[
        float | None,
        typer.Option("--snapshot-rate", metavar="ROWS", min=0.001, help="At most so many of them a second."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write the tables as they are, and then every change, until SIGTERM or Ctrl-C."""
    check_name("name", name)
    check_name("prefix", prefix or name)
    hidden: dict[str, Hiding] = {_column(each): Masked() for each in mask}
    selection = Selection(
        tables=[_table(each) for each in tables],
        without_tables=[_table(each) for each in without_tables],
        without_columns=[_column(each) for each in without_columns],
        hidden=hidden,
        keys={_table(table): columns.split(",") for table, _, columns in (each.rpartition(":") for each in key)},
    )
    source = open_source(url, name, selection, binary=Binary(binary))
    try:
        with Cluster(bootstrap) as cluster:
            cluster.reach()
            publisher = Publisher(cluster, name, lambda: admin_of(bootstrap), partitions=partitions)
            seconds = parse_duration(heartbeat) / 1000 if heartbeat is not None else 0.0
            envelope = Envelope(prefix or name, source, selection, schemas=schemas)
            work = Capture(
                name,
                source,
                publisher,
                envelope,
                transactions=transactions,
                heartbeat=seconds,
                reading=Reading(Mode(snapshot), chunk, snapshot_rate),
            )
            _run(work)
    finally:
        source.close()


@capture.command()
def status(
    name: Name,
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The database, to see what is not captured yet.")
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show how far a capture is: its position, its tables, and what it has not written yet."""
    check_name("name", name)
    with Cluster(bootstrap) as cluster:
        cluster.reach()
        state = read_state(cluster, name)
    if state.position is None:
        raise NothingCaptured(name)
    behind, unit = None, ""
    if url is not None:
        source = open_source(url, name, Selection())
        try:
            behind = source.behind(state.position)
            unit = source.unit
        finally:
            source.close()
    told = _told(name, state, behind)
    if as_json:
        print_json(told)
        return
    print(f"{name}: {state.connector}, {_doing(state)}")
    if behind is not None:
        print(f"behind: {behind:,} {unit} of the database's log")
    columns = ["table", "state", "rows", "percent"]
    print_table(columns, [[_shown(each[column]) for column in columns] for each in told["tables"]])


@capture.command()
def remove(name: Name, url: Url, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Take back what a capture made in its database, and forget how far it was. Its topics stay."""
    source = open_source(url, name, Selection())
    try:
        with Cluster(bootstrap) as cluster, Admin(bootstrap) as admin:
            cluster.reach()
            Transaction(cluster, topic_of(name)).init()  # a copy that still runs is fenced, and writes nothing more
            source.remove()
            for topic in (topic_of(name), signals_topic(name)):
                with suppress(UnknownTopic):
                    admin.delete(topic)
    finally:
        source.close()
    print(f'removed capture "{name}"')


for verb in capture_signals.VERBS:
    capture.command()(verb)


# --- inside


def _column(given: str) -> str:
    return given if given.count(".") > 1 else rf".*\.{given}"


def _run(work: Capture) -> None:
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(work, done), daemon=True)
    with stopped_by_signals(work):
        teller.start()
        try:
            work.run()
        finally:
            done.set()
            teller.join()


def _tell(work: Capture, done: threading.Event) -> None:
    """How far the snapshot is, on stderr, now and then; then that changes are read, and what is read beside them."""
    shown = -1
    while not done.is_set() and not work.is_streaming.wait(PROGRESS_SECONDS):
        shown = _tell_rows(work, shown)
    if work.is_streaming.is_set():
        shown = work.progress.read
        print(f"reading changes: {shown:,} rows are read", file=sys.stderr, flush=True)
    while not done.wait(PROGRESS_SECONDS):
        shown = _tell_rows(work, shown)


def _tell_rows(work: Capture, shown: int) -> int:
    """How many were read, unless that was shown."""
    progress = work.progress
    if progress.read != shown:
        about = f" of about {progress.estimate:,} ({progress.percent:.0f} %)" if progress.estimate else ""
        print(f"reading tables: {progress.read:,} rows{about}", file=sys.stderr, flush=True)
    return progress.read


def _told(name: str, state: State, behind: int | None) -> dict[str, Any]:
    assert state.position is not None
    tables = [
        {"table": table, "state": each.state, "rows": each.rows, "percent": each.percent, "since": each.since}
        for table, each in sorted(state.tables.items())
    ]
    position = {"at": state.position.at, "index": state.position.index}
    about = {"name": name, "connector": state.connector, "paused": state.is_paused}
    return {**about, "position": position, "behind": behind, "tables": tables}


def _shown(value: Any) -> Any:
    return "" if value is None else value


def _doing(state: State) -> str:
    if state.is_complete:
        return "reads changes"
    if state.needs_snapshot:
        return "reads tables"
    return "reads changes; reading tables is paused" if state.is_paused else "reads changes, and tables beside them"
