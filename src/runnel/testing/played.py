"""What each output of an app held when a test had been played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from runnel.app.app import App
from runnel.client import positions
from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.fetch import Fetcher
from runnel.graph.derived import Derived
from runnel.graph.formats import Columns
from runnel.graph.view import View
from runnel.pipeline.source.values import arrow_schema, parser
from runnel.testing.events import Mistake
from runnel.views.opening import open_store

COLUMNS = ("key", "value", "timestamp", "headers")
PLACES = ("runnel.offset", "runnel.timestamp")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Written(NamedTuple):
    """A record as it is on its topic."""

    key: bytes | None
    value: bytes | None
    time: datetime
    headers: dict[str, bytes | None]


class Rejected(NamedTuple):
    """A record that did not fit, and why."""

    value: bytes | None
    reason: str


@dataclass(frozen=True, eq=False)
class Played:
    """By the names of views, streams and topics; what the app declares will do for its name.

    Two are equal if their outputs told the same, in the same order; when they did, and at which offsets, is not asked.
    """

    views: Mapping[str, list[dict[str, Any]]]
    topics: Mapping[str, list[Written]]
    columns: Mapping[str, Columns]  # of the values of topics

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Played) and self._told() == other._told()

    __hash__ = None  # type: ignore[assignment]

    def view(self, view: View | str) -> list[dict[str, Any]]:
        """Its rows, in the order of their keys."""
        return self.views[_known(_name(view), self.views, "the app has no view {}")]

    def stream(self, stream: Derived | str) -> list[dict[str, Any] | None]:
        """What was written to it, in that order, with the types that the function returned. None: a delete."""
        name = _name(stream)
        written = [each for each in self.topics if each in self.columns]
        return self._rows(self.topics[_known(name, written, "the app derives no stream {}")], name)

    def records(self, topic: Derived | str) -> list[Written]:
        """The records of a topic that the app writes, `<name>.late` and `<topic>.rejected` among them."""
        return self.topics[_known(_name(topic), self.topics, "the app writes no topic {}")]

    def late(self, output: Derived | View | str) -> list[dict[str, Any]]:
        """The rows that were late for this output, as the app declares them."""
        sides = {each.removesuffix(".late") for each in self.topics if each.endswith(".late")}
        found = []
        for record in self.topics[f"{_known(_name(output), sides, 'no row can be late for {}')}.late"]:
            topic = record.headers["runnel.topic"]
            assert topic is not None
            found += [each for each in self._rows([record], topic.decode()) if each is not None]
        return found

    def rejected(self, topic: Any) -> list[Rejected]:
        """The records of a stream or a table that did not fit; each once, whoever read it."""
        sides = {each.removesuffix(".rejected") for each in self.topics if each.endswith(".rejected")}
        name = _known(_name(topic), sides, "the app does not read {}")
        found: dict[tuple[bytes | None, ...], Rejected] = {}
        for record in self.topics[f"{name}.rejected"]:
            told = record.headers
            place = tuple(told[f"runnel.{part}"] for part in ("topic", "partition", "offset"))
            reason = told["runnel.reason"] or b""
            found.setdefault(place, Rejected(record.value, reason.decode()))
        return list(found.values())

    def _told(self) -> tuple[Mapping[str, list[Any]], Mapping[str, list[Any]]]:
        return self.views, {topic: [_without_place(each) for each in records] for topic, records in self.topics.items()}

    def _rows(self, records: list[Written], topic: str) -> list[dict[str, Any] | None]:
        columns = self.columns[topic]
        parsed = parser(columns.format, arrow_schema(columns.fields)).parse(
            pa.array([record.value for record in records], pa.binary())
        )
        rows: list[dict[str, Any] | None] = [None] * len(records)
        for place, row in zip(parsed.indices(), parsed.rows.to_pylist(), strict=True):
            rows[int(place)] = row
        return rows


def differences(one: Played, other: Played) -> list[str]:
    """What only one of the two told, output by output, for people."""
    told = [_by_output(each) for each in (one, other)]
    found = []
    for output in sorted({*told[0], *told[1]}):
        left, right = (each.get(output, []) for each in told)
        if left == right:
            continue
        sides = [("left", left, right), ("right", right, left)]
        alone = [f"  only on the {side}: {each}" for side, own, others in sides for each in own if each not in others]
        found += [f"{output}:", *(alone or ["  the same in another order, or not as often"])]
    return found


def _by_output(played: Played) -> dict[str, list[Any]]:
    views, topics = played._told()
    return {f"view {name}": rows for name, rows in views.items()} | {
        f"topic {name}": records for name, records in topics.items()
    }


def read(app: App, bootstrap: str, data: Path, columns: Mapping[str, Columns]) -> Played:
    """`columns` are those of the values of topics that the app reads and writes."""
    outputs = app.graph.outputs
    views = {output.name: _view(data, output.name) for output in outputs if isinstance(output, View)}
    wanted = {output.topic for output in outputs if isinstance(output, Derived)}
    wanted |= {f"{output.name}.late" for output in outputs}
    wanted |= {f"{each.noun.name}.rejected" for output in outputs for each in output.inputs}
    with Cluster(bootstrap) as cluster:
        topics = {name: _records(cluster, name) for name in cluster.all_topics() if name in wanted}
    return Played(views, topics, columns)


def _view(data: Path, name: str) -> list[dict[str, Any]]:
    with open_store(str(data)).reader(name) as reader:
        rows: list[dict[str, Any]] = reader.rows().to_pylist()
    return rows


def _records(cluster: Cluster, topic: str) -> list[Written]:
    """All that are committed, in their order."""
    places = cluster.topic(topic, fresh=True).places
    starts, ends = positions.earliest(cluster, places), positions.latest(cluster, places)
    found: list[Written] = []
    for name, partition in places:
        place = name, partition
        for fetched in Fetcher(cluster).read(name, partition, starts[place], ends[place]):
            origin = Origin(name, partition, fetched.start, fetched.end)
            batches = [each for part in fetched.parts for each in each_batch(part)]
            for block in decode(batches, COLUMNS, origin):
                found += map(_written, block.to_pylist())
    return found


def _written(record: dict[str, Any]) -> Written:
    headers = {header["key"]: header["value"] for header in record["headers"] or ()}
    return Written(record["key"], record["value"], EPOCH + timedelta(milliseconds=record["timestamp"]), headers)


def _without_place(record: Written) -> tuple[object, ...]:
    headers = {name: value for name, value in record.headers.items() if name not in PLACES}
    return record.key, record.value, headers


def _name(noun: Any) -> str:
    return noun if isinstance(noun, str) else str(noun.name)


def _known(name: str, known: Iterable[str], what: str) -> str:
    if name not in known:
        raise Mistake(what.format(name), hint=f"but {', '.join(sorted(known)) or 'nothing else'}")
    return name
