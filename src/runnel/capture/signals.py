"""What people ask of a capture that runs, as records of the topic `runnel.capture.<name>.signals`, of one partition.

Debezium's signals: the key is the capture's name, the value is JSON.

    {"type": "execute-snapshot", "data": {"data-collections": ["main.orders"], "type": "incremental",
        "additional-conditions": [{"data-collection": "main.orders", "filter": "id > 10"}]}}
    {"type": "stop-snapshot", "data": {"data-collections": ["main.orders"]}}       all, where none are named
    {"type": "pause-snapshot"}
    {"type": "resume-snapshot"}

And our own, by which tables are captured that were not before, or not any more:

    {"type": "add-tables", "data": {"data-collections": ["main.orders"]}}
    {"type": "remove-tables", "data": {"data-collections": ["main.orders"]}}

Tables are named by expressions for whole names, as `Selection` has them. What becomes of a signal is a change of the
capture's state, and the offset behind it is part of that state: each takes effect once, in its order. Those that add or
remove tables wait until the capture is between two transactions, and those behind them wait with them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from runnel.capture.choice import Asked
from runnel.capture.errors import BrokenSignal, InvalidChoice, NoKey, TableMissing
from runnel.capture.incremental import stopped, to_be_read
from runnel.capture.names import SIGNALS
from runnel.capture.selection import Selection
from runnel.capture.state import State, TableState, topic_of
from runnel.capture.tables import Table, TableId
from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.committed import committed_between

logger = logging.getLogger(__name__)

CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
INCREMENTAL: Final = "incremental"


class Received(NamedTuple):
    """A record, and the offset behind it."""

    key: bytes | None
    value: bytes | None
    end: int


@dataclass(frozen=True)
class Execute:
    """Read these tables by chunks; of some of them only the rows that a condition holds for."""

    tables: tuple[str, ...]
    filters: tuple[tuple[str, str], ...] = ()

    def where(self, table: TableId) -> str | None:
        return next((where for expression, where in self.filters if _fits([expression], table)), None)


@dataclass(frozen=True)
class Stop:
    """Read no more of these tables; of all, where none are named."""

    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pause:
    is_paused: bool


@dataclass(frozen=True)
class Choose:
    """Capture these tables from now on, or no more."""

    tables: tuple[str, ...]
    is_added: bool

    def fits(self, table: TableId) -> bool:
        return _fits(self.tables, table)

    @property
    def words(self) -> list[Asked]:
        return [Asked(each, self.is_added) for each in self.tables]


Signal: TypeAlias = Execute | Stop | Pause | Choose


def signals_topic(name: str) -> str:
    return f"{topic_of(name)}{SIGNALS}"


class Signals:
    """The topic, read from an offset on."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.topic = signals_topic(name)
        self._cluster = cluster

    def behind(self, offset: int) -> tuple[Sequence[Received], int]:
        """The records from an offset on, and the offset behind them."""
        place = self.topic, 0
        end = positions.latest(self._cluster, [place])[place]
        if end == offset:
            return (), offset
        start = positions.earliest(self._cluster, [place])[place]
        if end < offset:  # somebody has made the topic anew: what is in it was not seen
            offset = start
        found = committed_between(self._cluster, place, max(start, offset), end)
        return [Received(key, value, number + 1) for number, key, value in found], end


def parse(key: bytes | None, value: bytes | None, name: str) -> Signal:
    if key != name.encode():
        raise BrokenSignal(f"its key is {_shown(key)}, and this capture is {name!r}")
    try:
        told = json.loads(value or b"")
    except (ValueError, RecursionError):
        raise BrokenSignal(f"{_shown(value)} is no JSON") from None
    if not isinstance(told, dict):
        raise BrokenSignal(f"{_shown(value)} is no object")
    kind, data = told.get("type"), told.get("data") or {}
    if not isinstance(kind, str) or kind not in KINDS:
        raise BrokenSignal(f"its type is {kind!r}: expected {', '.join(KINDS)}")
    if not isinstance(data, dict):
        raise BrokenSignal(f"its data is {data!r}, and no object")
    return KINDS[kind](data)


def heeded(
    records: Iterable[Received],
    name: str,
    state: State,
    tables: Sequence[TableId],
    table: Callable[[TableId], Table],
) -> State:
    """The state that these signals lead to, none of which adds or removes tables; `tables` are those that are captured.
    One that is broken is told of, and passed over.
    """
    for record in records:
        try:
            state = _after(parse(*record[:2], name), state, tables, table)
        except (BrokenSignal, InvalidChoice) as error:
            logger.error("capture %s passes over a signal: %s", name, error)
    return state


