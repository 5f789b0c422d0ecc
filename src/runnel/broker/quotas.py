"""Quotas: how many bytes a second a client may produce and consume, and how long it has to wait when it went beyond.

A rate is measured as Kafka does: bytes are summed in samples of `quota.window.size.seconds`, and the rate is that of
the last `quota.window.num` samples. A client beyond its quota waits for as long as brings its rate back to the quota,
at most until all samples are of the past. What it fetches at once is held to what that is enough for.

Of several quotas that fit a client the most special one counts, in Kafka's order: user and client id, user, client id;
in each a name before the default. Nobody logs in yet, so every user is ANONYMOUS. Clients share the quota of their
user; a quota that speaks of client ids is each client id's own.

Memory is bounded: clients are forgotten when their samples are of the past, and the longest silent first when they are
too many.

This is for one thread: the event loop's.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from math import inf

from runnel.broker.cluster import QuotaEntity
from runnel.broker.configs.settings import BrokerSettings
from runnel.settings import SECOND

PRODUCE = "producer_byte_rate"
CONSUME = "consumer_byte_rate"
ENFORCED = (PRODUCE, CONSUME)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ANONYMOUS = "ANONYMOUS"
MOST_RATES = 20_000

Limits = Mapping[QuotaEntity, Mapping[str, float]]
Key = tuple[str, str | None, str | None]  # what is limited, and whose: a user's, a client id's, or of both


class Quotas:
    def __init__(self, settings: BrokerSettings, limits: Limits, most_rates: int = MOST_RATES) -> None:
        self._sample_ms = settings.quota_window_size_seconds * SECOND
        self._samples = settings.quota_window_num
        self._most_rates = most_rates
        self._rates: OrderedDict[Key, Rate] = OrderedDict()  # the longest silent first
        self._limits: Limits = {}
        self.change(limits)

    def change(self, limits: Limits) -> None:
        """Other quotas are in force from now on."""
        self._limits = {entity: dict(values) for entity, values in limits.items()}
        self.are_set = bool(self._limits)  # whether anybody has a quota
        if not self._limits:
            self._rates.clear()

    def throttle_ms(self, kind: str, client_id: str | None, size: int, now_ms: int) -> int:
        """Count `size` bytes of a client; the answer is how long it has to wait, in milliseconds."""
        if not self._limits:
            return 0
        client = client_id or ""
        found = self._limit(kind, client)
        if found is None:
            return 0
        key, limit = found
        rate = self._rate(key, now_ms)
        rate.add(size, now_ms)
        return rate.wait(limit, now_ms)

    def limit(self, kind: str, client_id: str | None) -> float | None:
        """The quota of a client in bytes a second, if it has one."""
        found = self._limit(kind, client_id or "")
        return None if found is None else found[1]

    def room(self, kind: str, client_id: str | None, now_ms: int) -> float:
        """How many bytes a client can be given now, so that the longest wait is long enough after them. What others
        got under the same quota counts: each of their connections waits by itself.
        """
        found = self._limit(kind, client_id or "")
        if found is None:
            return inf
        key, limit = found
        rate = self._rates.get(key)
        most = limit * (self._samples - 1) * self._sample_ms / SECOND
        return most if rate is None else max(most - rate.total(now_ms), 0)

    @property
    def measured(self) -> int:
        """How many rates are kept in memory."""
        return len(self._rates)

    def _limit(self, kind: str, client: str) -> tuple[Key, float] | None:
        for entity in _fitting(ANONYMOUS, client):
            limit = self._limits.get(entity, {}).get(kind)
            if limit is not None:
                types = dict(entity)
                return (kind, ANONYMOUS if USER in types else None, client if CLIENT_ID in types else None), limit
        return None

    def _rate(self, key: Key, now_ms: int) -> Rate:
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = Rate(self._sample_ms, self._samples)
        self._rates.move_to_end(key)
        self._forget(now_ms)
        return rate

    def _forget(self, now_ms: int) -> None:
        while len(self._rates) > 1:
            oldest, rate = next(iter(self._rates.items()))
            if len(self._rates) <= self._most_rates and not rate.is_past(now_ms):
                return
            del self._rates[oldest]


class Rate:
    """Bytes in samples of equal length."""

    __slots__ = ("_most", "_sample_ms", "_samples", "_total")

    def __init__(self, sample_ms: int, samples: int) -> None:
        self._sample_ms = sample_ms
        self._most = samples
        self._samples: deque[list[int]] = deque()  # when it began, and its bytes
        self._total = 0

    @property
    def window_ms(self) -> int:
        return self._sample_ms * self._most

    def add(self, size: int, now_ms: int) -> None:
        self._drop_past(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._sample_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size
        self._total += size

    def total(self, now_ms: int) -> int:
        self._drop_past(now_ms)
        return self._total

    def per_second(self, now_ms: int) -> float:
        return self.total(now_ms) * SECOND / self._measured_ms(now_ms)

    def wait(self, limit: float, now_ms: int) -> int:
        """How long nothing may come until the rate is at the limit again."""
        excess = self.per_second(now_ms) - limit
        if excess <= 0:
            return 0
        return min(round(excess / limit * self._measured_ms(now_ms)), self.window_ms)

    def is_past(self, now_ms: int) -> bool:
        """Whether nothing of it counts any more."""
        return not self._samples or now_ms - self._samples[-1][0] >= self.window_ms

    def _measured_ms(self, now_ms: int) -> int:
        """Since the oldest sample began. A client that has just come counts as if it had been silent before: otherwise
        the rate of its first request would be endless."""
        since = now_ms - self._samples[0][0] if self._samples else 0
        missing = max(self._most - 1 - since // self._sample_ms, 0)
        return max(since + missing * self._sample_ms, 1)

    def _drop_past(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self.window_ms:
            self._total -= self._samples.popleft()[1]


def entity_of(types: Mapping[str, str | None]) -> QuotaEntity:
    """The one form of an entity, whatever order its parts are given in."""
    return tuple(sorted(types.items()))


def _fitting(user: str, client: str) -> Iterator[QuotaEntity]:
    """The entities that a client belongs to, the most special first."""
    for named_user in (user, None):
        for named_client in (client, None):
            yield ((CLIENT_ID, named_client), (USER, named_user))
        yield ((USER, named_user),)
    yield ((CLIENT_ID, client),)
    yield ((CLIENT_ID, None),)
