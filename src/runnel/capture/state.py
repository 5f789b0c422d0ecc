r"""How far a capture is: records of a compacted topic, `runnel.capture.<name>`, of one partition.

    position             {"connector": "sqlite", "at": {...}, "index": 0, "step": 12, "written": 1763360407000000}
    signals              {"offset": 3, "paused": false}
    asked                [{"tables": "main\\.orders", "added": true}]
    topics               {"prefix": "shop"}
    table:main.orders    {"state": "reading", "key": [4711], "rows": 4711}
    table:main.items     {"state": "reading", "by": "chunks", "key": [9], "columns": ["id int64"], "rows": 9}
    table:main.clicks    {"state": "complete", "rows": 99, "since": {...}, "number": 16385}

They are written in the same Kafka transaction as the records that lead there. `step` counts those transactions, so that
whoever does not know whether the last one was committed can look. `written` is when that was, in microseconds since
1970; `committed` beside it is when the last transaction of the database was that was told, and `late` how many
microseconds later it was written. A table's `since` is the position from which on its
topic is complete: all rows of a snapshot there, and every change behind it.
`asked` are the tables that were added and removed while it ran.
Now and then all of them are written again, and the position says that it is `whole`: what is before it says nothing any
more. So a state is found near the topic's end. Kafka keeps what was written for days before it compacts the topic.
A table's `number` is the database's own: another table of the same name has another one.

A table is `pending` before its first row is read, `reading`, and then `complete`. One of which some rows were read and
no more, because that was stopped or because of a filter, is `partial`; its changes are told all the same.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from runnel.capture.choice import Asked, as_data
from runnel.capture.events import Position
from runnel.capture.lag import PACE_SECONDS, SECOND, Pace, pace_of
from runnel.capture.tables import Row, TableId
from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.committed import committed_between
from runnel.client.metadata import Place

POSITION = "position"
KEY = POSITION.encode()
SIGNALS = "signals"
ASKED = "asked"
TOPICS = "topics"
OF_TABLE = "table:"
BYTES = "base64"  # what stands for bytes in a key that is kept
CHUNKS = "chunks"
WHOLE = "whole"
WHOLE_STEPS = 200  # from one that is whole to the next
BACK = (1_000, 10_000)  # offsets from the end at which it is looked for, before all are read

Progress: TypeAlias = Literal["pending", "reading", "complete", "partial"]
Kept: TypeAlias = tuple[int, bytes | None, bytes | None]  # a record: its offset, key and value


@dataclass(frozen=True)
class TableState:
    """`columns` are those of the key by which chunks are read, with their types: a key of others says nothing of them.
    `about` is how many rows there were, about, when it began to be read. `number` is `Table.number`.
    `is_gone` says that the end of one that is to be read by chunks was told: they will find whether another is there.
    `is_again` says that it is to be emptied and read once more when it is through: rows went without a word.
    """

    state: Progress = "pending"
    key: Row | None = None  # of the last row that was read
    rows: int = 0
    since: Mapping[str, Any] | None = None
    by_chunks: bool = False
    columns: tuple[str, ...] = ()
    where: str | None = None
    about: int | None = None
    number: int | None = None
    is_gone: bool = False
    is_again: bool = False

    @property
    def is_left(self) -> bool:
        """Whether there is something left to be read of it."""
        return self.state in ("pending", "reading")

    @property
    def percent(self) -> float | None:
        """How much of it was read, about; None where nobody knows."""
        if not self.is_left:
            return 100.0 if self.state == "complete" else None
        return round(min(100.0, 100.0 * self.rows / self.about), 1) if self.about else None

    def to_json(self) -> str:
        told: dict[str, Any] = {"state": self.state, "rows": self.rows}
        if self.key is not None:
            told["key"] = [_kept(value) for value in self.key]
        if self.by_chunks:
            told["by"] = CHUNKS
        if self.columns:
            told["columns"] = self.columns
        if self.is_gone:
            told["gone"] = True
        if self.is_again:
            told["again"] = True
        optional = {"since": self.since, "where": self.where, "about": self.about, "number": self.number}
        return _json(told | {name: value for name, value in optional.items() if value is not None})

    @classmethod
    def from_json(cls, text: bytes) -> TableState:
        told = json.loads(text)
        return cls(
            told["state"],
            tuple(_taken(value) for value in told["key"]) if "key" in told else None,
            told["rows"],
            told.get("since"),
            told.get("by") == CHUNKS,
            tuple(told.get("columns", ())),
            told.get("where"),
            told.get("about"),
            told.get("number"),
            told.get("gone", False),
            told.get("again", False),
        )


@dataclass(frozen=True)
class State:
    """`connector` is "" and `position` None before anything was written. `signals` is the offset behind the last signal
    that took effect; `is_paused` says that no chunks are to be read. `asked` is what a `Choice` has beside what was
    chosen at the start. `written`, `committed`, `late`, and the `prefix` of the topics, are for people, 0 and "" where
    they are not known.
    """

    connector: str = ""
    position: Position | None = None
    step: int = 0
    tables: Mapping[str, TableState] = field(default_factory=dict)
    signals: int = 0
    is_paused: bool = False
    asked: tuple[Asked, ...] = ()
    prefix: str = field(default="", compare=False)
    written: int = field(default=0, compare=False)
    committed: int = field(default=0, compare=False)
    late: int = field(default=0, compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be read of any table."""
        return self.position is not None and not any(table.is_left for table in self.tables.values())

    @property
    def needs_snapshot(self) -> bool:
        """Whether a table is left that is read at one position, and not by chunks."""
        return any(table.is_left and not table.by_chunks for table in self.tables.values())

    @property
    def follows_changes(self) -> bool:
        """Whether nothing is left to be read before the changes are."""
        return self.position is not None and not self.needs_snapshot

    @property
    def is_between(self) -> bool:
        """Whether the position is between two transactions, and not inside of one."""
        return self.position is not None and not self.position.index

    def table(self, table: TableId) -> TableState:
        return self.tables.get(str(table), TableState())

    def at(self, position: Position) -> State:
        return replace(self, position=position)

    def with_table(self, table: TableId | str, told: TableState) -> State:
        """A number that is not said stays."""
        before = self.tables.get(str(table))
        if before is not None and told.number is None and before.number is not None:
            told = replace(told, number=before.number)
        return replace(self, tables={**self.tables, str(table): told})

    def without(self, table: TableId | str) -> State:
        """As if it had never been captured: if it comes back, it is read again."""
        return replace(self, tables={name: told for name, told in self.tables.items() if name != str(table)})

    def changes_from(self, before: State, *, is_whole: bool = False) -> Iterator[tuple[str, str | None]]:
        """The records that lead from one to this; the position is always the first of them. If it `is_whole`, they lead
        here from anywhere.
        """
        assert self.position is not None
        told = {"connector": self.connector, "at": self.position.at, "index": self.position.index, "step": self.step}
        times = {"written": self.written, "committed": self.committed, "late": self.late}
        told |= {WHOLE: True} if is_whole else {}
        yield POSITION, _json(told | {name: micros for name, micros in times.items() if micros})
        left = [name for name in before.tables if name not in self.tables]
        before = State() if is_whole else before
        if (self.signals, self.is_paused) != (before.signals, before.is_paused):
            yield SIGNALS, _json({"offset": self.signals, "paused": self.is_paused})
        if self.asked != before.asked:
            yield ASKED, _json(as_data(self.asked))
        if self.prefix != before.prefix:
            yield TOPICS, _json({"prefix": self.prefix})
        for name, table in self.tables.items():
            if before.tables.get(name) != table:
                yield f"{OF_TABLE}{name}", table.to_json()
        for name in left:
            yield f"{OF_TABLE}{name}", None


