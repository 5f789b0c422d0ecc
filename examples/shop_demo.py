"""A small shop on Spark is killed while it works, and its sums add up: `make demo`.

The app is `shop.py`: two views, a stream that joins two others, and a view of the customers, who are captured from a
database of SQLite's. It runs in a process of its own, against a broker of ours, and shows its own live screen. This
process makes the shop's traffic (`shop_traffic.py`), changes its customers (`shop_customers.py`), kills the app with
SIGKILL, and starts it again. In the end it holds every output against DuckDB's answer over the same log
(`shop_answers.py`): what was counted, what was late and what was broken must be every record, once. The view of the
customers must be what the database has.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from app_process import AppProcess
from broker_process import BrokerProcess
from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from shop_answers import Rows, answer, is_whole, moment, row
from shop_customers import Customers
from shop_traffic import CLICKS, ORDERS, PARTITIONS, PAYMENTS, Traffic

import runnel
from runnel.client import Admin, Consumer, Token
from runnel.client.errors import UnknownTopic
from runnel.client.records import Received
from runnel.errors import RunnelError
from runnel.pipeline.java import find_java
from runnel.views.errors import NotSeen, UnknownView

APP = Path(__file__).with_name("shop.py")
CLICKS_VIEW, STREAM, INCOME_VIEW = "clicks_per_minute", "paid_orders", "income_per_minute"
CUSTOMERS_VIEW, COUNTRY = "norwegian_customers", "NO"
INPUTS = {CLICKS_VIEW: (CLICKS,), STREAM: (ORDERS, PAYMENTS), INCOME_VIEW: (STREAM,)}
COLUMNS = {
    CLICKS_VIEW: ("window_start", "page", "count"),
    INCOME_VIEW: ("window_start", "product", "orders", "cents"),
}
HISTORY = 20_000  # clicks that are there before the app starts, with their orders and payments
SECONDS = 30  # of live traffic before the app is killed
LIVE = 300  # clicks that the view must count after it came back
PATIENCE = 300  # seconds that may pass without a sign of the app before the demo gives up
LONGEST = 1_800  # and with signs, as on a machine that is busy with other things
LOOK_EVERY = 0.5
MINUTES = 5  # of the view, that are shown
SHOWN = 10  # broken promises
INTERRUPTED = 130
WIDTH = 78


class Place(NamedTuple):
    """Of a record."""

    topic: str
    partition: int
    offset: int


@dataclass
class Sum:
    """Of the records that one query has read."""

    in_time: int
    late: int
    rejected: int
    sent: int

    @property
    def all(self) -> int:
        return self.in_time + self.late + self.rejected


@dataclass
class Demo:
    broker: BrokerProcess
    app: AppProcess
    traffic: Traffic
    customers: Customers
    history: int
    seconds: float
    live: int
    tell: Callable[[str], object]
    sums: dict[str, Sum] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    stuck: str = ""
    doing: str = ""

    def run(self, *, keeps_running: bool = False) -> None:
        self.begin(f"the last twenty minutes of the shop are written: {self.history:,} clicks, orders, payments")
        with Admin(self.broker.bootstrap) as admin:
            for topic, partitions in PARTITIONS.items():
                admin.create(topic, partitions=partitions)
        self.traffic.send_history(self.history)
        self.customers.make()
        self.begin("Spark starts, reads what is there, and goes on with what comes in")
        self.app.start()
        self.traffic.start()
        self.customers.start()
        self.wait_for_clicks(self.history * 9 // 10)
        self.pass_time(self.seconds)
        self.app.kill()
        self.begin("the app was killed with SIGKILL; Spark starts again")
        counted = self.clicks_counted()
        self.app.start()
        self.wait_for_clicks(counted + self.live)
        if keeps_running:
            self.keep_running()
            return
        last = self.traffic.finish()
        self.customers.finish()
        self.begin("no more traffic; the app reads the rest, and stops")
        self.wait_until_read(last)
        if (code := self.app.stop()) != 0:
            self.broken.append(f"the app ended with code {code}")
        self.begin("every record is looked for, and DuckDB computes the answers anew")
        self.check()

    # --- the check

    def check(self) -> None:
        """Hold what is there against DuckDB's answers over the log."""
        for topic, sent in self.traffic.sent.items():
            if (found := len(self.read(topic))) != sent:
                self.broken.append(f"{sent:,} records were sent to {topic}, and it has {found:,}")
        for query in INPUTS:
            self.check_query(query)
        found, right = self.customers_found(), self.customers.of_country(COUNTRY)
        self.broken += [f"{CUSTOMERS_VIEW} has {row}, which the database has not" for row in sorted(found - right)]
        self.broken += [f"{CUSTOMERS_VIEW} lacks {row}" for row in sorted(right - found)]

    def check_query(self, query: str) -> None:
        log = {Place(each.topic, each.partition, each.offset): each.value for each in self.read(*INPUTS[query])}
        late = [origin(each) for each in self.read(f"{query}.late")]
        sides = self.read(*(f"{topic}.rejected" for topic in INPUTS[query]))
        rejected = [origin(each) for each in sides if told_by(each) == query]
        aside = Counter(late + rejected)
        rest = {place: value for place, value in log.items() if place not in aside}
        self.broken += [f"{query} put {place} aside more than once" for place, count in aside.items() if count > 1]
        self.broken += [
            f"{query} took {place}, which is broken" for place, value in rest.items() if not is_whole(value)
        ]
        whole = {
            topic: [value for place, value in rest.items() if place.topic == topic and is_whole(value)]
            for topic in INPUTS[query]
        }
        found, right = self.output(query), answer(query, whole)
        self.broken += [f"{query} has {row}, which is not right" for row in (found - right)]
        self.broken += [f"{query} lacks {row}" for row in (right - found)]
        in_time = len(rest) if query == STREAM else sum(row[2] for row in found)
        self.sums[query] = Sum(in_time, len(late), len(rejected), len(log))
        if self.sums[query].all != len(log):
            self.broken.append(f"{query} has {self.sums[query].all:,} of {len(log):,} records")

    def output(self, query: str) -> Rows:
        """As DuckDB answers it. A view's count of records is its third column."""
        if query == STREAM:
            return Counter(tuple(row(each.value).values()) for each in self.read(STREAM))
        return Counter(tuple(plain(row[name]) for name in COLUMNS[query]) for row in self.view(query))

    # --- parts

    def view(self, name: str) -> list[dict[str, Any]]:
        """Any program can read it, without Spark."""
        with runnel.views(self.app.data) as views:
            try:
                return list(views[name])
            except UnknownView:  # not made yet
                return []

    def customers_found(self) -> set[tuple[int, str, str]]:
        return {(row["id"], row["name"], row["country"]) for row in self.view(CUSTOMERS_VIEW)}

    def clicks_counted(self) -> int:
        return sum(row["count"] for row in self.view(CLICKS_VIEW))

    def read(self, *topics: str) -> list[Received]:
        found: list[Received] = []
        for topic in topics:
            try:
                with Consumer(self.broker.bootstrap, topic) as records:
                    found += records
            except UnknownTopic:
                continue
        return found

    def wait_until_read(self, last: Iterable[Token]) -> None:
        """A reader can wait for what was written, also through the stream in between."""
        tokens = list(last)
        clicks = [token for token in tokens if token.topic == CLICKS]
        others = [token for token in tokens if token.topic != CLICKS]
        with runnel.views(self.app.data, bootstrap=self.broker.bootstrap) as views:
            self.wait(lambda: has_seen(views[CLICKS_VIEW], clicks) and has_seen(views[INCOME_VIEW], others))
        self.wait(lambda: self.customers_found() == self.customers.of_country(COUNTRY))

    def begin(self, doing: str) -> None:
        self.doing = doing
        self.tell(f"{doing} ...")

    def keep_running(self) -> None:
        self.begin("it goes on until Ctrl-C")
        while not self.app.has_ended:
            time.sleep(LOOK_EVERY)
        raise Stuck(f"the app has ended: {last_lines(self.app.log)}")

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= end)

    def wait_for_clicks(self, counted: int) -> None:
        self.wait(lambda: self.clicks_counted() >= counted)

    def wait(self, condition: Callable[[], bool]) -> None:
        """A slow machine breaks no promise: as long as the app writes something, it is waited for."""
        began = moved = time.monotonic()
        sign = last_write(self.app.data)
        while not condition():
            if self.app.has_ended:
                raise Stuck(f"the app has ended: {last_lines(self.app.log)}")
            now, found = time.monotonic(), last_write(self.app.data)
            if found != sign:
                sign, moved = found, now
            if now - moved > PATIENCE:
                raise Stuck(f"the app has written nothing for {PATIENCE} seconds: {self.doing}")
            if now - began > LONGEST:
                raise Stuck(f"nothing came of it within {LONGEST // 60} minutes: {self.doing}")
            time.sleep(LOOK_EVERY)


