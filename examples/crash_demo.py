"""Kill a process that writes to a log, again and again, and count what was kept: `python examples/crash_demo.py`.

A writer process appends to three partitions from six threads, and reports each append after it returned. This process
kills it with SIGKILL in the middle of its work and starts the next one on the same directory, which recovers the log,
compares it with all that was reported, and writes on. `killed_writer.py` is the writer and the check.
"""

from __future__ import annotations

import argparse
import io
import logging
import random
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from killed_writer import PARTITIONS, PRODUCERS, History, Restart, WriterProcess, reopen
from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

ROUNDS = 12
LIVES = range(100, 300)  # so many appends of a writer are acknowledged before it is killed
IN_A_WRITE = 0.75  # of the kills are aimed at a write
SHOWN = 10  # broken promises
HEADINGS = (
    "kill", "acknow-\nledged", "seen by\nreader", "found at\nrestart", "written, not\nacknowledged",
    "torn bytes\ncut off", "leader\nepoch", "reopened\nin",
)  # fmt: skip


@dataclass
class Kill:
    """The state of things when a writer was killed, and what the restart after it found."""

    acknowledged: int
    seen: int
    restart: Restart | None = None


class Demo:
    def __init__(self, path: str, seed: int, rounds: int, console: Console) -> None:
        self.path = path
        self.rounds = rounds
        self.console = console
        self.chance = random.Random(seed)
        self.history = History(seed)
        self.kills: list[Kill] = []
        self.broken: list[str] = []
        self.doing = ""

    def run(self) -> None:
        """Kill so many writers, unless a promise was broken before."""
        for number in range(1, self.rounds + 1):
            self.doing = f"writer {number} opens and checks the log"
            with WriterProcess(self.path, self.history) as writer:
                self.note(writer.restart())
                if self.broken:
                    return
                self.doing = f"writer {number} appends"
                writer.wait_for_acknowledgements(self.chance.choice(LIVES))
                if self.chance.random() < IN_A_WRITE:
                    writer.wait_for_a_write()
            self.kills.append(Kill(self.history.records_acknowledged, len(self.history.seen)))
        self.doing = "the last check"
        log, restart = reopen(self.path, self.history)
        log.close()
        self.note(restart)
        self.doing = ""

    def note(self, restart: Restart) -> None:
        self.broken = restart.broken
        if self.kills:
            self.kills[-1].restart = restart
            if not self.console.is_terminal:
                self.console.print(f"kill {len(self.kills)} of {self.rounds}: {restart.found:,} records found")

    def table(self) -> Table:
        table = Table(caption=self.progress(), caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in HEADINGS:
            table.add_column(name, justify="right", no_wrap=True)
        for number, kill in enumerate(self.kills, 1):
            table.add_row(str(number), f"{kill.acknowledged:,}", f"{kill.seen:,}", *restart_cells(kill))
        return table

    def progress(self) -> str | None:
        if not self.doing:
            return None
        acknowledged, seen = self.history.records_acknowledged, len(self.history.seen)
        return f"{self.doing}: {acknowledged:,} records acknowledged, {seen:,} seen"


def restart_cells(kill: Kill) -> tuple[str, ...]:
    restart = kill.restart
    if restart is None:
        return ("", "", "", "", "")
    return (
        f"[red]{restart.found:,}[/]" if restart.broken else f"{restart.found:,}",
        f"{restart.found - kill.acknowledged:,}",
        f"{restart.cut:,}" if restart.cut else "[dim]none[/]",
        str(restart.epoch),
        f"{restart.milliseconds:,.0f} ms",
    )


def introduction(options: argparse.Namespace, path: str) -> str:
    return f"""{PRODUCERS} threads append to {PARTITIONS} partitions, in batches of up to 900 kB that are written
page by page, and are killed {options.rounds} times with SIGKILL. Records are counted from
the first writer on. The directory is {path}.
Seed {options.seed} repeats what is written; when exactly a kill comes is chance.
"""


def summary(demo: Demo) -> str:
    acknowledged = demo.history.records_acknowledged
    duplicates = [append for append in demo.history.acknowledged if append.duplicate]
    cuts = [kill.restart.cut for kill in demo.kills if kill.restart.cut]
    if cuts:
        torn = f"Writes that were torn in two after {len(cuts)} of the kills: {sum(cuts):,} bytes, cut off."
    else:
        torn = "No kill has torn a write in two this time; run it again to see one cut off."
    return f"""
[bold green]{demo.rounds} kills, {acknowledged:,} records acknowledged, {acknowledged:,} found: nothing was lost.[/]
Each stands at its offset with its value, and so does all that the reader saw.
Nothing was invented, and no batch is there in part or twice.
{torn}
Batches sent again because their answers died with a writer: {len(duplicates)}, all kept once.

SIGKILL leaves what the system has in memory. Power cuts are simulated in the
tests (tests/crash), on a disk that forgets what was not synced.

Read on: docs/tutorial/first-log.md, docs/howto/use-the-log-alone.md"""


def failure(demo: Demo) -> str:
    sentences = "\n".join(f"  {escape(sentence)}" for sentence in demo.broken[:SHOWN])
    more = f"\n  and {len(demo.broken) - SHOWN} more" if len(demo.broken) > SHOWN else ""
    return f"""
[bold red]The log broke {len(demo.broken)} promises:[/]
{sentences}{more}

The directory was kept: {demo.path}"""


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill a writer again and again, and count what was kept.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how many kills (default: {ROUNDS})")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--picture", metavar="FILE", help="keep what is shown as an SVG picture")
    return parser.parse_args()


def main() -> int:
    logging.basicConfig(level=logging.ERROR)  # torn writes are in the table
    options = parse_options()
    console = Console(highlight=False)
    folder = tempfile.mkdtemp(prefix="runnel-demo-")
    console.print(introduction(options, folder))
    demo = Demo(f"{folder}/data", options.seed, options.rounds, console)
    with Live(get_renderable=demo.table, console=console, refresh_per_second=8):
        demo.run()
    if demo.broken:
        console.print(failure(demo))
        return 1
    console.print(summary(demo))
    shutil.rmtree(folder)
    if options.picture:
        keep_picture(options.picture, introduction(options, folder), demo.table(), summary(demo))
    return 0


def keep_picture(path: str, *shown: str | Table) -> None:
    console = Console(highlight=False, record=True, file=io.StringIO(), width=84)
    for part in shown:
        console.print(part)
    picture = console.export_svg(title="python examples/crash_demo.py")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # the reader's own font will do
    Path(path).write_text(picture)


if __name__ == "__main__":
    sys.exit(main())
