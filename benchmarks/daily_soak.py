"""Ten minutes of an app at 500 rows a second: how the memory of all its processes grows.

It needs Java 17. `runnel broker start` and `runnel run` run as users start them: a view with windows, and a derived
stream. The memory of the broker, the driver, Java and the Python workers is looked at every five seconds. A slope is
that of the line that fits the last eight minutes best; one that falls counts as 0.001. The broker's memory of the
newest batches, which has a limit, is filled before, with another topic. In the end every row must be in the view.
RUNNEL_BENCH_SOAK names another number of seconds, of which the last eight tenths count.
"""

import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker_environment import ROOT
from benchmarks.broker_servers import wait_until
from benchmarks.broker_turns import say
from benchmarks.daily_memory import ROLES, WORKERS, Size, by_role, name_of, per_minute, sizes
from benchmarks.harness import Figure, Options, at_most
from benchmarks.pipeline_events import PARTITIONS
from benchmarks.pipeline_load import Load
from benchmarks.pipeline_stage import OurStage, our_stage

APP = Path(__file__).with_name("daily_app.py")
TOPIC, VIEW = "clicks", "clicks_per_minute"
SECONDS = "RUNNEL_BENCH_SOAK"
RATE = 500  # rows a second
FILLING = 1_000_000  # events, 85 MB
LOOK_EVERY = 5.0
TELL_EVERY = 6  # looks
COUNTED = 0.8  # of the time
LEAST = 0.001  # megabytes a minute: a figure has to be above 0
LIMIT = 120.0
ALL = "all processes"

Look = tuple[float, list[Size]]
"""Seconds since the beginning, and what there was."""


def run(options: Options) -> list[Figure]:
    seconds = 30 if options.quick else int(os.environ.get(SECONDS, "600"))
    with our_stage() as place:
        place.fill("before", options.size(full=FILLING, quick=1_000))
        place.broker.create_topic(TOPIC, PARTITIONS)
        looks = _soak(place, seconds)
    return figures(looks, seconds)


def figures(looks: list[Look], seconds: float) -> list[Figure]:
    counted = [(at, _sums(found)) for at, found in _counted(looks, seconds)]
    first, last = counted[0][1], counted[-1][1]
    minutes = f"the last {COUNTED * seconds / 60:.3g} minutes"
    slopes = {name: per_minute([(at, found[name]) for at, found in counted]) for name in (ALL, *ROLES)}
    return [
        *(
            Figure(
                f"{name}: growth of memory over {minutes}",
                "MB/min",
                "1 MB a minute",
                (max(slope, LEAST),),
                (1.0,),
                at_most(1) if name == ALL else None,
            )
            for name, slope in slopes.items()
        ),
        *(
            Figure(
                f"{name}: memory in the end",
                "MB",
                f"before {minutes}",
                (max(last[name], LEAST),),
                (max(first[name], LEAST),),
            )
            for name in (ALL, *ROLES)
        ),
    ]


def _counted(looks: list[Look], seconds: float) -> list[Look]:
    return [(at, found) for at, found in looks if at >= (1 - COUNTED) * seconds]


def _sums(found: list[Size]) -> dict[str, float]:
    sums = by_role(found)
    return {**sums, ALL: sum(sums.values())}


def _soak(place: OurStage, seconds: float) -> list[Look]:
    with _app(place) as app:
        views = place.directory / "app" / "views.sqlite"
        sending = Load(place.broker.bootstrap, TOPIC, RATE, seconds)
        end = threading.Event()
        thread = threading.Thread(target=sending.send, args=(end,))
        say(f"{seconds:.0f} s at {RATE} rows a second")
        thread.start()
        try:
            looks = _watched(place, app, views, seconds)
        finally:
            end.set()
            thread.join()
        _tell_processes(_counted(looks, seconds))
        sent = sum(at > 0 for at in sending.sent)
        wait_until(lambda: _rows(views) == sent, f"all {sent:,} rows in the view", LIMIT)
        say(f"all {sent:,} rows are in the view")
        return looks


def _watched(place: OurStage, app: subprocess.Popen[bytes], views: Path, seconds: float) -> list[Look]:
    begin = time.monotonic()
    looks: list[Look] = []
    while (at := time.monotonic() - begin) <= seconds:
        if app.poll() is not None:
            raise RuntimeError(
                f"the app ended with {app.returncode}:\n{_log(place).read_text(errors='replace')[-4000:]}"
            )
        looks.append((at, sizes(place.broker.pid, app.pid)))
        if len(looks) % TELL_EVERY == 1:
            _tell(looks, views)
        time.sleep(max(begin + len(looks) * LOOK_EVERY - time.monotonic(), 0))
    return looks


def _tell(looks: list[Look], views: Path) -> None:
    at, found = looks[-1]
    parts = ", ".join(f"{name} {size:.1f}" for name, size in _sums(found).items())
    say(f"{at:.0f} s: MB: {parts}; {_rows(views):,} rows in the view")


def _tell_processes(looks: list[Look]) -> None:
    """The growth of each that was there all the time."""
    for last in looks[-1][1]:
        seen = [(at, each.megabytes) for at, found in looks for each in found if each.pid == last.pid]
        if len(seen) == len(looks):
            name = name_of(last.pid) if last.role == WORKERS else ""
            say(f"{last.role} {name} ({last.pid}): {last.megabytes:.1f} MB, {per_minute(seen):+.2f} MB/min")


def _rows(views: Path) -> int:
    """Rows that the view knows of."""
    if not views.exists():
        return 0
    connection = sqlite3.connect(f"file:{views}?mode=ro", uri=True)
    try:
        return int(connection.execute(f'SELECT coalesce(sum("count"), 0) FROM {VIEW}').fetchone()[0])
    except sqlite3.OperationalError:  # the table is not there yet
        return 0
    finally:
        connection.close()


def _log(place: OurStage) -> Path:
    return place.directory / "app.log"


@contextmanager
def _app(place: OurStage) -> Iterator[subprocess.Popen[bytes]]:
    """Running when the block begins, and ended with it."""
    program = place.ours.python.with_name("runnel")
    where = ["--bootstrap", place.broker.bootstrap, "--data", str(place.directory / "app")]
    with _log(place).open("wb") as log:
        process = subprocess.Popen(
            [str(program), "run", str(APP), *where],
            cwd=ROOT,
            env=place.ours.variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
