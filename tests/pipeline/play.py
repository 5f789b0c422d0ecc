"""Records of any kind, sent to an app that runs, stops and runs again; and what came of each of them.

A query answers over the records that it took for in time. Those are known here: all that was sent, without what the
query put aside. So a batch query over them must have the same answer.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from runnel import App
from runnel.client import Producer
from runnel.graph.stream import Stream
from runnel.graph.view import View
from tests.pipeline.scene import START, Place, Scene, Told

Row = dict[str, Any]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us"),
}


class Record(NamedTuple):
    """To be sent. A value that is given is sent instead of the row, which it does not hold."""

    topic: str
    row: Row
    value: bytes | None = None
    is_broken: bool = False


@dataclass
class Play:
    scene: Scene
    partitions: int = 1
    sent: dict[Place, Record] = field(default_factory=dict)
    told: dict[str, list[Told]] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)  # how many had been sent, at the end of each run
    _clock: int = 0

    def make(self, topics: Iterable[str]) -> None:
        self.scene.make(*topics, partitions=self.partitions)

    def send(self, records: Iterable[Record], chance: random.Random) -> None:
        """In their order, to partitions by chance. The records' own times are in the order in which they are sent."""
        under_way = []
        with Producer(self.scene.broker.bootstrap) as producer:
            for record in records:
                self._clock += 1
                value = record.value if record.is_broken else as_json(record.row)
                partition = chance.randrange(self.partitions)
                token = producer.submit(record.topic, value, partition=partition, timestamp=START + self._clock)
                under_way.append((token, record, partition))
        for token, record, partition in under_way:
            self.sent[record.topic, partition, token.result().offset] = record

    def run(self, app: App, *, rows: int, **more: Any) -> None:
        """Until all is read, in micro-batches of at most `rows` records."""
        in_small_batches(app, rows)
        for name, told in self.scene.run(app, **more).items():
            self.told.setdefault(name, []).append(told)
        self.ends.append(len(self.sent))

    # --- what came of it

    def rest(self, output: Any) -> dict[str, list[Row]]:
        """By topic, the rows that a query took for in time. In time, late and rejected are all that was sent."""
        topics = list(dict.fromkeys(each.noun.topic for each in output.inputs if not isinstance(each.noun, View)))
        late = self.scene.aside(f"{output.name}.late", output.name)
        rejected = {place for topic in topics for place in self.scene.aside(f"{topic}.rejected", output.name)}
        sent = {place: record for place, record in self.sent.items() if record.topic in topics}
        runs = self.told[output.name]
        assert [sum(run.late for run in runs), sum(run.rejected for run in runs)] == [len(late), len(rejected)]
        assert sum(run.in_time for run in runs) == len(sent) - len(late) - len(rejected)
        assert [run.dropped for run in runs] == [0] * len(runs), "Spark dropped rows that we let pass"
        assert rejected == {place for place, record in sent.items() if record.is_broken}
        return {
            topic: [
                record.row
                for place, record in sent.items()
                if record.topic == topic and place not in late and place not in rejected
            ]
            for topic in topics
        }

    def found(self, output: Any) -> list[Row]:
        """The rows of a view, or the values of a stream."""
        if isinstance(output, View):
            return self.scene.rows(output.name)
        return [{name: read_back(value) for name, value in row.items()} for row in self.scene.values(output.name)]

    def late(self, output: Any) -> int:
        return sum(run.late for run in self.told[output.name])


def in_small_batches(app: App, rows: int) -> None:
    for output in app.graph.outputs:
        for each in output.inputs:
            if isinstance(each.noun, Stream):
                object.__setattr__(each.noun, "reading", replace(each.noun.reading, rows=rows))


class Answer(NamedTuple):
    """Of a batch query. What a stream or a view has of the same columns can be compared with `rows`."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def of(self, found: Iterable[Row]) -> list[tuple[Any, ...]]:
        return in_order([row[name] for name in self.columns] for row in found)


def batch_answer(sql: str, streams: Iterable[Stream], rows: dict[str, list[Row]]) -> Answer:
    """What DuckDB says of them, all at once. Times are without a zone, and mean UTC."""
    with duckdb.connect() as connection:
        for stream in streams:
            schema = pa.schema([(column.name, TYPES[str(column.type)]) for column in stream.columns.fields])
            plain = [{name: without_zone(value) for name, value in row.items()} for row in rows[stream.name]]
            connection.register(stream.name, pa.Table.from_pylist(plain, schema=schema))
        asked = connection.execute(sql)
        return Answer(tuple(column[0] for column in asked.description or ()), in_order(asked.fetchall()))


def in_order(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Comparable: times without a zone, numbers as they are in JSON."""
    return sorted(
        (tuple(comparable(value) for value in row) for row in rows),
        key=lambda row: tuple((value is None, value) for value in row),
    )


def comparable(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return without_zone(value)


def without_zone(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def read_back(value: Any) -> Any:
    """What JSON has no type for."""
    return datetime.fromisoformat(value) if isinstance(value, str) and TIME.fullmatch(value) else value


def as_json(row: Row) -> bytes:
    return json.dumps(row, default=datetime.isoformat).encode()


def broken(row: Row, chance: random.Random) -> bytes | None:
    """A value that fits no query."""
    whole = as_json(row)
    ways: list[Callable[[], bytes | None]] = [
        lambda: b"{" + whole,
        lambda: whole[:-5],
        lambda: b"",
        lambda: b"\xff\xfe" + whole,
        lambda: None,
        lambda: as_json({**row, "at": None}),
        lambda: as_json({name: value for name, value in row.items() if name != "at"}),
    ]
    return ways[int(chance.random() * len(ways))]()
