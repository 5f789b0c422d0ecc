"""What a start costs: CPU seconds of a whole run, and the time until a first result can be read; beside plain PySpark.

It needs what `pipeline_counts` needs. Ours is `runnel run`, with Java's archive of Spark's classes made before; the
result is a view in SQLite. The peer is a program of plain PySpark whose result is a topic. Both count per page and
minute and end when they have read everything.
"""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from benchmarks import broker_wire as wire
from benchmarks import pipeline_tree
from benchmarks.broker_environment import ROOT
from benchmarks.broker_servers import wait_until
from benchmarks.broker_turns import say
from benchmarks.harness import Figure, Options, at_most, side_by_side
from benchmarks.pipeline_environment import PEER, Environment
from benchmarks.pipeline_stage import Stage, few_rounds, stage

APP = Path(__file__).with_name("pipeline_app.py")
PEER_PROGRAM = Path(__file__).with_name("pipeline_spark.py")
MANY, FEW = "clicks-many", "clicks-few"
VIEW = "clicks_per_minute"
LIMIT = 300.0


def run(options: Options) -> list[Figure]:
    options = few_rounds(options)
    many, few = options.size(full=1_000_000, quick=10_000), options.size(full=10_000, quick=1_000)
    with stage() as place:
        place.fill(MANY, many)
        place.fill(FEW, few)
        return [
            side_by_side(
                f"CPU of all processes for {many:,} events, start included",
                unit="s",
                against=PEER,
                ours=lambda: _cpu(place, place.ours, _our_command(place, _new(place, "ours")), MANY),
                peer=lambda: _cpu(place, place.peer, _peer_command(place, MANY, _new_topic(place)), MANY),
                target=at_most(0.4),
                options=options,
            ),
            side_by_side(
                f"from the start to the first result, {few:,} events",
                unit="s",
                against=PEER,
                ours=lambda: _our_first_result(place),
                peer=lambda: _peer_first_result(place),
                target=at_most(0.4),
                options=options,
            ),
        ]


def _our_command(place: Stage, data: Path) -> list[str]:
    program = place.ours.python.with_name("runnel")
    kafka = ["--bootstrap", place.broker.bootstrap]
    return [str(program), "run", str(APP), *kafka, "--data", str(data), "--until-caught-up"]


def _peer_command(place: Stage, topic: str, to: str) -> list[str]:
    checkpoint = _new(place, "peer")
    return [str(place.peer.python), str(PEER_PROGRAM), "run", place.broker.bootstrap, str(checkpoint), topic, to]


def _new(place: Stage, side: str) -> Path:
    return place.directory / f"{side}-{uuid4().hex[:8]}"


def _new_topic(place: Stage) -> str:
    topic = f"counts-{uuid4().hex[:8]}"
    place.broker.create_topic(topic, 1)
    return topic


def _cpu(place: Stage, side: Environment, command: list[str], topic: str) -> float:
    log = place.directory / "run.log"
    with log.open("ab") as errors:
        done = subprocess.run(
            [sys.executable, "-m", pipeline_tree.__name__, *command],
            cwd=ROOT,
            env=side.variables | {"CLICKS": topic},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"{side.name} ended with {done.returncode}:\n{log.read_text(errors='replace')[-4000:]}")
    told = json.loads(done.stdout)
    say(f"a whole run, {side.name}: {told['cpu']:.1f} s of CPU in {told['seconds']:.1f} s")
    return float(told["cpu"])


# --- the first result


def _our_first_result(place: Stage) -> float:
    data = _new(place, "ours")
    return _first(place, place.ours, _our_command(place, data), lambda: _has_rows(data / "views.sqlite"))


def _peer_first_result(place: Stage) -> float:
    to = _new_topic(place)
    with place.broker.connect() as connection:

        def has_records() -> bool:
            return sum((wire.end_offsets(connection, to, 1) or {}).values()) > 0

        return _first(place, place.peer, _peer_command(place, FEW, to), has_records)


def _first(place: Stage, side: Environment, command: list[str], is_there: Callable[[], bool]) -> float:
    """The seconds until something can be read; the run goes on to its end."""
    with (place.directory / "run.log").open("ab") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, env=side.variables | {"CLICKS": FEW}, stdout=errors, stderr=errors
        )
        try:
            wait_until(is_there, f"the first result of {side.name}", LIMIT)
            elapsed = time.perf_counter() - begin
        finally:
            process.wait(LIMIT)
    say(f"first result, {side.name}: {elapsed:.1f} s")
    return elapsed


def _has_rows(path: Path) -> bool:
    if not path.exists():
        return False
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        try:
            return connection.execute(f"SELECT count(*) FROM {VIEW}").fetchone()[0] > 0
        except sqlite3.OperationalError:  # the table is not there yet
            return False
