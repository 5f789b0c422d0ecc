r"""Events that an application writes into a table, in the transaction of what they tell of, sent where they say.

    Outbox(r"public\.outbox")

The layout is that of Debezium's outbox: a row has an `id`, an `aggregatetype`, which names the topic, an `aggregateid`,
which is the record's key, a `type` and a `payload`, which is the record's value, as it is. The record's header `id` is
the event's, `eventType` its type; readers that see an id twice know the event.

An inserted row is sent, and so is one that is there when the tables are read at one position; rows that are read beside
the changes are not, because the changes may have sent them. An application may delete it at once: a deleted row means
nothing. An update means nothing either, and is said once to the log: an event that was sent is sent.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from runnel.capture.errors import InvalidChoice, TableMissing
from runnel.capture.events import Change
from runnel.capture.forms import quoted
from runnel.capture.names import REJECTED, can_be_topic
from runnel.capture.outgoing import Headers, Outgoing, topic_part
from runnel.capture.selection import Selected, Selection, compiled
from runnel.capture.source import Source
from runnel.capture.tables import Absent, Column, Row, TableId

logger = logging.getLogger(__name__)

INCREMENTAL: Final = "incremental"  # of a row that was read beside the changes, which may have sent it
ROUTED: Final = "${routedByValue}"
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
LAST_TIME: Final = 2**63 - 1  # of a record, in milliseconds
MILLIS: Final = {"io.debezium.time.MicroTimestamp": 1_000, "io.debezium.time.NanoTimestamp": 1_000_000}
ZONED: Final = "io.debezium.time.ZonedTimestamp"


class Placed(NamedTuple):
    """Where another column goes: into a header, or into the value, which is an object with `payload` in it then."""

    column: str
    place: Literal["header", "envelope"]
    name: str


EVENT_TYPE: Final = Placed("type", "header", "eventType")


@dataclass(frozen=True)
class OutboxColumns:
    """The names of the columns. A record's time is the commit's, unless `timestamp` names a column that has it."""

    id: str = "id"
    route: str = "aggregatetype"
    key: str = "aggregateid"
    payload: str = "payload"
    timestamp: str | None = None


@dataclass(frozen=True)
class Outbox:
    """`table` is an expression as `Selection` has them. With `expand`, a payload that is JSON stands as such in a value
    with more than the payload. With `tombstones`, an empty payload is a record without a value.
    """

    table: str
    columns: OutboxColumns = field(default_factory=OutboxColumns)
    placed: Sequence[Placed] = (EVENT_TYPE,)
    topic: str = f"outbox.event.{ROUTED}"
    expand: bool = False
    tombstones: bool = False

    def __post_init__(self) -> None:
        if ROUTED not in self.topic:
            raise InvalidChoice("topic of the outbox", self.topic, f"{ROUTED} is not part of it")


class Router:
    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._pattern = compiled("table", outbox.table)
        self._said: set[str] = set()

    def has(self, table: TableId) -> bool:
        return bool(self._pattern.fullmatch(str(table)))

    def of(self, selected: Selected, topic: str) -> Routing | None:
        """For a table that is an outbox; `topic` is the one that it would have otherwise."""
        return Routing(self, selected, topic) if self.has(selected.table.id) else None

    def say_once(self, what: str, *values: object) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.warning(what, *values)


class Routing:
    """An outbox as its columns are now."""

    def __init__(self, router: Router, selected: Selected, topic: str) -> None:
        self._router = router
        self._outbox = outbox = router.outbox
        self._passes = selected.passes
        self._topic = topic
        self._name = str(selected.table.id)
        cells = {column.name: (place, column) for place, column in (*selected.key, *selected.columns)}
        columns = outbox.columns
        self._id, self._route, self._key, self._payload = (
            _cell(cells, name, self._name) for name in (columns.id, columns.route, columns.key, columns.payload)
        )
        self._time = None if columns.timestamp is None else _cell(cells, columns.timestamp, self._name)
        self._headers, self._inside = (
            [(each.name, _cell(cells, each.column, self._name)) for each in outbox.placed if each.place == place]
            for place in ("header", "envelope")
        )

    def route(self, change: Change, out: Outgoing, snapshot: str) -> None:
        if change.op == "u":
            self._router.say_once(
                "a row of outbox %s was updated: that sends nothing; insert another event instead", self._name
            )
        if change.op not in ("c", "r") or change.after is None or snapshot == INCREMENTAL:
            return
        if self._passes is None or self._passes(change.after):
            self._send(change.after, change.micros, out)

    # --- inside

    def _send(self, row: Row, micros: int, out: Outgoing) -> None:
        headers = self._headers_of(row)
        key, value, time = _raw(self._key, row), self._value(row), self._millis(row, micros)
        route = _text(self._route, row)
        topic = self._outbox.topic.replace(ROUTED, topic_part(route or ""))
        if route and can_be_topic(topic):
            out.add(topic, key, value, time, headers, "outbox")
            return
        fault = "makes no name of a topic" if route else "is empty"
        reason = f"its {self._outbox.columns.route} {fault}: there is no topic to send it to"
        told = (("runnel.topic", self._topic), ("runnel.reason", reason))
        out.add(f"{self._topic}{REJECTED}", key, value, time, (*headers, *told), "rejected")

    def _headers_of(self, row: Row) -> Headers:
        found = [("id", _text(self._id, row)), *((name, _text(cell, row)) for name, cell in self._headers)]
        return tuple((name, text) for name, text in found if text is not None)

    def _value(self, row: Row) -> str | bytes | None:
        payload = _raw(self._payload, row)
        if self._outbox.tombstones and payload is not None and not payload.strip():
            payload = None
        if not self._inside:
            return payload
        inside = "".join(f",{quoted(name)}:{_json(cell, row)}" for name, cell in self._inside)
        return f'{{"payload":{self._inner(payload)}{inside}}}'

    def _inner(self, payload: str | bytes | None) -> str:
        if payload is None:
            return "null"
        if isinstance(payload, bytes):
            return quoted(b64encode(payload).decode())
        if self._outbox.expand and self._is_json(payload):
            return payload
        return quoted(payload)

    def _is_json(self, payload: str) -> bool:
        try:
            json.loads(payload)
        except (ValueError, RecursionError) as error:
            self._router.say_once("a payload of outbox %s is no JSON, and was sent as text: %s", self._name, str(error))
            return False
        return True

    def _millis(self, row: Row, micros: int) -> int:
        text = None if self._time is None else _text(self._time, row)
        if text is None or self._time is None:
            return micros // 1000
        name = self._time[1].form.schema.get("name", "")
        try:
            is_zoned = name == ZONED
            found = round(datetime.fromisoformat(text).timestamp() * 1000) if is_zoned else _number(text, name)
            if not 0 <= found <= LAST_TIME:
                raise ValueError(text)
            return found
        except ValueError:
            self._router.say_once("a time of outbox %s is none, and the commit's was taken: %s", self._name, text)
            return micros // 1000


def _number(text: str, name: str) -> int:
    return int(text) // MILLIS.get(name, 1)


def _cell(cells: Mapping[str, tuple[int, Column]], name: str, table: str) -> tuple[int, Column]:
    if name not in cells:
        raise InvalidChoice("column of the outbox", name, f"table {table} sends {', '.join(sorted(cells))}")
    return cells[name]


def _json(cell: tuple[int, Column], row: Row) -> str:
    place, column = cell
    value = row[place]
    return "null" if value is None or isinstance(value, Absent) else column.form.write(value)


def _raw(cell: tuple[int, Column], row: Row) -> str | bytes | None:
    """A value by itself: text without quotes, bytes as bytes."""
    place, column = cell
    value: Any = row[place]
    if value is None or isinstance(value, Absent):
        return None
    if isinstance(value, bytes):
        return value
    schema = column.form.schema
    if schema.get("name") == DECIMAL:
        return str(value)
    written = column.form.write(value)
    if not written.startswith('"'):
        return written
    text: str = json.loads(written)
    is_bytes = schema["type"] == "bytes" and text != value  # SQLite may have text where bytes are expected
    return b64decode(text) if is_bytes else text


def _text(cell: tuple[int, Column], row: Row) -> str | None:
    found = _raw(cell, row)
    return b64encode(found).decode() if isinstance(found, bytes) else found


def check(outbox: Outbox, source: Source, selection: Selection) -> None:
    """That it is there, and has what it needs; said before anything is written."""
    router = Router(outbox)
    chosen = [table for table in source.tables() if router.has(table)]
    if not chosen:
        raise TableMissing(outbox.table, source.database, [str(table) for table in source.known()])
    for table in chosen:
        router.of(selection.of(source.table(table)), "")
