"""When an alert begins and when it ends, by what is known of the app. Whom to tell is another's: `telling`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from runnel.app.progress import AppProgress, QueryProgress, moment, size
from runnel.counted import counted
from runnel.graph.alert import Alert, AlertRule, Kind

OF_TIME = (Kind.SLOW, Kind.STILL)  # their limits are told in seconds, as their values


class Event(NamedTuple):
    """An alert that begins, or ends. `query` is empty where it is the app's."""

    rule: AlertRule
    app: str
    query: str
    begins: bool
    what: str
    value: float
    time: int

    @property
    def key(self) -> str:
        return ".".join(part for part in (self.app, self.query, self.rule.alert.kind) if part)

    def to_object(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "app": self.app,
            "query": self.query or None,
            "alert": str(self.rule.alert.kind),
            "state": "begins" if self.begins else "ends",
            "what": self.what,
            "value": self.value,
            "limit": self.rule.alert.limit / (1000 if self.rule.alert.kind in OF_TIME else 1),
            "time": datetime.fromtimestamp(self.time / 1000, UTC).isoformat(timespec="milliseconds"),
        }


class Verdict(NamedTuple):
    is_on: bool
    value: float
    what: str


class Alerts:
    """All of an app. To be shown its progress again and again, by one thread."""

    def __init__(self, rules: Iterable[AlertRule]) -> None:
        self._rules = list(rules)
        self._watches: dict[tuple[int, str], Watch] = {}
        self._on: dict[tuple[int, str], str] = {}

    @property
    def active(self) -> tuple[str, ...]:
        """What has begun and not ended, in words."""
        return tuple(dict.fromkeys(self._on.values()))

    def look(self, progress: AppProgress) -> list[Event]:
        """What has begun or ended since the last look."""
        found = []
        for number, rule in enumerate(self._rules):
            for query in (None,) if rule.alert.kind is Kind.DISK else progress.queries:
                if query is None or rule.is_of(query.name):
                    found += self._seen((number, query.name if query else ""), rule, progress, query)
        return found

    def _seen(
        self, key: tuple[int, str], rule: AlertRule, progress: AppProgress, query: QueryProgress | None
    ) -> list[Event]:
        watch = self._watches.setdefault(key, Watch(rule.alert))
        verdict = watch.disk(progress) if query is None else watch.look(query, progress.running)
        if verdict is None or verdict.is_on == (key in self._on):
            return []
        who = key[1] or progress.app
        if verdict.is_on:
            self._on[key] = f"{who}: {verdict.what}"
        else:
            del self._on[key]
        return [Event(rule, progress.app, key[1], verdict.is_on, verdict.what, verdict.value, progress.time)]


class Sample(NamedTuple):
    at: float
    rows: int
    counted: int


class Watch:
    """One alert for one query. None: nothing can be said."""

    def __init__(self, alert: Alert) -> None:
        self._alert = alert
        self._samples: deque[Sample] = deque()
        # When the lag rose above the limit, or the watermark did not move with a batch.
        self._since: float | None = None
        self._watermark: int | None = None
        self._batches = 0  # when the watermark last moved

    def look(self, query: QueryProgress, now: float) -> Verdict | None:
        match self._alert.kind:
            case Kind.LATE:
                return self._share(query, query.late, now)
            case Kind.REJECTED:
                return self._share(query, query.rejected, now)
            case Kind.LAG:
                return self._lag(query, now)
            case Kind.SLOW:
                return self._slow(query)
            case Kind.STILL:
                return self._still(query, now)
        return None

    def disk(self, progress: AppProgress) -> Verdict | None:
        free = progress.disk_free
        if free is None:
            return None
        limit = self._alert.limit
        words = f"the disk of the data directory has {size(free)} free, the limit is {size(limit)}"
        return Verdict(free < limit, free, words)

    def _share(self, query: QueryProgress, counted: int, now: float) -> Verdict:
        span = self._alert.span / 1000
        if not self._samples:
            self._samples.append(Sample(now, 0, 0))  # counts begin with the app
        self._samples.append(Sample(now, query.rows, counted))
        while len(self._samples) > 1 and self._samples[1].at <= now - span:
            self._samples.popleft()
        first = self._samples[0]
        rows, hits = query.rows - first.rows, counted - first.counted
        share = hits / rows if rows else 0.0
        words = (
            f"{hits:,} of the {rows:,} rows of the last {_seconds(span)} were {self._alert.kind} "
            f"({share:.2%}), the limit is {self._alert.limit:.2%}"
        )
        return Verdict(share > self._alert.limit, share, words)

    def _lag(self, query: QueryProgress, now: float) -> Verdict | None:
        behind = query.behind
        if behind is None:
            return None
        if behind <= self._alert.limit:
            self._since = None
        elif self._since is None:
            self._since = now
        lasted = now - self._since if self._since is not None else 0.0
        words = f"{counted(behind, 'record')} behind, the limit is {self._alert.limit:,.0f}"
        return Verdict(self._since is not None and lasted >= self._alert.span / 1000, behind, words)

    def _slow(self, query: QueryProgress) -> Verdict | None:
        limit = self._alert.limit / 1000
        if query.under_way is not None and query.under_way > limit:
            words = f"a batch takes {_seconds(query.under_way)} already, the limit is {_seconds(limit)}"
            return Verdict(True, query.under_way, words)
        if query.seconds is None:
            return None
        words = f"the last batch took {_seconds(query.seconds)}, the limit is {_seconds(limit)}"
        return Verdict(query.seconds > limit, query.seconds, words)

    def _still(self, query: QueryProgress, now: float) -> Verdict | None:
        if not query.has_time or not query.batches:
            return None
        if query.watermark != self._watermark:
            self._watermark, self._batches, self._since = query.watermark, query.batches, None
        if self._since is None and query.batches > self._batches:  # a time without batches does not count
            self._since = now
        stood = 0.0 if self._since is None else now - self._since
        at = (
            "there is no watermark yet" if query.watermark is None else f"the watermark is at {moment(query.watermark)}"
        )
        words = f"{at}, for {_seconds(stood)}; the limit is {_seconds(self._alert.limit / 1000)}"
        return Verdict(stood * 1000 >= self._alert.limit, stood, words)


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.3g} s"  # digits that say something
