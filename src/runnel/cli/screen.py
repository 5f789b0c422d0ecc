"""One live screen for an app that runs: its captures, a line for each query with the time of its steps, and the alerts.

It is drawn on the terminal that is stderr. Whatever is written to stderr meanwhile, the log and what Java and other
processes of ours say, goes above it. A narrow terminal shows fewer columns, a low one fewer lines.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich.console import Console, ConsoleDimensions, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from runnel.app.progress import AppProgress, QueryProgress, State, size
from runnel.cli.durations import as_duration
from runnel.cli.values import printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDERR = 2
REFRESHES = 2  # a second
LOOK_EVERY = 0.2  # seconds, whether to end
PIECE = 65_536
GAP = "  "
UNKNOWN = "-"


class Column(NamedTuple):
    """What is dropped first where there is no room has the highest `rank`."""

    title: str
    rank: int
    shown: Callable[[QueryProgress], str]


def _columns(now: int) -> tuple[Column, ...]:
    return (
        Column("state", 4, lambda query: str(query.state)),
        Column("rows/s", 2, lambda query: f"{query.rows_per_second:,.0f}"),
        Column("lag", 1, lambda query: _number(query.behind)),
        Column("watermark", 6, lambda query: _watermark(query.watermark, now)),
        Column("open", 8, lambda query: _number(query.open_windows)),
        Column("late", 3, lambda query: _number(query.late)),
        Column("rejected", 3, lambda query: _number(query.rejected)),
        Column("batch", 5, lambda query: UNKNOWN if query.seconds is None else _seconds(query.seconds)),
        Column("state size", 9, lambda query: UNKNOWN if query.state_bytes is None else size(query.state_bytes)),
        Column("last", 7, lambda query: UNKNOWN if query.age is None else as_duration(int(query.age) * 1000)),
    )


class Picture:
    """The progress as lines that fit."""

    def __init__(self, ask: Callable[[], AppProgress | None]) -> None:
        self._ask = ask

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        progress = self._ask()
        if progress is not None:
            yield Group(*lines_of(progress, options.max_width, console.height - 1))


def lines_of(progress: AppProgress, width: int, height: int) -> list[Text]:
    """No line is wider, and there are no more; one at least."""
    table = _table(progress, width)
    captures = [Text(printable(str(each))) for each in progress.captures]
    head = [_head(progress), *captures, Text(table[0], "bold")]
    alerts = [Text(printable(each), "red") for each in progress.alerts]
    rows = [Text(line) for line in table[1:]]
    steps = [Text(f"{GAP}{_steps(query)}", "dim") for query in progress.queries]
    both = [line for pair in zip(rows, steps, strict=True) for line in pair if line.plain.strip()]
    whole = [*head, *(both if len(head) + len(both) + len(alerts) <= height else rows), *alerts]
    shown = whole[: max(1, height)]
    for line in shown:
        line.no_wrap = True
        line.truncate(max(1, width), overflow="ellipsis")
    return shown


def _head(progress: AppProgress) -> Text:
    disk = "" if progress.disk_free is None else f"{GAP}{size(progress.disk_free)} free on disk"
    is_starting = bool(progress.queries) and all(query.state is State.BEGINS for query in progress.queries)
    doing = "has been starting for" if is_starting else "runs for"
    return Text(f"{progress.app}{GAP}{doing} {as_duration(int(progress.running) * 1000)}{disk}", "bold green")


def _table(progress: AppProgress, width: int) -> list[str]:
    columns = list(_columns(progress.time))
    names = ["query", *(query.name for query in progress.queries)]
    while True:
        cells = [[column.title, *(column.shown(query) for query in progress.queries)] for column in columns]
        widths = [max(map(len, each)) for each in cells]
        left = width - sum(widths) - len(GAP) * len(widths)
        if left >= max(map(len, names)) or not columns:
            break
        columns.remove(max(columns, key=lambda column: column.rank))
    lines = []
    for number, name in enumerate(names):
        parts = [cell[number].rjust(wide) for cell, wide in zip(cells, widths, strict=True)]
        lines.append(GAP.join([name.ljust(max(map(len, names))), *parts]))
    return lines


def _steps(query: QueryProgress) -> str:
    done = GAP.join(f"{name} {_seconds(seconds)}" for name, seconds in query.steps.items())
    seconds = query.under_way or 0.0
    return f"{done}{GAP}under way {_seconds(seconds)}" if seconds >= 1 else done


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _watermark(watermark: int | None, now: int) -> str:
    """How far it is behind the clock."""
    if watermark is None:
        return UNKNOWN
    behind = (now - watermark) // 1000 * 1000
    return f"{as_duration(behind)} ago" if behind >= 0 else f"in {as_duration(-behind)}"


class Terminal(Console):
    """As large as the terminal that it writes to: the descriptors that Rich looks at may be no terminals."""

    @property
    def size(self) -> ConsoleDimensions:
        try:
            columns, lines = os.get_terminal_size(self.file.fileno())
        except OSError:  # it is gone
            return super().size
        return ConsoleDimensions(columns, lines) if columns and lines else super().size

    @size.setter
    def size(self, new: tuple[int, int]) -> None:
        raise AttributeError(f"a terminal is as large as it is, not {new}")


class Screen:
    """`is_on` if there is one; what is shown is asked of `ask`."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.ask: Callable[[], AppProgress | None] = lambda: None


