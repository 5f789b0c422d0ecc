"""How far a test is that goes through many rounds, told once a minute: a thousand of them may take hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

Round = TypeVar("Round")

SECONDS_BETWEEN = 60.0


def told(
    rounds: Collection[Round], tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[Round]:
    """The rounds, one by one. What is told before one of them is how many are done, and when the rest will be."""
    started = last = clock()
    for done, each in enumerate(rounds):
        now = clock()
        if now - last >= SECONDS_BETWEEN:
            left = (now - started) / done * (len(rounds) - done)
            tell(f"{done:,} of {len(rounds):,} done, {left / 60:,.0f} minutes left")
            last = now
        yield each
