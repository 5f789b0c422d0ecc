"""Two client libraries talk through a broker that is killed again and again: `make demo`.

Two producers write orders to a topic. The group `billing` shares its partitions between two members of different
libraries; the group `audit` reads the same orders for itself. This process kills the broker with SIGKILL while all of
them are at work, starts it again on the same data, and holds what is there against all that the clients were told.
`talking_clients.py` has the clients, `kept_promises.py` the check, `broker_process.py` the broker.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broker_process import BrokerProcess
from kept_promises import Found, Promises, planned
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from talking_clients import AioMember, AioProducer, Client, ConfluentMember, ConfluentProducer, Member, failures

from runnel.client import LATEST, Admin, Consumer, Groups
from runnel.errors import RunnelError

TOPIC = "orders"
PARTITIONS = 4
BILLING, AUDIT = "billing", "audit"
KILLS = 4
RECORDS = 8_000  # that are acknowledged before the next kill
NEWCOMERS_RECORDS = 500
PATIENCE = 90  # seconds that may pass before the demo gives up
SHOWN = 10  # broken promises
INTERRUPTED = 130
WIDTH = 78
KILL_HEADINGS = (
    "kill", "records\nacknowledged", "found\nafterwards", "lost", "offsets\ncommitted", "found\nafterwards",
    "ready\nagain in",
)  # fmt: skip
SETTINGS = {"group.initial.rebalance.delay.ms": "500"}


@dataclass
class Kill:
    """What clients had been told when the broker was killed, and what the next one found."""

    acknowledged: int
    committed: int
    found: int = 0
    kept: int = 0
    lost: int = 0
    seconds: float = 0.0
    is_checked: bool = False


@dataclass
class Demo:
    broker: BrokerProcess
    kills: int
    records: int
    tell: Callable[[str], object]
    promises: Promises = field(default_factory=lambda: Promises([BILLING, AUDIT]))
    clients: list[Client] = field(default_factory=list)
    rows: list[Kill] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    doing: str = ""

    def run(self) -> None:
        """Kill so many brokers, unless a promise was broken before."""
        self.begin("starts the broker")
        self.broker.start()
        with Admin(self.broker.bootstrap) as admin:
            admin.create(TOPIC, partitions=PARTITIONS)
        self.start_clients()
        for number in range(1, self.kills + 1):
            self.begin(f"{number} of {self.kills} brokers is at work")
            goal = len(self.promises.acknowledged) + self.records
            self.wait(lambda goal=goal: len(self.promises.acknowledged) >= goal and self.have_read(goal // 2))
            self.kill_and_restart()
            if self.broken:
                return
        self.begin("the clients finish")
        self.finish()
        self.begin("new members take over")
        self.take_over()
        self.begin("")

    # --- the steps

    def start_clients(self) -> None:
        given = (self.broker.bootstrap, TOPIC, self.promises)
        self.clients += [
            ConfluentMember("billing 1", *given, BILLING),
            AioMember("billing 2", *given, BILLING),
            AioMember("audit", *given, AUDIT),
        ]
        self.begin("the groups form")
        for client in self.clients:
            client.start()
        self.wait(lambda: all(client.partitions for client in self.members))
        producers = [ConfluentProducer("shop", *given, planned), AioProducer("app", *given, planned)]
        self.clients[:0] = producers
        for producer in producers:
            producer.start()

    def kill_and_restart(self) -> None:
        self.begin("the broker is dead")
        self.broker.kill()
        row = Kill(len(self.promises.acknowledged), self.committed(self.promises.committed_now()))
        self.rows.append(row)
        row.seconds = self.broker.start()
        self.begin("the broker is back, every record is checked")
        self.check(row)
        self.tell(
            f"kill {len(self.rows)} of {self.kills}: {row.acknowledged:,} records acknowledged, {row.found:,} found, "
            f"{row.lost:,} lost"
        )

    def check(self, row: Kill | None = None) -> dict[int, int]:
        """Hold what is there against what was told; the answer is where the partitions end."""
        acknowledged, committed = self.promises.acknowledged_now(), self.promises.committed_now()
        kept = self.kept_commits()
        with Admin(self.broker.bootstrap) as admin:
            ends = admin.offsets([(TOPIC, number) for number in range(PARTITIONS)], LATEST)
        with Consumer(self.broker.bootstrap, TOPIC) as consumer:
            found = [Found(each.partition, each.offset, each.key, each.value) for each in consumer]
        lost = list(self.promises.broken_by_records(acknowledged, found))
        self.broken += lost
        self.broken += self.promises.broken_by_commits(committed, kept)
        self.broken += self.promises.broken_by_groups()
        self.broken += failures(self.clients)
        if row is not None:
            row.found, row.kept, row.lost = len(found), self.committed(kept), len(lost)
            row.is_checked = True
        return {number: end for (_, number), end in ends.items()}

    def finish(self) -> None:
        """Everything that was sent is acknowledged, and read by both groups."""
        for producer in self.clients[:2]:
            producer.end()
        if len(self.promises.acknowledged) != sum(self.promises.sent.values()):
            self.broken.append("the producers were not told of all that they sent")
        self.read_to_the_end()

    def take_over(self) -> None:
        """The members leave; new ones, of the other library, get what comes after the groups' offsets and no more."""
        for member in self.members:
            member.end()
        repeated = {name: group.again for name, group in self.promises.groups.items()}
        given = (self.broker.bootstrap, TOPIC, self.promises)
        newcomers: list[Client] = [
            ConfluentProducer("newcomer", *given, planned, NEWCOMERS_RECORDS),
            AioMember("billing 3", *given, BILLING),
            ConfluentMember("audit 2", *given, AUDIT),
        ]
        self.clients += newcomers
        for client in newcomers:
            client.start()
        newcomers[0].join()
        self.read_to_the_end()
        for name, group in self.promises.groups.items():
            if group.again != repeated[name]:
                again = group.again - repeated[name]
                self.broken.append(f"group {name} did not go on where it was: {again} records were read again")
        for client in newcomers[1:]:
            client.end()

    def read_to_the_end(self) -> None:
        ends = self.check()
        groups = self.promises.groups.values()
        self.wait(lambda: all(group.next.get(number, 0) >= end for group in groups for number, end in ends.items()))
        self.broken += self.promises.broken_by_groups(ends)

    # --- parts

    @property
    def members(self) -> list[Member]:
        return [client for client in self.clients if isinstance(client, Member)]

    def have_read(self, records: int) -> bool:
        return all(group.records >= records for group in self.promises.groups.values())

    def kept_commits(self) -> dict[str, dict[int, int]]:
        with Admin(self.broker.bootstrap) as admin:
            groups = Groups(admin)
            return {
                name: {number: offset for (_, number), offset in groups.committed(name).items()}
                for name in self.promises.groups
            }

    @staticmethod
    def committed(offsets: dict[str, dict[int, int]]) -> int:
        """How many records the groups have committed, added up."""
        return sum(sum(partitions.values()) for partitions in offsets.values())

    def begin(self, doing: str) -> None:
        self.doing = doing

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            troubles = failures(self.clients)
            if troubles or time.monotonic() > until:
                raise Stuck(troubles or [f"nothing came of it within {PATIENCE} seconds: {self.doing}"])
            time.sleep(0.02)


