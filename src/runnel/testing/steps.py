"""A test as steps: each is what an app does in one go, in one batch of each of its queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from runnel.testing.events import PAUSE, Between, Idle, Mistake, Sent


@dataclass(frozen=True)
class Step:
    """Rows that came together, or time that passed; and how it ended."""

    sent: tuple[Sent, ...] = ()
    passed: int = 0  # milliseconds
    end: Between = PAUSE


def steps_of(events: Iterable[object]) -> list[Step]:
    found: list[Step] = []
    rows: list[Sent] = []

    def close(end: Between = PAUSE) -> None:
        if rows:
            found.append(Step(tuple(rows), end=end))
            rows.clear()
        elif end is not PAUSE:
            if found and found[-1].end is PAUSE and found[-1].passed:  # it happens while the time passes
                found[-1] = replace(found[-1], end=end)
            else:
                found.append(Step(end=end))

    for event in events:
        match event:
            case Sent():
                rows.append(event)
            case Idle():
                close()
                found.append(Step(passed=event.milliseconds))
            case Between():
                close(event)
            case _:
                hint = "give rows made with row(), raw() and delete(), idle(), PAUSE, RESTART and CRASH"
                raise Mistake(f"{event!r} cannot be played", hint=hint)
    close()
    return found
