"""Lives of a capture: in this process, or in one of its own that may be killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

from runnel.capture import capture as captures
from runnel.capture.capture import Capture
from runnel.capture.choice import Choice
from runnel.capture.chosen import Mode, Reading
from runnel.capture.envelope import Envelope
from runnel.capture.incremental import CHUNK_ROWS
from runnel.capture.publisher import Publisher, admin_of
from runnel.capture.selection import Selection
from runnel.capture.source import Source
from runnel.capture.sqlite import SqliteSource, changes, snapshot, source
from runnel.client.cluster import Cluster
from runnel.durable import VARIABLE, watched

LIMIT_SECONDS = 120.0


class Way(NamedTuple):
    """How tables are read: which are left out, and how many signals there are to be heeded."""

    mode: Mode = Mode.INITIAL
    without: tuple[str, ...] = ()
    signals: int = 0


INITIAL = Way()
BY_CHUNKS = Way(Mode.INCREMENTAL, (r"main\.loose",))

processes = get_context("forkserver")
processes.set_forkserver_preload(["runnel.capture.sqlite", __name__])


def capture_of(
    name: str, source: Source, bootstrap: str, selection: Selection | None = None, **options: Any
) -> Capture:
    chosen = selection or Selection()
    partitions = options.pop("partitions", 1)
    schemas = options.pop("schemas", False)
    reading = Reading(
        options.pop("snapshot", Mode.INITIAL), options.pop("chunk", CHUNK_ROWS), options.pop("rate", None)
    )
    told = {each: options.pop(each) for each in ("outbox", "schema_changes", "choice") if each in options}
    cluster = Cluster(bootstrap)
    publisher = Publisher(cluster, name, lambda: admin_of(bootstrap), partitions=partitions)
    envelope = Envelope(name, source, chosen, schemas=schemas, **told)
    capture = Capture(name, source, publisher, envelope, reading=reading, **options)
    capture.run = _closing(capture.run, cluster)  # type: ignore[method-assign]
    return capture


def _closing(run: Callable[[], None], cluster: Cluster) -> Callable[[], None]:
    def closed() -> None:
        with cluster:
            run()

    return closed


@contextmanager
def running(capture: Capture) -> Iterator[Capture]:
    """At work in a thread; what it raises is raised at the end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            capture.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield capture
    finally:
        capture.stop()
        thread.join()
        if errors:
            raise errors[0]


def wait_until(condition: Any, what: str = "it") -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def caught_up(capture: Capture, source: Source) -> None:
    """Wait until all that is in the database's log is in the topics."""
    wait_until(lambda: capture.is_streaming.is_set() and not capture.state.position.index)  # type: ignore[union-attr]
    wait_until(lambda: source.behind(capture.state.position) == 0 and not capture.state.position.index)  # type: ignore[arg-type,union-attr]


def _prepare(path: str, name: str, bootstrap: str, small: int, way: Way) -> tuple[Capture, SqliteSource, SqliteSource]:
    """With pieces of few rows, so that there are many steps; a capture, its source, and one to look with."""
    changes.AT_ONCE = snapshot.ROWS_AT_ONCE = small
    source.TRIM_SECONDS = 0.0
    captures.WAIT_SECONDS = 0.02
    captures.SIGNAL_MICROS = 20_000
    chosen = Selection(without_tables=way.without)
    choice = Choice(chosen)
    database, looking = (SqliteSource(path, name, choice.has) for _ in range(2))
    read = {"snapshot": way.mode, "chunk": max(1, small // 2)}
    capture = capture_of(name, database, bootstrap, chosen, choice=choice, transactions=True, **read)
    return capture, database, looking


def is_still(capture: Capture, looking: SqliteSource, way: Way) -> bool:
    """Whether nothing is left to be told; where there are signals, also of tables that they ask for."""
    state = capture.state
    if way.signals and not {str(table) for table in looking.tables()} <= state.tables.keys():
        return False
    is_read = capture.is_streaming.is_set() and state.is_complete and state.signals >= way.signals
    return bool(is_read and not state.position.index and looking.behind(state.position) == 0)  # type: ignore[union-attr,arg-type]


def live(path: str, name: str, bootstrap: str, die_at: str, small: int, until_still: bool, way: Way) -> None:
    os.environ[VARIABLE] = die_at
    capture, _, looking = _prepare(path, name, bootstrap, small, way)
    if until_still:
        with running(capture):
            wait_until(lambda: is_still(capture, looking, way))
    else:
        capture.run()


def started(
    path: str,
    name: str,
    bootstrap: str,
    die_at: str = "",
    small: int = 5,
    until_still: bool = False,
    way: Way = INITIAL,
) -> Any:
    process = processes.Process(target=live, args=(path, name, bootstrap, die_at, small, until_still, way))
    process.start()
    return process


def lived(path: str, name: str, bootstrap: str, die_at: str = "", small: int = 5, way: Way = INITIAL) -> bool:
    """Live in a process of its own, until nothing is left to be told, or until it is killed there; whether it was."""
    process = started(path, name, bootstrap, die_at, small, until_still=True, way=way)
    process.join()
    code = process.exitcode
    process.close()
    assert code in (0, -signal.SIGKILL), code
    return code != 0


class Died(BaseException):
    """What stands for a kill in a process that must go on."""


def lived_here(path: str, name: str, bootstrap: str, die_at: str = "", small: int = 5, way: Way = INITIAL) -> bool:
    """As `lived`, in this process: at its place the capture is cut off by an error that nobody catches."""
    kept = changes.AT_ONCE, snapshot.ROWS_AT_ONCE, source.TRIM_SECONDS, captures.WAIT_SECONDS, captures.SIGNAL_MICROS
    capture, database, looking = _prepare(path, name, bootstrap, small, way)
    reached: Counter[str] = Counter()

    def die(place: str) -> None:
        reached[place] += 1
        if f"{place}:{reached[place]}" == die_at:
            raise Died(place)

    errors: list[BaseException] = []

    def run() -> None:
        try:
            capture.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    try:
        with watched(die):
            thread.start()
            wait_until(lambda: errors or is_still(capture, looking, way), "an end")
            capture.stop()
            thread.join()
    finally:
        changes.AT_ONCE, snapshot.ROWS_AT_ONCE, source.TRIM_SECONDS, captures.WAIT_SECONDS = kept[:4]
        captures.SIGNAL_MICROS = kept[4]
        database.close()
        looking.close()
    for error in errors:
        if not isinstance(error, Died):
            raise error
    return bool(errors)
