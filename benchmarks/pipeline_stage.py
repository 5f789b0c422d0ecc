"""What the pipeline's benchmarks share: a broker of ours, sessions on it, ours or both sides', and checked jobs."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import pipeline_environment as environments
from benchmarks.broker_servers import Runnel, Running, running
from benchmarks.broker_turns import say
from benchmarks.harness import Options
from benchmarks.pipeline_environment import Environment
from benchmarks.pipeline_events import Kind, fill
from benchmarks.pipeline_sessions import OURS, PEER, Session, session

ROUNDS = "RUNNEL_BENCH_ROUNDS"
SIZES = "RUNNEL_BENCH_EVENTS"


@dataclass(frozen=True)
class OurStage:
    """Our environment, a broker, and a directory for what is kept."""

    broker: Running
    directory: Path
    ours: Environment

    def fill(self, topic: str, count: int, kind: Kind = Kind.CLEAN) -> None:
        say(f"writing {count:,} events ({kind}) into {topic}")
        fill(self.broker, topic, count, kind)

    @contextmanager
    def session(self, name: str = "ours") -> Iterator[Session]:
        say("starting a session")
        with session(self.ours, OURS, self.broker.bootstrap, self.directory / name) as ours:
            yield ours


@dataclass(frozen=True)
class Stage(OurStage):
    """With the peer's environment."""

    peer: Environment

    @contextmanager
    def sessions(self) -> Iterator[tuple[Session, Session]]:
        """Ours and the peer's. An idle one takes next to nothing from the one that is measured."""
        say("starting a session of both")
        bootstrap = self.broker.bootstrap
        with (
            session(self.ours, OURS, bootstrap, self.directory / "ours") as ours,
            session(self.peer, PEER, bootstrap, self.directory / "peer") as peer,
        ):
            yield ours, peer


@contextmanager
def stage() -> Iterator[Stage]:
    peer = environments.peer()
    with our_stage() as place:
        yield Stage(place.broker, place.directory, place.ours, peer)


@contextmanager
def our_stage() -> Iterator[OurStage]:
    # As after Ctrl-C: without it broker and sessions would outlive a benchmark that was told to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    ours = environments.ours()
    with tempfile.TemporaryDirectory(prefix="runnel-bench-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        with running(Runnel(place / "broker", ours.python.with_name("runnel"))) as broker:
            yield OurStage(broker, place, ours)


def few_rounds(options: Options) -> Options:
    """A round takes minutes, not seconds: three of them unless the environment variable names another number."""
    return replace(options, rounds=min(options.rounds, int(os.environ.get(ROUNDS, "3"))))


def sizes(options: Options) -> list[int]:
    """How many events: 5 million unless the environment variable names others."""
    if options.quick:
        return [20_000]
    return [int(each) for each in os.environ.get(SIZES, "5000000").split(",")]


def rate(side: Session, job: str, count: int, *, rejected: int = 0, **given: object) -> float:
    """Rows a second of a job that has to read `count` rows, and to count all but the rejected ones."""
    told = side.do(job, **given)
    _check(side, job, told, count, rejected)
    rows = count / float(told["seconds"])
    say(f"{job}, {count:,} rows, {side.name}: {rows:,.0f} rows/s")
    return rows


def _check(side: Session, job: str, told: dict[str, Any], count: int, rejected: int) -> None:
    counted = told.get("counted")
    wrong = told["rows"] != count or told.get("rejected", rejected) != rejected
    if wrong or counted not in (None, count - rejected):
        raise RuntimeError(f"{side.name} has {told} of {job}; there are {count:,} rows, {rejected:,} of them broken")
