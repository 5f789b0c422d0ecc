"""What the broker counts. Plain numbers on the event loop; `exposition.py` shows them to Prometheus."""

from __future__ import annotations

from collections import Counter


class Counters:
    """All only grow."""

    __slots__ = (
        "answer_bytes",
        "connections",
        "errors",
        "refused_connections",
        "request_bytes",
        "requests",
        "throttled",
    )

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()  # by API key
        self.request_bytes: Counter[int] = Counter()
        self.answer_bytes: Counter[int] = Counter()
        self.connections = 0  # accepted
        self.refused_connections = 0
        self.errors = 0  # connections that were closed because of what they sent, or because a handler failed
        self.throttled = 0  # answers that told a client to wait
