"""Clicks of a shop: whoever makes them, and the answers that must come of them, in plain Python.

One click in a hundred is broken: cut off in its middle. Of those that are sent live, one in fifty is a straggler, made
five minutes before it is sent, which is later than the shop allows.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from runnel.client import Producer

TOPIC = "clicks"
PARTITIONS = 4
PAGES = ("home", "tea", "coffee", "basket", "help")
CUSTOMERS = 200
BROKEN = 0.01
STRAGGLERS = 0.02
STRAGGLES = timedelta(minutes=5)
HISTORY = timedelta(minutes=20)
LONG = 50  # seconds
PAUSE = 0.02  # between two live clicks


class Place(NamedTuple):
    """Of a record of the topic."""

    partition: int
    offset: int


class Clicks:
    """Makes them; `sent` counts."""

    def __init__(self, bootstrap: str, seed: int = 11) -> None:
        self._producer = Producer(bootstrap)
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._live: threading.Thread | None = None
        self.sent = 0

    def send_history(self, count: int) -> None:
        """Of the last twenty minutes, in their order."""
        now = datetime.now(UTC)
        for number in range(count):
            self._send(now - HISTORY + HISTORY * number / count)
        self._producer.flush()

    def start(self) -> None:
        """Live ones, until `finish`."""
        self._live = threading.Thread(target=self._go_on, name="clicks", daemon=True)
        self._live.start()

    def finish(self) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.join()
        self._producer.flush()

    def _go_on(self) -> None:
        while not self._stop.is_set():
            straggles = self._chance.random() < STRAGGLERS
            self._send(datetime.now(UTC) - (STRAGGLES if straggles else timedelta()))
            time.sleep(PAUSE)

    def _send(self, at: datetime) -> None:
        click = {
            "page": self._chance.choice(PAGES),
            "customer_id": self._chance.randrange(CUSTOMERS),
            "seconds": self._chance.randrange(60),
            "at": at.isoformat(),
        }
        value = json.dumps(click).encode()
        if self._chance.random() < BROKEN:
            value = value[: len(value) // 2]
        self._producer.submit(TOPIC, value, partition=self.sent % PARTITIONS)
        self.sent += 1


class Answer(NamedTuple):
    """What views and streams must hold."""

    counts: Counter[tuple[str, str]]
    """By the minute and the page."""
    stays: Counter[tuple[int, str, int]]


def answer(values: Iterable[bytes]) -> Answer:
    """Of clicks that are whole, and in time."""
    counts: Counter[tuple[str, str]] = Counter()
    stays: Counter[tuple[int, str, int]] = Counter()
    for value in values:
        click = json.loads(value)
        counts[minute(datetime.fromisoformat(click["at"])), click["page"]] += 1
        if click["seconds"] > LONG:
            stays[click["customer_id"], click["page"], click["seconds"]] += 1
    return Answer(counts, stays)


def is_whole(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