class Stuck(Exception):
    """The demo cannot go on."""


# --- what is shown


def shown(demo: Demo) -> Group:
    return Group(clients_table(demo), kills_table(demo))


def clients_table(demo: Demo) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), width=WIDTH)
    for heading in ("client", "library", "does"):
        table.add_column(heading)
    table.add_column("partitions")
    table.add_column("records", justify="right")
    for client in demo.clients:
        if isinstance(client, Member):
            does, partitions = f"reads in group {client.group}", " ".join(map(str, client.partitions))
        else:
            does, partitions = "writes", ""
        table.add_row(client.name, client.library, does, partitions, f"{client.records:,}")
    return table


def kills_table(demo: Demo) -> Table:
    caption = f"{demo.doing} ..." if demo.doing else None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=caption, caption_justify="left", width=WIDTH)
    for heading in KILL_HEADINGS:
        table.add_column(heading, justify="right")
    for number, row in enumerate(demo.rows, 1):
        cells = ("", "", "", "")
        if row.is_checked:
            lost = f"[red]{row.lost:,}[/]" if row.lost else "0"
            cells = (f"{row.found:,}", lost, f"{row.committed:,}", f"{row.kept:,}")
        seconds = f"{row.seconds:.2f} s" if row.seconds else ""
        table.add_row(str(number), f"{row.acknowledged:,}", *cells, seconds)
    return table


