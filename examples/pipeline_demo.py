"""Clicks come in, a view counts them, a stream is derived, the app is killed, and the sum adds up: `make demo`.

The app is `shop.py`. Spark runs it in a process of its own, against a broker of ours; this process makes clicks, looks
at the view, kills the app with SIGKILL while it works, and starts it again. In the end it reads the topics and computes
the answers anew, in plain Python: what the view counted, what was late and what was broken must be every click, once.
`shop_clicks.py` has the clicks and the answers, `app_process.py` the app.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from app_process import AppProcess
from broker_process import BrokerProcess
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from shop_clicks import PAGES, PARTITIONS, TOPIC, Clicks, Place, answer, is_whole, minute

from runnel.client import Admin, Consumer
from runnel.client.errors import UnknownTopic
from runnel.client.records import Received
from runnel.errors import RunnelError
from runnel.pipeline.java import find_java

APP = Path(__file__).with_name("shop.py")
VIEW, STREAM = "clicks_per_minute", "long_stays"
HISTORY = 20_000  # clicks that are there before the app starts
LIVE = 300  # clicks that the view counts before the app is killed, and again afterwards
PATIENCE = 300  # seconds that may pass before the demo gives up
MINUTES = 5  # of the view, that are shown
SHOWN = 10  # broken promises
INTERRUPTED = 130
WIDTH = 78


@dataclass
class Sum:
    """Of the clicks that one query has read."""

    in_time: int
    late: int
    rejected: int

    @property
    def all(self) -> int:
        return self.in_time + self.late + self.rejected


@dataclass
class Demo:
    broker: BrokerProcess
    app: AppProcess
    clicks: Clicks
    history: int
    live: int
    tell: Callable[[str], object]
    kills: int = 0
    sums: dict[str, Sum] = field(default_factory=dict)
    stays: int = 0
    broken: list[str] = field(default_factory=list)
    doing: str = ""

    def run(self) -> None:
        self.begin(f"{self.history:,} clicks of the last twenty minutes are written")
        with Admin(self.broker.bootstrap) as admin:
            admin.create(TOPIC, partitions=PARTITIONS)
        self.clicks.send_history(self.history)
        self.begin("Spark starts, and reads what is there")
        self.app.start()
        self.wait_for(self.history * 9 // 10)
        self.begin("clicks come in live, some of them five minutes late")
        self.clicks.start()
        self.wait_for(self.counted() + self.live)
        self.begin("the app was killed with SIGKILL; Spark starts again")
        self.app.kill()
        self.kills += 1
        self.app.start()
        self.wait_for(self.counted() + self.live)
        self.begin("no more clicks; the app reads the rest, and stops")
        self.clicks.finish()
        self.wait(self.has_read_everything)
        if (code := self.app.stop()) != 0:
            self.broken.append(f"the app ended with code {code}")
        self.begin("every click is looked for")
        self.check()
        self.begin("")

    # --- the check

    def check(self) -> None:
        """Hold what is there against the answers of plain Python."""
        clicks = {Place(each.partition, each.offset): each.value for each in self.read(TOPIC)}
        if len(clicks) != self.clicks.sent:
            self.broken.append(f"{self.clicks.sent:,} clicks were sent, and the topic has {len(clicks):,}")
        rejected = self.read(f"{TOPIC}.rejected")
        for query in (VIEW, STREAM):
            late = self.read(f"{query}.late")
            aside = Counter(origin(each) for each in late + [each for each in rejected if told_by(each) == query])
            rest = {place: value for place, value in clicks.items() if place not in aside}
            twice = [place for place, count in aside.items() if count > 1]
            taken = [place for place, value in rest.items() if not is_whole(value)]
            self.broken += [f"{query} put the click at {place} aside more than once" for place in twice]
            self.broken += [f"{query} took the broken click at {place}" for place in taken]
            self.check_output(query, [value for value in rest.values() if is_whole(value)])
            in_time = self.counted() if query == VIEW else len(rest)
            self.sums[query] = Sum(in_time, len(late), aside.total() - len(late))
            if self.sums[query].all != len(clicks):
                self.broken.append(f"{query} has {self.sums[query].all:,} of {len(clicks):,} clicks")

    def check_output(self, query: str, values: list[bytes]) -> None:
        right = answer(values)
        if query == VIEW:
            if (found := self.view()) != right.counts:
                wrong = {key for key in {*found, *right.counts} if found[key] != right.counts[key]}
                self.broken += [f"{VIEW} says {found[key]} for {key}, not {right.counts[key]}" for key in sorted(wrong)]
            return
        stays = Counter(
            (stay["customer_id"], stay["page"], stay["seconds"])
            for stay in (json.loads(each.value) for each in self.read(STREAM))
        )
        self.stays = stays.total()
        if stays != right.stays:
            self.broken.append(f"{STREAM} has {stays.total():,} records, and {right.stays.total():,} are right")

    # --- parts

    def view(self) -> Counter[tuple[str, str]]:
        """By the minute and the page; any program that knows SQLite can read it."""
        path = self.app.data / "views.sqlite"
        if not path.exists():
            return Counter()
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            rows = connection.execute(f"SELECT window_start, page, count FROM {VIEW}").fetchall()
        except sqlite3.OperationalError:  # not made yet
            return Counter()
        finally:
            connection.close()
        return Counter({(minute(datetime.fromisoformat(start)), page): count for start, page, count in rows})

    def counted(self) -> int:
        return self.view().total()

    def read(self, topic: str) -> list[Received]:
        try:
            with Consumer(self.broker.bootstrap, topic) as records:
                return list(records)
        except UnknownTopic:
            return []

    def has_read_everything(self) -> bool:
        """Of the view all are counted, late or rejected; the stream says itself how far it has read."""
        rejected = Counter(told_by(each) for each in self.read(f"{TOPIC}.rejected"))
        if self.counted() + len(self.read(f"{VIEW}.late")) + rejected[VIEW] < self.clicks.sent:
            return False
        marks = self.read(f"runnel.shop.{STREAM}.marker")
        return bool(marks) and sum(json.loads(marks[-1].value)["positions"][TOPIC].values()) >= self.clicks.sent

    def begin(self, doing: str) -> None:
        self.doing = doing
        if doing:
            self.tell(f"{doing} ...")

    def wait_for(self, counted: int) -> None:
        self.wait(lambda: self.counted() >= counted)

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            if self.app.has_ended:
                raise Stuck(f"the app has ended: {last_lines(self.app.log)}")
            if time.monotonic() > until:
                raise Stuck(f"nothing came of it within {PATIENCE} seconds: {self.doing}")
            time.sleep(0.25)


class Stuck(Exception):
    """The demo cannot go on."""


def origin(record: Received) -> Place:
    """Where a record was that has been put aside."""
    told = dict(record.headers)
    return Place(int(told["runnel.partition"] or 0), int(told["runnel.offset"] or 0))


def told_by(record: Received) -> str:
    """The query that put it aside."""
    return (dict(record.headers)["runnel.query"] or b"").decode()


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-5:])


# --- what is shown


def shown(demo: Demo) -> Group:
    return Group(view_table(demo), sums_table(demo))


def view_table(demo: Demo) -> Table:
    caption = f"{demo.doing} ..." if demo.doing else None
    table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left", width=WIDTH)
    table.add_column(f"{VIEW}, the last minutes")
    for page in PAGES:
        table.add_column(page, justify="right")
    view = demo.view()
    for start in sorted({start for start, _ in view})[-MINUTES:]:
        table.add_row(start[-5:], *(f"{view[start, page]:,}" for page in PAGES))
    return table


def sums_table(demo: Demo) -> Table:
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH)
    for number, heading in enumerate(("of the clicks", "in time", "late", "rejected", "together", "sent")):
        table.add_column(heading, justify="right" if number else "left")
    for query, found in demo.sums.items():
        together = f"{found.all:,}" if found.all == demo.clicks.sent else f"[red]{found.all:,}[/]"
        sides = (f"{found.in_time:,}", f"{found.late:,}", f"{found.rejected:,}")
        table.add_row(query, *sides, together, f"{demo.clicks.sent:,}")
    return table


INTRODUCTION = """The app examples/shop.py on Spark: a view counts clicks per minute and page,
and long stays become a topic of their own. Stragglers and broken clicks come
in, too. The app is killed with SIGKILL in the middle of it, and started again.
"""


def summary(demo: Demo) -> str:
    return f"""