def topic_of(name: str) -> str:
    return f"runnel.capture.{name}"


def read_state(cluster: Cluster, name: str) -> State:
    """What was committed last; for a writer, to be read after the older ones were fenced."""
    return _state(dict(_records(cluster, name)))


def read_with_pace(cluster: Cluster, name: str) -> tuple[State, Pace]:
    """And how fast rows of tables were read, by the last minute before it was written. The topic tells as long as its
    records of that time are not compacted.
    """
    told: dict[str, bytes | None] = {}
    rows: dict[str, int] = {}
    seen: list[tuple[float, int]] = []  # when, in seconds, and how many rows were read by then
    for key, value in _records(cluster, name, PACE_SECONDS):
        told[key] = value
        if key.startswith(OF_TABLE):
            rows[key] = 0 if value is None else json.loads(value)["rows"]
            seen[-1:] = [(when, sum(rows.values())) for when, _ in seen[-1:]]  # the position was written before it
        elif key == POSITION and value is not None:
            seen.append((json.loads(value).get("written", 0) / SECOND, sum(rows.values())))
    return _state(told), pace_of([each for each in seen if each[0] >= seen[-1][0] - PACE_SECONDS])


def _records(cluster: Cluster, name: str, seconds: float = 0.0) -> Iterator[tuple[str, bytes | None]]:
    """Those from which the state follows: from a position on that is whole, at least so many seconds before the last
    one, or all.
    """
    topic = topic_of(name)
    if topic in cluster.all_topics():
        place = cluster.topic(topic, fresh=True).places[0]
        first, end = positions.earliest(cluster, [place])[place], positions.latest(cluster, [place])[place]
        for _, key, value in _near_the_end(cluster, place, first, end, seconds):
            if key is not None:
                yield key.decode(), value


def _near_the_end(cluster: Cluster, place: Place, first: int, end: int, seconds: float) -> Iterable[Kept]:
    for start in (end - back for back in BACK if end - back > first):
        found = list(committed_between(cluster, place, start, end))
        told = [(row, json.loads(value)) for row, (_, key, value) in enumerate(found) if value and key == KEY]
        latest = told[-1][1].get("written", 0) - seconds * SECOND if told else 0
        whole = [row for row, each in told if each.get(WHOLE) and each.get("written", 0) <= latest]
        if whole:
            return found[whole[-1] :]
    return committed_between(cluster, place, first, end)


def _state(told: Mapping[str, bytes | None]) -> State:
    position = told.get(POSITION)
    if position is None:
        return State()
    tables = {
        key.removeprefix(OF_TABLE): TableState.from_json(value)
        for key, value in told.items()
        if key.startswith(OF_TABLE) and value is not None
    }
    found = json.loads(position)
    signals = json.loads(told.get(SIGNALS) or '{"offset":0,"paused":false}')
    at = Position(found["at"], found["index"])
    times = {name: found.get(name, 0) for name in ("written", "committed", "late")}
    asked = tuple(Asked(each["tables"], each["added"]) for each in json.loads(told.get(ASKED) or "[]"))
    prefix = json.loads(told.get(TOPICS) or '{"prefix":""}')["prefix"]
    return State(
        found["connector"], at, found["step"], tables, signals["offset"], signals["paused"], asked, prefix, **times
    )


def _kept(value: Any) -> Any:
    return {BYTES: b64encode(value).decode()} if isinstance(value, bytes) else value


def _taken(value: Any) -> Any:
    return b64decode(value[BYTES]) if isinstance(value, dict) else value


def _json(told: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(told, separators=(",", ":"))
