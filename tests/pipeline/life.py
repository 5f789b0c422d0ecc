"""An app that lives on while the processes around it die: its own, its broker, Spark's. What it made is compared with
what was sent, as the topic has it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from runnel.client import Admin
from runnel.errors import RunnelError
from runnel.views.errors import UnknownView
from runnel.views.opening import open_store
from tests.abuse.broker_process import BrokerProcess
from tests.pipeline.stage import PARTITIONS, Stage
from tests.pipeline.waiting import LIMIT, wait_until

PROGRAM = Path(__file__).with_name("run_life.py")
APP = Path(__file__).with_name("life_app.py")
FULL_DISK = Path(__file__).with_name("full_disk.c")
ROOT = Path(__file__).parents[2]
NAMES = ("clicks_per_minute", "long_stays")
PLANS, RUNS = "python_streamin", "worker"  # the names of the modules, as far as the kernel shows them


class RunningApp:
    """One process of it, and its log."""

    def __init__(
        self, bootstrap: str, data: Path, log: Path, *, views: str, until_caught_up: bool, **more: str
    ) -> None:
        command = [sys.executable, str(PROGRAM), bootstrap, str(data), views, "yes" if until_caught_up else ""]
        self._log = log
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=os.environ | {"PYTHONPATH": str(ROOT), "RUNNEL_CLASS_ARCHIVE": "off"} | more,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_log(self, text: str, times: int = 1) -> None:
        """Until the log has the text so often."""
        wait_until(
            lambda: self.log.count(text) >= times or not self.is_running, lambda: f"{text!r} in {self.log[-6000:]}"
        )
        assert self.log.count(text) >= times, f"it ended without {text!r}: {self.log[-6000:]}"

    def wait_until_stopped(self) -> None:
        """By SIGSTOP, which it sends to itself."""
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert self.is_running, self.log[-6000:]

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, number: signal.Signals | None = None) -> int:
        """The exit code."""
        if number is not None:
            self.send_signal(number)
        try:
            return self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.log[-6000:]}") from None

    def kill(self) -> None:
        """Java sees that by itself, and ends."""
        java = self.java
        self._process.kill()
        self._process.wait()
        wait_until(lambda: not any(_is_there(pid) for pid in java), lambda: "Java has ended, too")

    # --- Spark's processes

    @property
    def java(self) -> list[int]:
        return _children(self.pid, lambda command: "java" in command.partition(" ")[0])

    @property
    def workers(self) -> list[int]:
        """Those that read, and run what the body has in Python."""
        return [pid for daemon in self._forks(RUNS) for pid in _children(daemon, lambda _: True)]

    @property
    def planners(self) -> list[int]:
        return self._forks(PLANS)

    def _forks(self, name: str) -> list[int]:
        forkers = _children(self.pid, lambda command: "runnel.pipeline.forker" in command)
        found = [pid for forker in forkers for pid in _children(forker, lambda _: True)]
        return [pid for pid in found if Path(f"/proc/{pid}/comm").read_text().strip() == name]


class Life:
    """A broker in a process of its own, clicks, and the app. `disk` is what a full disk needs."""

    def __init__(self, directory: Path, *, views: str = "", outputs: str = "view stream") -> None:
        self.broker = BrokerProcess(directory / "broker")
        self.data = directory / "data"
        self.dying = directory / "dying"
        self.dying.mkdir(parents=True)
        self.full = directory / "full"
        self._library = directory / "full_disk.so"
        self._log = directory / "app.log"
        self._views = views
        self._outputs = outputs
        self.stage = Stage(self.broker, self.data, views or None)
        self._app: RunningApp | None = None

    @property
    def app(self) -> RunningApp:
        assert self._app is not None
        return self._app

    def begin(self) -> None:
        self.broker.start()
        with Admin(self.broker.bootstrap) as admin:
            admin.create("clicks", partitions=PARTITIONS, configs={"retention.ms": "-1"})
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", self._library, FULL_DISK, "-ldl"], check=True)

    def end(self) -> None:
        if self._app is not None and self._app.is_running:
            self._app.send_signal(signal.SIGCONT)
            self._app.kill()
        if self.broker._process is not None:
            self.broker.kill()

    def run(self, *, data: Path | None = None, until_caught_up: bool = False, dying: bool = True) -> RunningApp:
        """Another process of the app."""
        more = {"LIFE_OUTPUTS": self._outputs}
        more |= {"LD_PRELOAD": str(self._library), "FULL_DISK_WHILE": str(self.full), "FULL_DISK_OF": str(self.data)}
        more |= {"RUNNEL_DIE_AT": str(self.dying)} if dying else {}
        log = self._log if data is None else self._log.with_name(f"{data.name}.log")
        return RunningApp(
            self.broker.bootstrap, data or self.data, log, views=self._views, until_caught_up=until_caught_up, **more
        )

    def start_app(self, *, until_caught_up: bool = False) -> None:
        self._app = self.run(until_caught_up=until_caught_up)

    def send_signal_at(self, place: str, number: signal.Signals, *, after: int = 0, times: int = 1) -> None:
        """Whoever comes to this step sends itself the signal; the first ones, `after` of them, do not."""
        for count in range(1, after + times + 1):
            made = self.dying.parent / "made"
            made.write_text("" if count <= after else str(int(number)))
            made.replace(self.dying / f"{place}:{count}")

    @contextmanager
    def producing(self, chance: random.Random) -> Iterator[None]:
        """Clicks are sent all the while, also to a broker that is away."""
        ended = threading.Event()

        def send() -> None:
            while not ended.wait(0.2):
                with suppress(RunnelError):  # what is there now is what counts
                    self.stage.send(chance.randrange(1, 30), seed=chance.randrange(10**6), broken=0.05)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    # --- what should be there, and what is

    def wait_for_batches(self) -> None:
        """It has come further than it was."""
        before = self._positions()
        self._wait_for(lambda: all(now > then for now, then in zip(self._positions(), before, strict=True)))

    def _positions(self) -> list[int]:
        """The newest batch of each query that Spark has done with."""
        found = [self.data / "queries" / name / "checkpoint" / "commits" for name in NAMES]
        return [max(int(each.name) for each in path.iterdir() if each.name.isdigit()) for path in found]

    def wait_until_exact(self) -> None:
        """What was sent until now has been counted and told, once."""
        good, broken = self._sent()
        counts = dict(Counter((datetime.fromisoformat(each["at"]).replace(second=0), each["page"]) for each in good))
        stays = sorted((each["customer_id"], each["page"], each["seconds"]) for each in good if each["seconds"] > 50)
        outputs = self._outputs.split()
        if "view" in outputs:
            self._wait_for(lambda: self.counts() == counts)
            assert self.counts() == counts
        if "stream" in outputs:
            self._wait_for(lambda: len(self.stage.stays()) >= len(stays))
            assert self.stage.stays() == stays
        twice = Counter({value: len(outputs) for value in broken})
        self._wait_for(lambda: len(self.stage.read("clicks.rejected")) >= len(outputs) * len(broken))
        assert Counter(value for _, value in self.stage.read("clicks.rejected")) == twice

    def _wait_for(self, holds: Callable[[], object]) -> None:
        wait_until(
            lambda: holds() or not self.app.is_running, lambda: f"exact; {self.counts()}, {self.app.log[-6000:]}"
        )

    def counts(self) -> dict[tuple[datetime, str], int]:
        """What the view has."""
        try:
            with open_store(self.stage.views or str(self.stage.data)).reader("clicks_per_minute") as reader:
                rows = reader.rows().to_pylist()
        except UnknownView:
            return {}
        return {(row["window_start"], row["page"]): row["count"] for row in rows}

    def _sent(self) -> tuple[list[dict[str, Any]], list[bytes]]:
        values = [value for _, value in self.stage.read("clicks")]
        good = [json.loads(value) for value in values if not value.startswith(b"{{")]
        return good, [value for value in values if value.startswith(b"{{")]


@contextmanager
def life(directory: Path, **how: Any) -> Iterator[Life]:
    made = Life(directory, **how)
    try:
        made.begin()
        yield made
    finally:
        made.end()


def _children(parent: int, is_wanted: Callable[[str], bool]) -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            status = (each / "stat").read_text().rpartition(")")[2].split()
            command = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if int(status[1]) == parent and status[0] != "Z" and is_wanted(command):
            found.append(int(each.name))
    return found


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
