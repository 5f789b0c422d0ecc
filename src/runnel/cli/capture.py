"""`runnel capture`: the changes of a database into topics, how far that is, and how to take it back."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from runnel.app.progress import moment
from runnel.capture.at_work import at_work, opened
from runnel.capture.capture import Capture
from runnel.capture.choice import as_data, shown
from runnel.capture.errors import NothingCaptured, OtherCapture
from runnel.capture.forms import Binary
from runnel.capture.incremental import CHUNK_ROWS
from runnel.capture.lag import PACE_SECONDS, SECOND, Pace
from runnel.capture.names import check_name
from runnel.capture.opening import open_source
from runnel.capture.options import INITIAL, Options
from runnel.capture.outbox import Outbox
from runnel.capture.publisher import admin_of
from runnel.capture.selection import Selection, column_expression, table_expression
from runnel.capture.signals import signals_topic
from runnel.capture.snapshots import Progress
from runnel.capture.source import Source, recognize
from runnel.capture.state import State, read_state, read_with_pace, topic_of
from runnel.capture.watching import RETAINED_WARNING, Numbers, Watching
from runnel.cli import capture_options as given
from runnel.cli import capture_signals, choices
from runnel.cli.durations import as_duration, parse_duration
from runnel.cli.ending import end_at_once, stopped_by_signals
from runnel.cli.light_arrow import make_arrow_light
from runnel.cli.nouns import noun
from runnel.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Metrics
from runnel.cli.tables import print_json, print_table
from runnel.client import Admin, UnknownTopic
from runnel.client.cluster import Cluster
from runnel.client.transaction import Transaction
from runnel.counted import counted

PROGRESS_SECONDS = 1.0
CHANGES_SECONDS = 10.0

capture = noun("Capture the changes of a database into topics.")


@capture.command()
def run(  # noqa: PLR0913  # what people may type
    name: given.Name,
    url: given.Url,
    tables: given.Tables = [],  # noqa: B006  # typer's way to say: all
    without_tables: given.WithoutTables = [],  # noqa: B006
    columns: given.Columns = [],  # noqa: B006
    without_columns: given.WithoutColumns = [],  # noqa: B006
    mask: given.Mask = [],  # noqa: B006
    hashes: given.Hashes = [],  # noqa: B006
    salt_env: given.SaltEnv = None,
    where: given.Where = [],  # noqa: B006
    key: given.Key = [],  # noqa: B006
    prefix: given.Prefix = None,
    partitions: given.Partitions = None,
    schemas: given.Schemas = False,
    schema_changes: given.SchemaChanges = False,
    outbox: given.OutboxTable = None,
    outbox_topic: given.OutboxTopic = Outbox.topic,
    transactions: given.Transactions = False,
    heartbeat: given.Heartbeat = None,
    binary: given.BinaryMode = Binary.BYTES.value,
    snapshot: given.Snapshot = INITIAL,
    chunk: given.Chunk = CHUNK_ROWS,
    snapshot_rate: given.SnapshotRate = None,
    decimals: given.DecimalsMode = None,
    times: given.TimesMode = None,
    slot: given.Slot = None,
    publication: given.Publication = None,
    in_progress: given.InProgress = None,
    metrics: Metrics = None,
    retained_warning: given.RetainedWarning = RETAINED_WARNING,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write the tables as they are, and then every change, until SIGTERM or Ctrl-C."""
    end_at_once()
    make_arrow_light()
    selection = Selection(
        tables=[table_expression(each) for each in tables],
        without_tables=[table_expression(each) for each in without_tables],
        columns=[column_expression(each) for each in columns],
        without_columns=[column_expression(each) for each in without_columns],
        hidden=choices.hidden(mask, hashes, salt_env),
        keys=choices.keys(key),
        rows=choices.conditions(where),
    )
    options = Options(
        name,
        url,
        selection,
        prefix=prefix or "",
        partitions=partitions,
        schemas=schemas,
        schema_changes=schema_changes,
        outbox=Outbox(table_expression(outbox), topic=outbox_topic) if outbox is not None else None,
        transactions=transactions,
        heartbeat=parse_duration(heartbeat) / 1000 if heartbeat is not None else 0.0,
        binary=Binary(binary),
        snapshot=snapshot,
        chunk=chunk,
        snapshot_rate=snapshot_rate,
        own=choices.own(decimals=decimals, times=times, slot=slot, publication=publication, in_progress=in_progress),
        retained_warning=retained_warning,
    )
    with closing(opened(options)) as source, Cluster(bootstrap) as cluster:
        cluster.reach()
        work, watching = at_work(options, source, cluster, lambda: admin_of(bootstrap))
        with _served(watching, metrics):
            _run(work, watching)