class Stuck(Exception):
    """The demo cannot go on."""


def has_seen(view: Any, tokens: list[Token]) -> bool:
    try:
        view.wait_for(*tokens, timeout=LOOK_EVERY)
    except NotSeen:
        return False
    return True


def plain(value: Any) -> Any:
    return moment(value) if hasattr(value, "astimezone") else value


def origin(record: Received) -> Place:
    """Where a record was that has been put aside."""
    told = {name: (text or b"").decode() for name, text in record.headers}
    return Place(told["runnel.topic"], int(told["runnel.partition"]), int(told["runnel.offset"]))


def told_by(record: Received) -> str:
    """The query that put it aside."""
    return (dict(record.headers)["runnel.query"] or b"").decode()


def last_write(folder: Path) -> int:
    """When something below it was written, in nanoseconds; 0 if there is nothing."""
    last = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # it is gone
            last = max(last, path.stat().st_mtime_ns)
    return last


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-5:])


# --- what is shown


def shown(demo: Demo) -> Group:
    return Group(income_table(demo), sums_table(demo))


def income_table(demo: Demo) -> Table:
    view = {(plain(row["window_start"]), row["product"]): row for row in demo.view(INCOME_VIEW)}
    products = sorted({product for _, product in view})
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH)
    table.add_column(f"{INCOME_VIEW}, the last minutes")
    for product in products:
        table.add_column(product, justify="right")
    for start in sorted({start for start, _ in view})[-MINUTES:]:
        cells = (view.get((start, product)) for product in products)
        table.add_row(f"{start:%H:%M}", *(f"{cell['cents'] / 100:,.2f}" if cell else "" for cell in cells))
    return table


