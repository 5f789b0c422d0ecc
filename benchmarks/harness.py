"""Measures Runnel and a peer side by side, and decides whether a target is met.

A benchmark is a module of this package with a function `run`:

    def run(options: Options) -> list[Figure]:
        records = options.size(full=1_000_000, quick=10_000)
        return [
            side_by_side(
                "append, 1 KiB records",
                unit="records/s",
                against="plain file",
                ours=lambda: per_second(records, append_to_log),
                peer=lambda: per_second(records, append_to_file),
                target=at_least(0.5),
                options=options,
            )
        ]

The first line of its docstring is the title of its table. `ours` and `peer` do the same work and return
one number in `unit`; what they need is made before the clock starts. One round calls both, and every
second round calls the peer first, so that a machine that grows warm or busy favours neither.

The ratio of a round is ours / peer. A figure's ratio is the median of its rounds, its spread the smallest
and the largest. A target counts as missed only when the whole spread lies on its wrong side: a single
round that meets it shows that the rest is noise of the machine.
"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROUNDS = 5
RESULTS = Path(__file__).parent / "results"

Measure = Callable[[], float]


@dataclass(frozen=True)
class Options:
    """How a benchmark is run."""

    rounds: int = ROUNDS
    quick: bool = False

    def size(self, *, full: int, quick: int) -> int:
        return quick if self.quick else full


class Direction(StrEnum):
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True)
class Target:
    """The ratio that a figure is to reach (more is better) or to stay under (less is better)."""

    direction: Direction
    ratio: float

    def allows(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.direction is Direction.AT_LEAST else ratio <= self.ratio

    def __str__(self) -> str:
        return f"{self.direction} {self.ratio:g}"


def at_least(ratio: float) -> Target:
    return Target(Direction.AT_LEAST, ratio)


def at_most(ratio: float) -> Target:
    return Target(Direction.AT_MOST, ratio)


class Verdict(StrEnum):
    MET = "met"
    WITHIN_SPREAD = "within spread"
    MISSED = "MISSED"
    NO_TARGET = ""


@dataclass(frozen=True)
class Figure:
    """One line of a table: what both sides measured, round by round."""

    name: str
    unit: str
    against: str
    ours: tuple[float, ...]
    peer: tuple[float, ...]
    target: Target | None = None

    def __post_init__(self) -> None:
        if not self.ours or len(self.ours) != len(self.peer):
            raise ValueError(
                f"figure {self.name!r} has {len(self.ours)} rounds of ours and {len(self.peer)} of the peer;"
                " it needs at least one, and the same number of both"
            )
        if min(*self.ours, *self.peer) <= 0:
            raise ValueError(f"figure {self.name!r} has a measure that is not above 0, so it has no ratio")

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(ours / peer for ours, peer in zip(self.ours, self.peer, strict=True))

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.ratios), max(self.ratios)

    @property
    def verdict(self) -> Verdict:
        if self.target is None:
            return Verdict.NO_TARGET
        if self.target.allows(self.ratio):
            return Verdict.MET
        if any(self.target.allows(ratio) for ratio in self.ratios):
            return Verdict.WITHIN_SPREAD
        return Verdict.MISSED


def side_by_side(
    name: str,
    *,
    unit: str,
    against: str,
    ours: Measure,
    peer: Measure,
    options: Options,
    target: Target | None = None,
) -> Figure:
    """Measures both sides once a round; `against` names the peer."""
    rounds = [measure_round(ours, peer, peer_first=number % 2 == 1) for number in range(options.rounds)]
    our_numbers, peer_numbers = zip(*rounds, strict=True)
    return Figure(name, unit, against, our_numbers, peer_numbers, target)


def measure_round(ours: Measure, peer: Measure, *, peer_first: bool) -> tuple[float, float]:
    if peer_first:
        peer_number = peer()
        return ours(), peer_number
    return ours(), peer()


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def per_second(count: int, action: Callable[[], object]) -> float:
    """The rate of an action that handles `count` things."""
    return count / seconds(action)


def missed(figures: Sequence[Figure]) -> list[Figure]:
    return [figure for figure in figures if figure.verdict is Verdict.MISSED]


def show(title: str, figures: Sequence[Figure], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "against", "unit"):
        table.add_column(heading)
    for heading in ("ours", "peer", "ratio", "spread", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for figure in figures:
        low, high = figure.spread
        table.add_row(
            figure.name,
            figure.against,
            figure.unit,
            readable(statistics.median(figure.ours)),
            readable(statistics.median(figure.peer)),
            f"{figure.ratio:.2f}",
            f"{low:.2f}..{high:.2f}",
            str(figure.target or ""),
            figure.verdict,
            style="red" if figure.verdict is Verdict.MISSED else None,
        )
    console.print(table)


def readable(number: float) -> str:
    """Three significant digits, or the whole number when it has more."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def save(program: str, figures: Sequence[Figure], *, now: datetime, folder: Path = RESULTS) -> Path:
    """Keeps the raw numbers of a run, with the machine they hold for."""
    document = {
        "program": program,
        "date": now.astimezone(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "figures": [as_plain_data(figure) for figure in figures],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{program}.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, str | int | None]:
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def as_plain_data(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "against": figure.against,
        "ours": figure.ours,
        "peer": figure.peer,
        "ratio": figure.ratio,
        "spread": figure.spread,
        "target": str(figure.target) if figure.target else None,
        "verdict": figure.verdict,
    }