@capture.command()
def status(
    name: given.Name,
    url: given.UrlToLookAt = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show how far a capture is: its position, its tables, and what it has not written yet."""
    check_name("name", name)
    with Cluster(bootstrap) as cluster:
        cluster.reach()
        state, pace = read_with_pace(cluster, name)
    if state.position is None:
        raise NothingCaptured(name)
    behind, unit = None, ""
    if url is not None:
        source = open_source(url, name, Selection())
        try:
            _refuse_other(name, source, state)
            behind = source.behind(state.position)
            unit = source.unit
        finally:
            source.close()
    progress, seconds = _progress(state, pace, time.time_ns() // 1000)
    told = _told(name, state, behind) | {"seconds_left": seconds}
    if as_json:
        print_json(told)
        return
    print(f"{name}: {state.connector}, {_doing(state)}")
    if not state.is_complete:
        print(_rows_line(progress, seconds))
    if state.committed:
        print(f"last change: {moment(state.committed // 1000)}, in the topics {state.late / SECOND:.1f} s later")
    if state.asked:
        print(f"asked for while it ran: {shown(state.asked)}")
    if behind is not None:
        print(f"behind: {behind:,} {unit} of the database's log")
    columns = ["table", "state", "rows", "percent"]
    print_table(columns, [[_shown(each[column]) for column in columns] for each in told["tables"]])


@capture.command()
def remove(
    name: given.Name,
    url: given.Url,
    force: given.Force = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Take back what a capture made in its database, and forget how far it was. Its topics stay."""
    source = open_source(url, name, Selection())
    try:
        with Cluster(bootstrap) as cluster, Admin(bootstrap) as admin:
            cluster.reach()
            _refuse_other(name, source, read_state(cluster, name), is_any=force)
            Transaction(cluster, topic_of(name)).init()  # a copy that still runs is fenced, and writes nothing more
            was_there = source.remove()
            for topic in (topic_of(name), signals_topic(name)):
                with suppress(UnknownTopic):
                    admin.delete(topic)
                    was_there = True
            if not was_there:
                raise NothingCaptured(name)
    finally:
        source.close()
    print(f'removed capture "{name}"')


for verb in capture_signals.VERBS:
    capture.command()(verb)


# --- inside


def _refuse_other(name: str, source: Source, state: State, *, is_any: bool = False) -> None:
    """The database of another kind is not the one that this capture reads, whatever it is. `is_any` takes any of the
    same kind.
    """
    if state.connector not in ("", source.connector):
        raise OtherCapture(name, source.connector, state.connector, hint="give the address of the database it reads")
    if state.position is not None and not is_any:
        recognize(source, state.position)


@contextmanager
def _served(watching: Watching, metrics: str | None) -> Iterator[None]:
    if metrics is None:
        yield
        return
    from runnel.app.capture_metrics import exposition  # noqa: PLC0415  # who serves none need not wait for it

    serving = exposition(metrics, lambda: watching.numbers)
    print(f"metrics on http://{serving.endpoint}/metrics", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        serving.close()


def _run(work: Capture, watching: Watching) -> None:
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(work, watching, done), daemon=True)
    with stopped_by_signals(work):
        teller.start()
        watching.start()
        try:
            work.run()
        finally:
            done.set()
            watching.stop()
            teller.join()


def _tell(work: Capture, watching: Watching, done: threading.Event) -> None:
    """How far the snapshot is, on stderr, now and then; then that changes are read, how many were, and what is read of
    tables beside them.
    """
    shown, pace = -1, Pace()
    while not done.is_set():
        if work.is_streaming.wait(PROGRESS_SECONDS):
            shown = work.progress.read
            print(f"reading changes: {counted(shown, 'row is', 'rows are')} read", file=sys.stderr, flush=True)
            break
        shown = _tell_rows(work, shown, pace)
    written, told = 0, time.monotonic()
    while not done.wait(PROGRESS_SECONDS):
        shown = _tell_rows(work, shown, pace)
        numbers = watching.numbers
        is_due = time.monotonic() - told >= CHANGES_SECONDS
        if is_due and sum(numbers.events.values()) != written:
            written, told = sum(numbers.events.values()), time.monotonic()
            print(_changes_line(numbers), file=sys.stderr, flush=True)


def _tell_rows(work: Capture, shown: int, pace: Pace) -> int:
    """How many were read, unless that was shown."""
    progress = work.progress
    pace.see(progress.read)
    if progress.read != shown:
        seconds = pace.seconds_left(progress.estimate - progress.read) if progress.estimate else None
        print(_rows_line(progress, seconds), file=sys.stderr, flush=True)
    return progress.read


def _rows_line(progress: Progress, seconds: float | None) -> str:
    about = f" of about {progress.estimate:,} ({progress.percent:.0f} %)" if progress.estimate else ""
    left = "" if seconds is None else f", {as_duration(round(seconds) * 1000)} left"
    return f"reading tables: {counted(progress.read, 'row')}{about}{left}"


def _progress(state: State, pace: Pace, now: int) -> tuple[Progress, float | None]:
    """Of what was written, and how many seconds are left; nobody knows of a capture that writes nothing any more."""
    progress = Progress()
    progress.show(state)
    is_alive = not state.is_complete and now - state.written <= PACE_SECONDS * SECOND
    return progress, pace.seconds_left(progress.estimate - progress.read) if is_alive and progress.estimate else None


def _changes_line(numbers: Numbers) -> str:
    rejected = sum(numbers.rejected.values())
    parts = [
        f"{counted(sum(numbers.events.values()), 'event is', 'events are')} written",
        f"{numbers.lag_seconds:.1f} s behind",
        *([f"{numbers.behind:,} {numbers.unit} of the log behind"] if numbers.behind is not None else []),
        *([f"{rejected:,} rejected"] if rejected else []),
    ]
    return f"reading changes: {', '.join(parts)}"


def _told(name: str, state: State, behind: int | None) -> dict[str, Any]:
    assert state.position is not None
    tables = [
        {"table": table, "state": each.state, "rows": each.rows, "percent": each.percent, "since": each.since}
        for table, each in sorted(state.tables.items())
    ]
    position = {"at": state.position.at, "index": state.position.index}
    about = {"name": name, "connector": state.connector, "paused": state.is_paused}
    change = {"committed": moment(state.committed // 1000), "seconds_later": state.late / SECOND}
    last = change if state.committed else None
    asked = as_data(state.asked)
    return {**about, "asked": asked, "position": position, "behind": behind, "last_change": last, "tables": tables}


def _shown(value: Any) -> Any:
    return "" if value is None else value


def _doing(state: State) -> str:
    if state.is_complete:
        return "reads changes"
    if state.needs_snapshot:
        return "reads tables"
    return "reads changes; reading tables is paused" if state.is_paused else "reads changes, and tables beside them"