def sums_table(demo: Demo) -> Table:
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH)
    for number, heading in enumerate(("of the records", "in time", "late", "rejected", "together", "read")):
        table.add_column(heading, justify="right" if number else "left")
    for query, found in demo.sums.items():
        together = f"{found.all:,}" if found.all == found.sent else f"[red]{found.all:,}[/]"
        sides = (f"{found.in_time:,}", f"{found.late:,}", f"{found.rejected:,}")
        table.add_row(query, *sides, together, f"{found.sent:,}")
    return table


INTRODUCTION = """The app examples/shop.py on Spark: clicks are counted per minute and page,
orders are joined with their payments, and what is paid is counted, too. The
customers of one country are kept as they change in a database of SQLite's.
Stragglers and broken records come in as well. The app is killed with SIGKILL
in the middle of it, and started again.
"""


def summary(demo: Demo) -> str:
    return f"""
[bold green]{demo.traffic.sent.total():,} records, each of them once: counted, late or rejected.[/]
Two views and the stream equal DuckDB's answers over the same log, and the view
of customers equals the database after {demo.customers.changes:,} changes of it, though the app was
killed while it wrote them.

Read on: examples/shop.py, docs/tutorial/first-app.md"""


def how_to_look(demo: Demo) -> str:
    data, bootstrap = demo.app.data, demo.broker.bootstrap
    return f"""It goes on until Ctrl-C. Look at it from another terminal:

  .venv/bin/runnel view {INCOME_VIEW} --views {data} --watch
  .venv/bin/runnel view {CUSTOMERS_VIEW} --views {data} --watch
  .venv/bin/runnel groups list --bootstrap {bootstrap}
  .venv/bin/runnel consume {STREAM} --bootstrap {bootstrap} --follow
"""


def failure(demo: Demo, folder: Path) -> str:
    if demo.stuck:
        return f"""
[bold red]The demo cannot go on[/]
  {escape(demo.stuck)}

Data and logs were kept: {folder}"""
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
    parser = argparse.ArgumentParser(description="Kill a shop's app while it works, and look whether the sums add up.")
    parser.add_argument("--history", type=int, default=HISTORY, help="how many clicks are there before the app starts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of live traffic before the kill")
    parser.add_argument("--live", type=int, default=LIVE, help="how many clicks are counted after it")
    parser.add_argument("--keep", action="store_true", help="go on until Ctrl-C instead of looking at the sums")
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
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # whoever closes the terminal leaves nothing running
    folder = Path(tempfile.mkdtemp(prefix="runnel-demo-"))
    customers = Customers(folder / "shop.sqlite")
    os.environ["SHOP_DATABASE"] = f"sqlite:{customers.path}"
    is_interrupted = False
    with BrokerProcess(folder) as broker:
        broker.start()
        with AppProcess(APP, broker.bootstrap, folder, has_screen=console.is_terminal) as app:
            traffic = Traffic(broker.bootstrap)

            def tell(doing: str) -> None:
                if not app.shows_screen:  # else it would be written into the screen
                    console.print(doing)

            demo = Demo(broker, app, traffic, customers, options.history, options.seconds, options.live, tell)
            if options.keep:
                console.print(how_to_look(demo))
            try:
                demo.run(keeps_running=options.keep)
            except Stuck as stuck:
                demo.stuck = str(stuck)
            except RunnelError as error:
                demo.broken.append(f"{demo.doing}: {error}")
            except KeyboardInterrupt:
                app.kill()
                is_interrupted = True
            if not is_interrupted and not demo.broken and not demo.stuck:
                console.print(shown(demo))
                if options.picture:
                    keep_picture(options.picture, demo)
    if is_interrupted:
        remove(folder)
        return 0 if options.keep else INTERRUPTED
    if demo.broken or demo.stuck:
        console.print(failure(demo, folder))
        return 1
    console.print(summary(demo))
    remove(folder)
    return 0


def remove(folder: Path) -> None:
    """Until it stays away: Spark's processes may write for a moment longer than whoever started them lives."""
    looks = 0
    for _ in range(100):
        looks = 0 if folder.exists() else looks + 1
        shutil.rmtree(folder, ignore_errors=True)
        if looks == 3:
            return
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
