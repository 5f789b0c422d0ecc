"""Waiting for what comes by itself. The limit is for a broken test."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 600.0
LOOK_EVERY = 0.1  # as seldom as the machine can bear: to look may cost more than what is waited for


def wait_until(holds: Callable[[], object], what: Callable[[], str] = lambda: "it has come to hold") -> None:
    """`what` should be, in words; asked when it is not."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, f"after {LIMIT:.0f} s still not: {what()}"
        time.sleep(LOOK_EVERY)