@contextmanager
def screen(*, wanted: bool) -> Iterator[Screen]:
    """A live screen inside of the block, if it is wanted and stderr is a terminal that can show one."""
    console = Console(stderr=True)
    # Rich takes a pipe for a terminal where FORCE_COLOR is set, as it is for many a job of a CI.
    if not wanted or not os.isatty(STDERR) or not console.is_terminal or console.is_dumb_terminal:
        yield Screen(is_on=False)
        return
    with _taken(STDERR) as (terminal, said):
        drawn = Screen(is_on=True)
        console = Terminal(file=terminal, force_terminal=True, highlight=False, emoji=False, markup=False)
        live = Live(
            Picture(lambda: drawn.ask()),
            console=console,
            refresh_per_second=REFRESHES,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        with live, _printed(said, console):
            console.show_cursor(True)  # whoever is killed cannot bring it back
            yield drawn


class Kept(io.FileIO):
    """A terminal that may go: what is written then is dropped, and the program ends as it would have."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


@contextmanager
def _taken(descriptor: int) -> Iterator[tuple[TextIO, int]]:
    """The terminal behind the descriptor, and a pipe with what is written to the descriptor meanwhile."""
    sys.stderr.flush()
    kept = io.BufferedWriter(Kept(os.dup(descriptor), "w"))
    terminal = io.TextIOWrapper(kept, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    reading, writing = os.pipe()
    os.dup2(writing, descriptor)
    os.close(writing)
    os.set_blocking(reading, False)
    try:
        yield terminal, reading
    finally:
        os.dup2(terminal.fileno(), descriptor)
        terminal.close()
        os.close(reading)


@contextmanager
def _printed(said: int, console: Console) -> Iterator[None]:
    """Lines from the pipe, above the screen, by a thread. When the terminal is gone, they are dropped: nobody may have
    to wait for a pipe that is full.
    """
    ending = threading.Event()

    def serve() -> None:
        rest = b""
        while not ending.is_set():
            if select.select([said], [], [], LOOK_EVERY)[0]:
                rest = _printed_lines(console, rest + _read(said))
        while more := _read(said):
            rest += more
        _printed_lines(console, rest + b"\n" if rest else b"")

    thread = threading.Thread(target=serve, name="runnel-screen", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        ending.set()
        thread.join()


def _read(said: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(said, PIECE)
    return b""


def _printed_lines(console: Console, text: bytes) -> bytes:
    """What is left: a line that has not ended."""
    *lines, rest = text.split(b"\n")
    with suppress(OSError):
        for line in lines:
            shown = printable(line.decode(errors="backslashreplace").rstrip("\r").expandtabs())
            console.print(Text(shown), soft_wrap=True)
    return rest