[bold green]{demo.clicks.sent:,} clicks, each of them once: counted, late or rejected.[/]
The view equals a count in plain Python, and so do the {demo.stays:,} records of
{STREAM}, though the app was killed while it wrote both.

Read on: examples/shop.py, docs/tutorial/first-app.md"""


def failure(demo: Demo, folder: Path) -> str:
    sentences = "\n".join(f"  {escape(sentence)}" for sentence in demo.broken[:SHOWN])
    more = f"\n  and {len(demo.broken) - SHOWN} more" if len(demo.broken) > SHOWN else ""
    return f"""
[bold red]Broken promises: {len(demo.broken)}[/]
{sentences}{more}

Data and logs were kept: {folder}"""


def keep_picture(path: str, demo: Demo) -> None:
    console = Console(highlight=False, record=True, file=io.StringIO(), width=WIDTH + 2)
    for part in (INTRODUCTION, shown(demo), summary(demo)):
        console.print(part)
    picture = console.export_svg(title="make demo")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # the reader's own font will do
    Path(path).write_text(picture)


# --- the program


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill an app while it counts, and look whether the sum adds up.")
    parser.add_argument("--history", type=int, default=HISTORY, help="how many clicks are there before the app starts")
    parser.add_argument("--live", type=int, default=LIVE, help="how many are counted before the kill, and after it")
    parser.add_argument("--picture", metavar="FILE", help="keep what is shown as an SVG picture")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    console = Console(highlight=False)
    try:
        find_java()
    except RunnelError as error:
        console.print(f"[bold red]{escape(error.what)}[/]\n{escape(error.hint)}")
        return 1
    console.print(INTRODUCTION)
    folder = Path(tempfile.mkdtemp(prefix="runnel-demo-"))
    with BrokerProcess(folder) as broker:
        broker.start()
        with AppProcess(APP, broker.bootstrap, folder) as app:
            tell = console.print if not console.is_terminal else lambda _: None
            demo = Demo(broker, app, Clicks(broker.bootstrap), options.history, options.live, tell)
            with Live(get_renderable=lambda: shown(demo), console=console, refresh_per_second=4):
                try:
                    demo.run()
                except Stuck as stuck:
                    demo.broken.append(str(stuck))
                except RunnelError as error:
                    demo.broken.append(f"{demo.doing}: {error}")
                except KeyboardInterrupt:
                    shutil.rmtree(folder, ignore_errors=True)  # the broker may be writing to it, and is killed next
                    return INTERRUPTED
            if options.picture and not demo.broken:
                keep_picture(options.picture, demo)
    if demo.broken:
        console.print(failure(demo, folder))
        return 1
    console.print(summary(demo))
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
