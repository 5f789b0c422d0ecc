"""Ports of servers that are started later, or again, at an address that is known before.

The system gives none of these to a socket that asks for any port, as each connection does: one that was free when it
was chosen stays free until its server takes it, and also while that is started again and its clients try to reach it.
"""

from __future__ import annotations

import itertools
import random
import socket
from pathlib import Path

HOST = "127.0.0.1"
LOWEST = 10_000
GIVEN_BY_THE_SYSTEM = Path("/proc/sys/net/ipv4/ip_local_port_range")

_turns = itertools.count(random.SystemRandom().randrange(LOWEST))


def free_port() -> int:
    """Another one each time, until all had their turn."""
    low, high = LOWEST, _first_given()
    for turn in _turns:
        port = low + turn % (high - low)
        try:
            with socket.create_server((HOST, port)):
                return port
        except OSError:
            continue
    raise AssertionError("the turns never end")


def _first_given() -> int:
    try:
        return max(int(GIVEN_BY_THE_SYSTEM.read_text().split()[0]), 2 * LOWEST)
    except OSError:
        return 32_768  # where there is no such file; macOS begins at 49,152
