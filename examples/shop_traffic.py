"""What happens in the shop: clicks, orders and payments, from a seed, at a steady rate.

One record in a hundred is broken: cut off in its middle. Of those that are sent live, one in fifty is a straggler, made
five minutes before it is sent, which is later than the shop allows. One order in twenty is paid after three minutes,
which is too late to count, and one in twenty never.
"""

from __future__ import annotations

import heapq
import json
import random
import threading
from collections import Counter
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

from runnel.client import Producer, Token

CLICKS, ORDERS, PAYMENTS = "clicks", "orders", "payments"
PARTITIONS = {CLICKS: 4, ORDERS: 2, PAYMENTS: 2}
PAGES = ("home", "tea", "coffee", "basket", "help")
PRODUCTS = ("tea", "coffee", "cups")
CUSTOMERS = 200
CLICKS_OF_AN_ORDER = 8
BROKEN = 0.01
STRAGGLERS = 0.02
STRAGGLES = timedelta(minutes=5)
SLOW = timedelta(minutes=3)
HISTORY = timedelta(minutes=20)
PAUSE = 0.02  # seconds between two live clicks


class Traffic:
    """`sent` counts the records of each topic."""

    def __init__(self, bootstrap: str, seed: int = 11) -> None:
        self._producer = Producer(bootstrap)
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._live: threading.Thread | None = None
        self._orders = 0
        self._to_pay: list[tuple[datetime, int]] = []
        self._last: dict[tuple[str, int], Future[Token]] = {}
        self.sent: Counter[str] = Counter()

    def send_history(self, clicks: int) -> None:
        """Of the last twenty minutes, in their order."""
        now = datetime.now(UTC)
        for number in range(clicks):
            self._happen(now - HISTORY + HISTORY * number / clicks)
        self._producer.flush()

    def start(self) -> None:
        """Live, until `finish`."""
        self._live = threading.Thread(target=self._go_on, name="traffic", daemon=True)
        self._live.start()

    def finish(self) -> list[Token]:
        """Where the last record of each partition is."""
        self._stop.set()
        if self._live is not None:
            self._live.join()
        self._producer.flush()
        return [last.result() for last in self._last.values()]

    def _go_on(self) -> None:
        while not self._stop.wait(PAUSE):
            self._happen(datetime.now(UTC), is_live=True)

    def _happen(self, now: datetime, *, is_live: bool = False) -> None:
        """A click, now and then an order, and the payments that are due."""
        customer = self._chance.randrange(CUSTOMERS)
        click = {"page": self._chance.choice(PAGES), "customer_id": customer, "seconds": self._chance.randrange(60)}
        self._send(CLICKS, click | {"at": self._time(now, is_live)})
        if self.sent[CLICKS] % CLICKS_OF_AN_ORDER == 0:
            self._order(customer, now, is_live)
        while self._to_pay and self._to_pay[0][0] <= now:
            _, number = heapq.heappop(self._to_pay)
            self._send(PAYMENTS, {"order_id": number, "paid_at": self._time(now, is_live)})

    def _order(self, customer: int, now: datetime, is_live: bool) -> None:
        self._orders += 1
        order = {"order_id": self._orders, "customer_id": customer, "product": self._chance.choice(PRODUCTS)}
        order |= {"cents": self._chance.randrange(100, 5_000), "ordered_at": self._time(now, is_live)}
        self._send(ORDERS, order)
        fate = self._chance.randrange(20)
        if fate:
            wait = SLOW if fate == 1 else timedelta(seconds=self._chance.uniform(1, 20))
            heapq.heappush(self._to_pay, (now + wait, self._orders))

    def _time(self, now: datetime, is_live: bool) -> str:
        straggles = is_live and self._chance.random() < STRAGGLERS
        return (now - STRAGGLES if straggles else now).isoformat()

    def _send(self, topic: str, row: dict[str, Any]) -> None:
        value = json.dumps(row).encode()
        if self._chance.random() < BROKEN:
            value = value[: len(value) // 2]
        partition = self.sent[topic] % PARTITIONS[topic]
        self._last[topic, partition] = self._producer.submit(topic, value, partition=partition)
        self.sent[topic] += 1
