"""Views as a program reads them, without Spark and without a JVM.

    counts = runnel.views(".runnel")["clicks_per_minute"]
    counts.get(page="p1", window=("2026-01-01T12:00Z", "2026-01-01T12:01Z"))
    counts.where(("count", ">=", 10), page="p1").order_by("-count").limit(5).pandas()
    for step in counts.watch(): ...

Each call sees the view at one moment, and whole batches. Threads can share a view.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from runnel.forking import OwnLock
from runnel.views import arguments
from runnel.views.addresses import shown
from runnel.views.errors import InvalidFilter, UnknownView
from runnel.views.filters import EQUAL
from runnel.views.layout import END, START
from runnel.views.opening import open_store
from runnel.views.outputs import Known
from runnel.views.store import Condition, Order, Store, ViewReader, Where
from runnel.views.waiting import Waiting, Written, wait
from runnel.views.watching import INTERVAL, Position, Watch

TIMEOUT = 30.0  # seconds
AT_ONCE = 1_000  # rows of an iteration that are made into dicts together


class Views(Mapping[str, "View"]):
    """The views of a store, by name: `address` is a data directory, sqlite:PATH or postgresql://...

    Nothing is reached before a view is asked for. `bootstrap` is the Kafka of the apps, for `wait_for` through derived
    streams; `settings` are librdkafka's, for the connection to it.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        bootstrap: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        path = arguments.path(address)
        self._store = open_store(path)
        self._address = shown(path)
        self._outputs = Known(self._store, bootstrap, arguments.settings(settings))
        self._lock = OwnLock()
        self._open: dict[str, View] = {}

    def __getitem__(self, name: str) -> View:
        if not isinstance(name, str) or not name or not name.isprintable():  # which no database need be asked for
            raise UnknownView(self._address, name, list(self))
        with self._lock:
            if name not in self._open:
                self._open[name] = View(self._store, name, self._outputs)
            return self._open[name]

    def __contains__(self, name: object) -> bool:
        return name in self._store.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.names())

    def __len__(self) -> int:
        return len(self._store.names())

    def __repr__(self) -> str:
        return f"<views {', '.join(self) or f'none yet in {self._address}'}>"

    def close(self) -> None:
        """Let go of connections. A view that is read again makes another one."""
        with self._lock:
            for view in self._open.values():
                view.close()
        self._outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Connected:
    """A reader that threads share, one at a time."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self._reader = store.reader(name)
        self._lock = OwnLock()
        self._end = weakref.finalize(self, self._reader.close)

    def __enter__(self) -> ViewReader:
        self._lock.acquire()
        return self._reader

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@dataclass(frozen=True)
class Chosen:
    where: Where = ()
    order: Order = ()
    limit: int | None = None


class Selection:
    """Rows of a view: those that fit, in an order, so many at most. It is read when it is asked for them."""

    def __init__(self, source: Connected, chosen: Chosen) -> None:
        self._source = source
        self._chosen = chosen

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell its rows apart."""
        with self._source as reader:
            return reader.key()

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types; a window is two, `NAME_start` and `NAME_end`."""
        with self._source as reader:
            return reader.schema()

    def where(self, /, *conditions: tuple[str, str, Any], **equal: Any) -> Selection:
        """The rows for which all of this holds as well: `where(("count", ">=", 10), page="p1")`."""
        found = [_condition(self.name, each) for each in conditions]
        found += [Condition(column, EQUAL, value) for column, value in self._columns(equal).items()]
        return self._with(where=(*self._chosen.where, *found))

    def order_by(self, *columns: str) -> Selection:
        """In the order of these columns; one with `-` before its name counts down. Rows without a value come last."""
        return self._with(order=columns)

    def limit(self, rows: int) -> Selection:
        """No more than so many, the first ones."""
        if not _is_count(rows):
            raise InvalidFilter(self.name, f"a limit of {rows} rows", hint="give a whole number, 0 or more")
        return self._with(limit=int(rows))

    def arrow(self) -> pa.Table:
        with self._source as reader:
            return reader.rows(self._chosen.where, order=self._chosen.order, limit=self._chosen.limit)

    def pandas(self) -> Any:
        """A DataFrame."""
        return self.arrow().to_pandas()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.arrow().to_batches(max_chunksize=AT_ONCE):
            yield from batch.to_pylist()

    def __len__(self) -> int:
        with self._source as reader:
            count = reader.count(self._chosen.where)
        return count if self._chosen.limit is None else min(count, self._chosen.limit)

    def __bool__(self) -> bool:
        return True  # with or without rows

    def watch(
        self, from_position: str | None = None, *, timeout: float | None = None, interval: float = INTERVAL
    ) -> Watch:
        """First what is there, then every change, until it is stopped or nothing has changed for `timeout` seconds. Or
        every change since a position. It looks every `interval` seconds.
        """
        if self._chosen.order or self._chosen.limit is not None:
            hint = "watch the view, or what where() chooses of it"
            raise InvalidFilter(self.name, "what is ordered or limited cannot be watched", hint=hint)
        store, name = self._source.store, self.name
        return Watch(
            lambda: store.reader(name),
            name,
            where=self._chosen.where,
            from_position=from_position,
            timeout=None if timeout is None else arguments.timeout(name, timeout),
            interval=arguments.interval(name, interval),
        )

    def _with(self, **changed: Any) -> Selection:
        return Selection(self._source, replace(self._chosen, **changed))

    def _columns(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """With a window, given as its start and its end, as the two columns that it is."""
        columns = self.schema.names
        found: dict[str, Any] = {}
        for name, value in given.items():
            both = [f"{name}_{part}" for part in (START, END)]
            if name not in columns and set(both) <= set(columns):
                found |= zip(both, _start_and_end(self.name, name, value), strict=True)
            else:
                found[name] = value
        return found


class View(Selection):
    """A view, as it is now whenever it is asked."""

    def __init__(self, store: Store, name: str, outputs: Known) -> None:
        super().__init__(Connected(store, name), Chosen())
        self._outputs = outputs

    def get(self, /, **key: Any) -> dict[str, Any] | None:
        """The row of a key, None if there is none. A window is given as `window=(start, end)`, or by its columns."""
        columns = self._columns(key)
        with self._source as reader:
            return reader.get(columns)

    def position(self) -> str:
        """Where the changes go on from now: what `watch` takes, to be told only what is new."""
        with self._source as reader:
            progress = reader.progress()
        return str(Position(progress.next_position, progress.log))

    def changed(self) -> int | None:
        """When a batch last changed something, in milliseconds since 1970; None if that was long ago, or never."""
        with self._source as reader:
            return reader.progress().changed

    def wait_for(self, *tokens: Written, timeout: float = TIMEOUT) -> None:
        """Wait until the view has seen these records, which are known by their tokens: what `produce` returns. NotSeen,
        with how far it is, after `timeout` seconds.

        Through a derived stream only if it is known where Kafka is: `runnel.views(..., bootstrap="HOST:PORT")`.
        """
        seconds = arguments.timeout(self.name, timeout)
        waiting = Waiting(self.name, [arguments.token(self.name, each) for each in tokens], self._outputs)
        wait(self.name, waiting, self._read, seconds, hint=self._outputs.hint)

    def close(self) -> None:
        with self._source as reader:
            reader.close()

    def __repr__(self) -> str:
        return f"<view {self.name}>"

    def _read(self) -> Mapping[str, Mapping[str, int]] | None:
        with self._source as reader:
            marker = reader.marker()
        return marker.positions if marker else None


def _condition(view: str, given: object) -> Condition:
    if not isinstance(given, tuple | list) or len(given) != 3:
        hint = 'give a column, an operator and a value: where(("count", ">=", 10))'
        raise InvalidFilter(view, f"{given!r} is no condition", hint=hint)
    column, operator, value = given
    if isinstance(value, Iterator):  # which gives its values once, and they are asked for again and again
        value = list(value)
    return Condition(column, operator, value)


def _is_count(given: object) -> bool:
    """Of numpy's numbers, too."""
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= 0


def _start_and_end(view: str, name: str, value: object) -> tuple[Any, Any]:
    if isinstance(value, Mapping) and set(value) == {START, END}:  # as Spark's rows have it
        return value[START], value[END]
    if not isinstance(value, tuple | list) or len(value) != 2:
        hint = f"give its start and its end: {name}=(start, end)"
        raise InvalidFilter(view, f"{value!r} is no window", hint=hint)
    return value[0], value[1]
