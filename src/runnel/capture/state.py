"""How far a capture is: records of a compacted topic, `runnel.capture.<name>`, of one partition.

    position             {"connector": "sqlite", "at": {...}, "index": 0, "step": 12}
    table:main.orders    {"state": "reading", "key": [4711], "rows": 4711}
    table:main.clicks    {"state": "complete", "rows": 99, "since": {...}}

They are written in the same Kafka transaction as the records that lead there. `step` counts those transactions, so that
whoever does not know whether the last one was committed can look. A table's `since` is the position from which on its
topic is complete: all rows of a snapshot there, and every change behind it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from runnel.capture.events import Position
from runnel.capture.tables import Row, TableId
from runnel.client.cluster import Cluster
from runnel.client.committed import committed

POSITION = "position"
OF_TABLE = "table:"
BYTES = "base64"  # what stands for bytes in a key that is kept

Progress: TypeAlias = Literal["pending", "reading", "complete"]


@dataclass(frozen=True)
class TableState:
    state: Progress = "pending"
    key: Row | None = None  # of the last row that was read
    rows: int = 0
    since: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        told: dict[str, Any] = {"state": self.state, "rows": self.rows}
        if self.key is not None:
            told["key"] = [_kept(value) for value in self.key]
        if self.since is not None:
            told["since"] = self.since
        return _json(told)

    @classmethod
    def from_json(cls, text: bytes) -> TableState:
        told = json.loads(text)
        key = tuple(_taken(value) for value in told["key"]) if "key" in told else None
        return cls(told["state"], key, told["rows"], told.get("since"))


@dataclass(frozen=True)
class State:
    """`connector` is "" and `position` None before anything was written."""

    connector: str = ""
    position: Position | None = None
    step: int = 0
    tables: Mapping[str, TableState] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every table was read."""
        return self.position is not None and all(table.state == "complete" for table in self.tables.values())

    def table(self, table: TableId) -> TableState:
        return self.tables.get(str(table), TableState())

    def at(self, position: Position) -> State:
        return replace(self, position=position)

    def with_table(self, table: TableId, told: TableState) -> State:
        return replace(self, tables={**self.tables, str(table): told})

    def changes_from(self, before: State) -> Iterator[tuple[str, str]]:
        """The records that lead from one to this; the position is always among them."""
        assert self.position is not None
        told = {"connector": self.connector, "at": self.position.at, "index": self.position.index, "step": self.step}
        yield POSITION, _json(told)
        for name, table in self.tables.items():
            if before.tables.get(name) != table:
                yield f"{OF_TABLE}{name}", table.to_json()


def topic_of(name: str) -> str:
    return f"runnel.capture.{name}"


def read_state(cluster: Cluster, name: str) -> State:
    """What was committed last; for a writer, to be read after the older ones were fenced."""
    topic = topic_of(name)
    if topic not in cluster.all_topics():
        return State()
    told = {key.decode(): value for key, value in committed(cluster, topic) if key is not None}
    return _state(told)


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
    return State(found["connector"], Position(found["at"], found["index"]), found["step"], tables)


def _kept(value: Any) -> Any:
    return {BYTES: b64encode(value).decode()} if isinstance(value, bytes) else value


def _taken(value: Any) -> Any:
    return b64decode(value[BYTES]) if isinstance(value, dict) else value


def _json(told: Mapping[str, Any]) -> str:
    return json.dumps(told, separators=(",", ":"))
