"""How an app is doing, as plain data, at one moment: for the screen, the log, metrics and alerts alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from runnel.counted import counted

RATE_OVER = 10.0  # seconds
UNIT = 1024


def moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def size(count: float) -> str:
    """Bytes, as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < UNIT:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= UNIT
    return f"{count:,.1f} TiB"


class State(StrEnum):
    BEGINS = "begins"
    RUNS = "runs"
    WAITS = "waits"  # for something that passes by itself
    ENDED = "ended"


@dataclass(frozen=True)
class QueryProgress:
    """One query. What is counted is counted since the app was started; times are in seconds, the watermark in
    milliseconds since 1970. `lag` is records behind, by input; None where it is not known. `steps` are those of the
    last batch, `seconds_by_step` those of all. `under_way` is how long the present batch takes already, `age` how
    long ago the last one ended. What Spark remembers for windows and joins is `state_bytes`, and, if Spark counts them,
    `state_rows`; `open_windows` are those that a view shows and that are not closed.
    """

    name: str
    state: State = State.BEGINS
    batches: int = 0
    in_time: int = 0
    late: int = 0
    rejected: int = 0
    gone: int = 0
    rows_per_second: float = 0.0
    lag: Mapping[str, int] | None = None
    has_time: bool = False
    watermark: int | None = None
    open_windows: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    seconds: float | None = None
    steps: Mapping[str, float] = field(default_factory=dict)
    seconds_by_step: Mapping[str, float] = field(default_factory=dict)
    under_way: float | None = None
    age: float | None = None

    @property
    def rows(self) -> int:
        """All that were read."""
        return self.in_time + self.late + self.rejected

    @property
    def behind(self) -> int | None:
        """Records, over all inputs."""
        return None if self.lag is None else sum(self.lag.values())

    def to_object(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "state": str(self.state)}

    def __str__(self) -> str:
        said = [counted(self.batches, "batch", "batches"), counted(self.in_time, "row"), f"{self.late:,} late"]
        said += [f"{self.rejected:,} rejected", *([f"{self.gone:,} gone"] if self.gone else [])]
        said.append(f"{self.rows_per_second:,.0f} rows/s")
        if self.behind is not None:
            said.append(f"{self.behind:,} behind")
        if self.watermark is not None:
            said.append(f"watermark {moment(self.watermark)}")
        if self.open_windows is not None:
            said.append(counted(self.open_windows, "open window"))
        if self.seconds is not None:
            steps = ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.steps.items())
            said.append(f"last batch {self.seconds:.3f} s ({steps})")
        return ", ".join(said)


@dataclass(frozen=True)
class CaptureProgress:
    """One capture: what it does, how many rows of the tables it has read, `percent` of about how many, and by how many
    seconds what it reads of the changes lies back; None where it is not known.
    """

    name: str
    doing: str = "waits for its database"
    rows: int = 0
    percent: float | None = None
    lag: float | None = None

    def __str__(self) -> str:
        said = [f"capture {self.name} {self.doing}", f"{counted(self.rows, 'row')} read"]
        if self.percent is not None and self.percent < 100:
            said.append(f"{self.percent:.0f} %")
        if self.lag is not None:
            said.append(f"{self.lag:,.1f} s behind")
        return ", ".join(said)


@dataclass(frozen=True)
class AppProgress:
    """`time` is in milliseconds since 1970, `running` in seconds. `alerts` are those that are on, in words."""

    app: str
    time: int
    running: float
    queries: tuple[QueryProgress, ...] = ()
    disk_free: int | None = None
    alerts: tuple[str, ...] = ()
    captures: tuple[CaptureProgress, ...] = ()


class Rate:
    """Of something that grows, over the last seconds."""

    def __init__(self, over: float = RATE_OVER) -> None:
        self._over = over
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, now: float, count: int) -> float:
        """A second: since the last look that lies so far back, or the first one."""
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._over:
            self._seen.popleft()
        since, before = self._seen[0]
        return (count - before) / (now - since) if now > since else 0.0