def ask_for(records: Iterable[Received], name: str, tables: Sequence[TableId]) -> bool:
    """Whether a signal asks for one of these tables to be read."""
    for record in records:
        with suppress(BrokenSignal, InvalidChoice):
            signal = parse(*record[:2], name)
            if isinstance(signal, Execute) and any(_fits(signal.tables, each) for each in tables):
                return True
    return False


def until_choice(records: Sequence[Received], name: str) -> tuple[Sequence[Received], Choose | None]:
    """The records before the first one that adds or removes tables, and what that one asks for."""
    for place, record in enumerate(records):
        with suppress(BrokenSignal, InvalidChoice):
            signal = parse(*record[:2], name)
            if isinstance(signal, Choose):
                return records[:place], signal
    return records, None


# --- inside


def _after(signal: Signal, state: State, tables: Sequence[TableId], table: Callable[[TableId], Table]) -> State:
    if isinstance(signal, Pause):
        return replace(state, is_paused=signal.is_paused)
    if isinstance(signal, Stop):
        return _stopped(signal, state)
    assert isinstance(signal, Execute)  # the others are heeded between transactions
    found = [each for each in tables if _fits(signal.tables, each)]
    if not found:
        raise BrokenSignal(f"no captured table is called {', '.join(signal.tables)}")
    for each in found:
        try:
            key = table(each).key
        except TableMissing as error:  # it was there when they were listed
            logger.warning("the snapshot of %s is left out: %s", each, error)
            continue
        if not key:
            logger.error("the snapshot of %s is left out: %s", each, NoKey(str(each)))
            continue
        told = state.tables.get(str(each))
        state = state.with_table(each, to_be_read(told, _either(told, signal.where(each))))
    return state


def _either(told: TableState | None, where: str | None) -> str | None:
    """What is left of an earlier reading is not forgotten: the rows of both are read."""
    if told is None or not told.is_left or told.where == where:
        return where
    return None if told.where is None or where is None else f"({told.where}\n) OR ({where}\n)"


def _stopped(signal: Stop, state: State) -> State:
    for name, told in state.tables.items():
        if told.by_chunks and told.is_left and (not signal.tables or _fits(signal.tables, _id(name))):
            state = state.with_table(name, stopped(told))
    return state


def _fits(expressions: Sequence[str], table: TableId) -> bool:
    return Selection(tables=expressions).has(table)


def _id(name: str) -> TableId:
    """Of a table by its whole name; a dot in the schema does no harm here."""
    return TableId(*name.split(".", 1))


def _execute(data: Mapping[str, Any]) -> Signal:
    _refuse_other_kinds(data)
    tables = _named(data)
    conditions = data.get("additional-conditions") or []
    if not isinstance(conditions, list) or not all(isinstance(each, dict) for each in conditions):
        raise BrokenSignal("its additional-conditions are no list of objects")
    return Execute(tables, tuple((_text(each, "data-collection"), _text(each, "filter")) for each in conditions))


def _choose(data: Mapping[str, Any], *, is_added: bool) -> Signal:
    return Choose(_named(data), is_added)


def _named(data: Mapping[str, Any]) -> tuple[str, ...]:
    tables = _texts(data.get("data-collections"), "data-collections")
    if not tables:
        raise BrokenSignal("it names no data-collections")
    return tables


def _stop(data: Mapping[str, Any]) -> Signal:
    _refuse_other_kinds(data)
    return Stop(_texts(data.get("data-collections"), "data-collections"))


def _refuse_other_kinds(data: Mapping[str, Any]) -> None:
    kind = data.get("type") or INCREMENTAL
    if not isinstance(kind, str) or kind.lower() != INCREMENTAL:
        raise BrokenSignal(f"its snapshot is of type {kind!r}: expected {INCREMENTAL}")


def _texts(found: Any, what: str) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BrokenSignal(f"its {what} are no list of texts")
    for each in found:
        _fits([each], TableId("", ""))  # raises if it is no expression
    return tuple(found)


def _text(found: Mapping[str, Any], what: str) -> str:
    text = found.get(what)
    if not isinstance(text, str):
        raise BrokenSignal(f"a condition has no {what}")
    return text


def _shown(text: bytes | None) -> str:
    return "empty" if text is None else repr(text[:100].decode("utf-8", "replace"))


KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], Signal]]] = {
    "execute-snapshot": _execute,
    "stop-snapshot": _stop,
    "pause-snapshot": lambda _: Pause(True),
    "resume-snapshot": lambda _: Pause(False),
    "add-tables": partial(_choose, is_added=True),
    "remove-tables": partial(_choose, is_added=False),
}