def introduction(demo: Demo) -> str:
    return f"""A broker, {PARTITIONS} partitions, two client libraries. Group {BILLING} shares the
partitions between two members; group {AUDIT} reads the same records for itself.
The broker is killed {times(demo.kills)} with SIGKILL while all of them work, and
started again on the same data.
"""


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def summary(demo: Demo) -> str:
    acknowledged, groups = len(demo.promises.acknowledged), demo.promises.groups
    again = sum(group.again for group in groups.values())
    kills = "1 kill" if demo.kills == 1 else f"{demo.kills} kills"
    return f"""
[bold green]{kills}, {acknowledged:,} records acknowledged, {acknowledged:,} found: nothing was lost.[/]
Each stands at its offset, once, and the records of each producer are in order.
Both groups were given every record{f", and {again:,} of them twice" if again else ", none of them twice"}.
In the end other members took over, and went on where their groups were.

Read on: docs/tutorial/first-broker.md, docs/howto/test-with-a-broker.md"""


def failure(demo: Demo) -> str:
    sentences = "\n".join(f"  {escape(sentence)}" for sentence in demo.broken[:SHOWN])
    more = f"\n  and {len(demo.broken) - SHOWN} more" if len(demo.broken) > SHOWN else ""
    return f"""
[bold red]Broken promises: {len(demo.broken)}[/]
{sentences}{more}

The broker's data and its log were kept: {demo.broker.data.parent}"""


def keep_picture(path: str, demo: Demo) -> None:
    console = Console(highlight=False, record=True, file=io.StringIO(), width=WIDTH + 2)
    for part in (introduction(demo), shown(demo), summary(demo)):
        console.print(part)
    picture = console.export_svg(title="make demo")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # the reader's own font will do
    Path(path).write_text(picture)


# --- the program


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill a broker under load again and again, and count what was kept.")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"how many kills (default: {KILLS})")
    parser.add_argument(
        "--records",
        type=int,
        default=RECORDS,
        help=f"how many records are acknowledged before a kill (default: {RECORDS:,})",
    )
    parser.add_argument("--picture", metavar="FILE", help="keep what is shown as an SVG picture")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="runnel-demo-"))
    with BrokerProcess(folder, SETTINGS) as broker:
        tell = console.print if not console.is_terminal else lambda _: None
        demo = Demo(broker, options.kills, options.records, tell)
        console.print(introduction(demo))
        with Live(get_renderable=lambda: shown(demo), console=console, refresh_per_second=8):
            try:
                demo.run()
            except Stuck as stuck:
                demo.broken += stuck.args[0]
            except RunnelError as error:
                demo.broken.append(f"{demo.doing}: {error}")
            except KeyboardInterrupt:
                shutil.rmtree(folder, ignore_errors=True)  # the broker may be writing to it, and is killed next
                return INTERRUPTED
    if demo.broken:
        console.print(failure(demo))
        return 1
    console.print(summary(demo))
    shutil.rmtree(folder)
    if options.picture:
        keep_picture(options.picture, demo)
    return 0


if __name__ == "__main__":
    sys.exit(main())
