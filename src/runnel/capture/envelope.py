"""Debezium's envelope: what a change of a row looks like as records of a topic.

    topic  <prefix>.<schema>.<table>
    key    {"id": 7}
    value  {"before": ..., "after": ..., "source": {...}, "transaction": ..., "op": "u", "ts_ms": ..., ...}

A delete is followed by a tombstone: the key without a value, at which compaction drops the key. An update that changes
the key is a delete of the old one, its tombstone, and a create of the new one; headers tell of the other key. A
truncated table has an event without a key. With `schemas`, keys and values carry Kafka Connect's schema beside them.
Rows of an outbox table are no changes: they are sent where they say (see `outbox`).

The JSON is joined of texts that are made once for each table. A record's time is that of the commit.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from runnel.capture.choice import Choice
from runnel.capture.connect_schemas import Schema, field, fields, struct, wrapped
from runnel.capture.events import Came, Change, Gone, Message, Truncated
from runnel.capture.forms import quoted
from runnel.capture.lag import Lag
from runnel.capture.outbox import Outbox, Router
from runnel.capture.outgoing import Headers, Outgoing, topic_of_table
from runnel.capture.schema_changes import Read, SchemaChanges
from runnel.capture.selection import Selected, Selection
from runnel.capture.source import Source
from runnel.capture.tables import UNCHANGED, UNKNOWN, Column, Row, Table, TableId
from runnel.version import __version__

logger = logging.getLogger(__name__)

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"
SNAPSHOT_WORDS: Final = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
STREAMING: Final = "false"
NULL: Final = "null"

Block: TypeAlias = Callable[[str], str]  # the transaction block of the next event of a table


def no_block(table: str) -> str:  # noqa: ARG001
    return NULL


class Shape:
    """A table's own texts: made once, used for every row of it."""

    def __init__(self, selected: Selected, topic: str, envelope: Envelope) -> None:
        self.table = selected.table
        self.name = str(selected.table.id)
        self.topic = topic
        self.passes = selected.passes
        self.routing = envelope.router.of(selected, topic) if envelope.router is not None else None
        self.is_new = envelope.schema_changes is not None  # its definition may be to be told
        self.selected = selected
        self.row = _writer(selected.columns)
        self.key = _writer(selected.key) if selected.key else None
        key_schema = struct(fields(selected.key), f"{topic}.Key")
        self.key_start, self.key_end = wrapped(key_schema) if envelope.schemas else ("", "")
        value_schema = envelope.value_schema(topic, fields(selected.columns))
        self.start, self.end = wrapped(value_schema) if envelope.schemas else ("", "")
        self.source_middle, self.source_end = envelope.source_pieces(selected.table.id)
        self.source_start = ""  # of the source block, up to what is each change's own; of this commit and this word:
        self.source_micros, self.source_snapshot = -1, ""

    def key_of(self, row: Row) -> str | None:
        return None if self.key is None else f"{self.key_start}{self.key(row)}{self.key_end}"


class Envelope:
    def __init__(
        self,
        prefix: str,
        source: Source,
        selection: Selection,
        *,
        choice: Choice | None = None,
        schemas: bool = False,
        tombstones: bool = True,
        outbox: Outbox | None = None,
        schema_changes: bool = False,
    ) -> None:
        """`choice` is the source's, of this selection; None: tables are neither added nor removed while it runs.
        `schema_changes` asks for the topic of the tables' definitions, which is called as the prefix."""
        self.prefix = prefix
        self.schemas = schemas
        self._tombstones = tombstones
        self._selection = selection
        self.choice = choice or Choice(selection)
        self._connector = source.connector
        self._database = quoted(source.database)
        self._has_schemas = source.has_schemas
        self._own_fields = [dict(each) for each in source.fields]
        told = [
            f'"version":{quoted(__version__)}',
            f'"connector":{quoted(source.connector)}',
            f'"name":{quoted(prefix)}',
        ]
        self._source_start = f'{{{",".join(told)},"ts_ms":'
        self._shapes: dict[TableId, Shape] = {}
        self.lag = Lag()
        self.router = Router(outbox) if outbox is not None else None
        self.schema_changes = (
            SchemaChanges(prefix, source, self._source_schema() if schemas else None) if schema_changes else None
        )

    def has(self, table: str) -> bool:
        """Whether a table, as `schema.table`, is chosen."""
        return self.choice.has(TableId(*table.split(".", 1)))

    def check(self, table: Table) -> Sequence[str]:
        """InvalidChoice, if what was chosen of it is not there. The answer is the columns of its records' keys."""
        return [column.name for _, column in Shape(self._selection.of(table), self.topic(table.id), self).selected.key]

    def recall(self, read: Read) -> None:
        """Know again what a former life has told of tables; `read` gives the committed records of a topic."""
        self._shapes.clear()
        if self.schema_changes is not None:
            self.schema_changes.recall(read)

    # --- what becomes of an event

    def change(
        self, change: Change, out: Outgoing, now: int, block: Block = no_block, snapshot: str = STREAMING
    ) -> None:
        """`now` is the present time in microseconds."""
        shape = self.shape(change.table)
        if shape.is_new:
            self.introduce(change.table, change.micros, change.source, out, now, snapshot)
        if shape.routing is not None:
            shape.routing.route(change, out, snapshot)
            return
        op: str = change.op
        before, after = change.before, change.after
        if shape.passes is not None:
            passing = _filtered(shape.selected, shape.passes, change)
            if passing is None:
                return
            op, before, after = passing
        source = self._source(shape, change.micros, change.source, snapshot)
        time = change.micros // 1000
        if op == "u" and before is not None and after is not None:
            old, new = shape.key_of(self._known_key(shape, before, after)), shape.key_of(after)
            if old != new:
                self._move(shape, (before, after), (old, new), (source, time, now), out, block)
                return
        row = after if after is not None else before
        assert row is not None
        key = shape.key_of(row)
        out.add(shape.topic, key, self._value(shape, op, before, after, source, now, block), time, (), op)
        if op == "d" and key is not None and self._tombstones:
            out.add(shape.topic, key, None, time)

    def rows(
        self, table: Table, told: Iterable[tuple[Row, str]], own: str, micros: int, out: Outgoing, now: int
    ) -> None:
        """Rows of a snapshot, each with its word, as `change` makes them one by one; `own` is the source's."""
        shape = self.shape(table)
        if shape.routing is not None or shape.passes is not None:
            for row, word in told:
                self.change(Change(table, "r", None, row, own, micros), out, now, snapshot=word)
            return
        write, key_of, head = shape.row, shape.key_of, f'{shape.start}{{"before":null,"after":'
        keys: list[str | bytes | None] = []
        values: list[str | bytes | None] = []
        before, tail = "", ""
        for row, word in told:
            if word != before:  # but for the first and the last row, they are all alike
                before, tail = word, self._tail_of_row(shape, micros, own, word, now)
                if shape.is_new:
                    self.introduce(table, micros, own, out, now, word)
            keys.append(key_of(row))
            values.append(f"{head}{write(row)}{tail}")
        if keys:
            out.extend(shape.topic, keys, values, micros // 1000, "r")

    def truncated(self, event: Truncated, out: Outgoing, now: int, block: Block = no_block) -> None:
        is_known = bool(event.table.columns)
        if not is_known and self.is_outbox(event.table.id):
            return
        self._shapes.pop(event.table.id, None)  # nothing is left under the key that it had
        shape = self.shape(event.table) if is_known else self._bare(event.table.id)
        if shape.is_new and is_known:
            self.introduce(event.table, event.micros, event.source, out, now, STREAMING)
        if shape.routing is not None:
            return
        source = self._source(shape, event.micros, event.source, STREAMING)
        self._empty(shape, source, event.micros, out, now, block)

    def introduce(self, table: Table, micros: int, own: str, out: Outgoing, now: int, snapshot: str = "true") -> None:
        """What a table is like goes before its rows, where that is asked for and not known. `own` is the source's."""
        shape = self.shape(table)
        if shape.is_new and self.schema_changes is not None:
            self.schema_changes.define(shape.selected, self._source(shape, micros, own, snapshot), out, now)
            shape.is_new = not out.is_kept

    def gone(self, event: Gone | Came, out: Outgoing, now: int, *, is_emptied: bool = False) -> None:
        """`is_emptied` says that its topic has rows, which a table that comes under its name does not have."""
        shape = self._shapes.pop(event.table, None)
        middle, end = self.source_pieces(event.table)
        own = event.source or ",".join(f'"{each["field"]}":null' for each in self._own_fields)
        source = self._block_of(event.micros, own, STREAMING, middle, end)
        if is_emptied and not self.is_outbox(event.table):
            self._empty(shape or self._bare(event.table), source, event.micros, out, now)
        if self.schema_changes is not None and isinstance(event, Gone):
            self.schema_changes.drop(event.table, source, out, now)

    def message(self, event: Message, out: Outgoing, now: int, block: Block = no_block) -> None:
        """To the topic `<prefix>.message`, keyed by the message's own prefix."""
        topic = f"{self.prefix}.message"
        start, end = self.source_pieces(TableId("", ""))
        source = self._block_of(event.micros, event.source, STREAMING, start, end)
        content = b64encode(event.content).decode()
        told = f'{{"prefix":{quoted(event.prefix)},"content":"{content}"}}'
        value = f'{{"op":"m","ts_ms":{now // 1000},"source":{source},"transaction":{block(topic)},"message":{told}}}'
        key = f'{{"prefix":{quoted(event.prefix)}}}'
        if self.schemas:
            key_schema, value_schema = self._message_schemas()
            (key_start, key_end), (value_start, value_end) = wrapped(key_schema), wrapped(value_schema)
            key, value = f"{key_start}{key}{key_end}", f"{value_start}{value}{value_end}"
        out.add(topic, key, value, event.micros // 1000)

    def began(self, id: str, micros: int, out: Outgoing) -> None:
        self._boundary("BEGIN", id, micros, NULL, NULL, out)

    def ended(self, id: str, micros: int, counts: Mapping[str, int], out: Outgoing) -> None:
        each = (f'{{"data_collection":{quoted(name)},"event_count":{count}}}' for name, count in counts.items())
        self._boundary("END", id, micros, str(sum(counts.values())), f"[{','.join(each)}]", out)

    def heartbeat(self, now: int, out: Outgoing) -> None:
        key, value = f'{{"serverName":{quoted(self.prefix)}}}', f'{{"ts_ms":{now // 1000}}}'
        if self.schemas:
            common = "io.debezium.connector.common"
            key_schema = struct([field("serverName", "string")], f"{common}.ServerNameKey", version=1)
            value_schema = struct([field("ts_ms", "int64")], f"{common}.Heartbeat", version=1)
            (key_start, key_end), (start, end) = wrapped(key_schema), wrapped(value_schema)
            key, value = f"{key_start}{key}{key_end}", f"{start}{value}{end}"
        out.add(f"__debezium-heartbeat.{self.prefix}", key, value, now // 1000)

    # --- topics and texts

    def topic(self, table: TableId) -> str:
        return topic_of_table(self.prefix, table)

    def is_outbox(self, table: TableId) -> bool:
        return self.router is not None and self.router.has(table)

    def has_every_row(self, table: TableId) -> bool:
        """Whether the table's topic has a record of each row that is told."""
        return not self.is_outbox(table) and self._selection.has_all_rows(table)

    @property
    def transaction_topic(self) -> str:
        return f"{self.prefix}.transaction"

    def shape(self, table: Table) -> Shape:
        shape = self._shapes.get(table.id)
        if shape is None or shape.table is not table:
            before = shape
            shape = self._shapes[table.id] = Shape(self._selection.of(table), self.topic(table.id), self)
            if before is not None and shape.routing is None:
                _say_other_key(before, shape)
        return shape

    def source_pieces(self, table: TableId) -> tuple[str, str]:
        """What stands before its nanoseconds' number and behind it."""
        schema = f',"schema":{quoted(table.schema)}' if self._has_schemas else ""
        return f',"db":{self._database},"ts_us":', f'{schema},"table":{quoted(table.name)}'

    def value_schema(self, topic: str, fields: list[Schema]) -> Schema:
        row = {"type": "struct", "fields": fields, "optional": True, "name": f"{topic}.Value"}
        envelope = [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {**self._source_schema(), "field": "source"},
            _BLOCK,
            field("op", "string"),
            *(field(name, "int64", optional=True) for name in ("ts_ms", "ts_us", "ts_ns")),
        ]
        return struct(envelope, f"{topic}.Envelope", version=2)

    # --- inside

    def _bare(self, table: TableId) -> Shape:
        """Of a table of which no more is known than its name."""
        return Shape(Selected(Table(table, (), ()), (), (), None), self.topic(table), self)

    def _empty(self, shape: Shape, source: str, micros: int, out: Outgoing, now: int, block: Block = no_block) -> None:
        value = self._value(shape, "t", None, None, source, now, block)
        out.add(shape.topic, None, value, micros // 1000, (), "t")

    def _move(
        self,
        shape: Shape,
        rows: tuple[Row, Row],
        keys: tuple[str | None, str | None],
        told: tuple[str, int, int],
        out: Outgoing,
        block: Block,
    ) -> None:
        """An update that changes the key: those who keep rows by it must drop the old one."""
        (before, after), (old, new), (source, time, now) = rows, keys, told
        to_new: Headers = ((NEW_KEY, new or NULL),)
        to_old: Headers = ((OLD_KEY, old or NULL),)
        out.add(shape.topic, old, self._value(shape, "d", before, None, source, now, block), time, to_new, "d")
        if old is not None and self._tombstones:
            out.add(shape.topic, old, None, time, to_new)
        out.add(shape.topic, new, self._value(shape, "c", None, after, source, now, block), time, to_old, "c")

    def _known_key(self, shape: Shape, before: Row, after: Row) -> Row:
        """The row before, with the values of now in a key that it does not tell."""
        if shape.key is None or UNKNOWN not in before:
            return before
        return tuple(now if then is UNKNOWN else then for then, now in zip(before, after, strict=True))

    def _value(
        self, shape: Shape, op: str, before: Row | None, after: Row | None, source: str, now: int, block: Block
    ) -> str:
        write = shape.row
        old = NULL if before is None else write(before)
        new = NULL if after is None else write(after)
        return (
            f'{shape.start}{{"before":{old},"after":{new},"source":{source},"transaction":{block(shape.name)},'
            f'"op":"{op}",{_times(now)}}}{shape.end}'
        )

    def _tail_of_row(self, shape: Shape, micros: int, own: str, snapshot: str, now: int) -> str:
        source = self._source(shape, micros, own, snapshot)
        return f',"source":{source},"transaction":{NULL},"op":"r",{_times(now)}}}{shape.end}'

    def _source(self, shape: Shape, micros: int, own: str, snapshot: str) -> str:
        """It begins alike for all changes of a table in a transaction, and for nearly all rows of a snapshot."""
        if shape.source_micros != micros or shape.source_snapshot != snapshot:
            shape.source_micros, shape.source_snapshot = micros, snapshot
            shape.source_start = self._block_start(micros, snapshot, shape.source_middle, shape.source_end)
        return f"{shape.source_start},{own}}}" if own else f"{shape.source_start}}}"

    def _block_of(self, micros: int, own: str, snapshot: str, middle: str, end: str) -> str:
        start = self._block_start(micros, snapshot, middle, end)
        return f"{start},{own}}}" if own else f"{start}}}"

    def _block_start(self, micros: int, snapshot: str, middle: str, end: str) -> str:
        return (
            f'{self._source_start}{micros // 1000},"snapshot":"{snapshot}"{middle}{micros},"ts_ns":{micros * 1000}{end}'
        )

    def _boundary(self, status: str, id: str, micros: int, count: str, counts: str, out: Outgoing) -> None:
        key = f'{{"id":{quoted(id)}}}'
        value = (
            f'{{"status":"{status}","id":{quoted(id)},"event_count":{count},"data_collections":{counts},'
            f'"ts_ms":{micros // 1000}}}'
        )
        if self.schemas:
            (key_start, key_end), (start, end) = wrapped(_TRANSACTION_KEY), wrapped(_TRANSACTION_VALUE)
            key, value = f"{key_start}{key}{key_end}", f"{start}{value}{end}"
        out.add(self.transaction_topic, key, value, micros // 1000)

    def _source_schema(self) -> Schema:
        snapshot = {
            **field("snapshot", "string", optional=True),
            "name": "io.debezium.data.Enum",
            "version": 1,
            "parameters": {"allowed": SNAPSHOT_WORDS},
            "default": STREAMING,
        }
        fields: list[Schema] = [
            *(field(name, "string") for name in ("version", "connector", "name")),
            field("ts_ms", "int64"),
            snapshot,
            field("db", "string"),
            *(field(name, "int64", optional=True) for name in ("ts_us", "ts_ns")),
            *([field("schema", "string")] if self._has_schemas else []),
            field("table", "string", optional=not self._has_schemas),
            *self._own_fields,
        ]
        return struct(fields, f"io.debezium.connector.{self._connector}.Source", version=1)

    def _message_schemas(self) -> tuple[Schema, Schema]:
        name = f"io.debezium.connector.{self._connector}.Message"
        key = struct([field("prefix", "string", optional=True)], f"{name}Key", version=1)
        told = [field("prefix", "string", optional=True), field("content", "bytes", optional=True)]
        whole = [
            field("op", "string"),
            field("ts_ms", "int64", optional=True),
            {**self._source_schema(), "field": "source"},
            _BLOCK,
            {**struct(told, name, version=1), "field": "message"},
        ]
        return key, struct(whole, f"{name}Value", version=1)


def _say_other_key(before: Shape, now: Shape) -> None:
    """No log tells the rows once more when their table gets another key: their records stay under the old one."""
    old, new = ([column.name for _, column in shape.selected.key] for shape in (before, now))
    if old != new:
        logger.warning(
            "records of %s have the key %s from here on, and had %s: what is in %s under the old key stays there; "
            "truncate the table and fill it again, or remove the capture and its topic and begin anew",
            now.name,
            _listed(new),
            _listed(old),
            now.topic,
        )


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else "of no column"


def _filtered(
    selected: Selected, passes: Callable[[Row], bool], change: Change
) -> tuple[str, Row | None, Row | None] | None:
    """The change as those see it who see only the rows that pass; None if they see nothing of it.

    A row from before that is not known whole is taken to have passed: a delete of what was never there may be told, but
    no row is left behind.
    """
    before, after = change.before, change.after
    is_after = after is not None and passes(after)
    if change.op != "u" or before is None or UNKNOWN in before:
        if is_after:
            return change.op, before, after
        if change.op in ("c", "r"):
            return None
        told = before if before is not None else _key_alone(selected, change)
        return ("d", told, None) if UNKNOWN in told or passes(told) else None
    if passes(before):
        return ("u", before, after) if is_after else ("d", before, None)
    return ("c", None, after) if is_after else None


def _key_alone(selected: Selected, change: Change) -> Row:
    """The key of the row after a change: the rest of what does not pass must not leave."""
    assert change.after is not None
    key = {place for place, _ in selected.key}
    return tuple(value if place in key else UNKNOWN for place, value in enumerate(change.after))


def _writer(columns: Sequence[tuple[int, Column]]) -> Callable[[Row], str]:
    """Of a row, the JSON object of these columns."""
    template = ",".join(f"{quoted(column.name)}:".replace("%", "%%") + "%s" for _, column in columns)
    template = f"{{{template}}}"
    writes = [
        (place, column.form.write, column.form.unavailable, NULL if column.optional else column.form.fallback)
        for place, column in columns
    ]

    if len(writes) == 1:
        return _writer_of_one(template, *writes[0])

    def write(row: Row) -> str:
        return template % tuple(
            [
                NULL
                if (value := row[place]) is None
                else unavailable
                if value is UNCHANGED
                else fallback
                if value is UNKNOWN
                else form(value)
                for place, form, unavailable, fallback in writes
            ]
        )

    return write


def _writer_of_one(
    template: str, place: int, form: Callable[[Any], str], unavailable: str, fallback: str
) -> Callable[[Row], str]:
    """As most keys are."""

    def write(row: Row) -> str:
        value = row[place]
        if value is None:
            return template % NULL
        if value is UNCHANGED:
            return template % unavailable
        return template % (fallback if value is UNKNOWN else form(value))

    return write


@lru_cache(1)
def _times(now: int) -> str:
    """All that one reading gives has the same."""
    return f'"ts_ms":{now // 1000},"ts_us":{now},"ts_ns":{now * 1000}'


_BLOCK: Final = {
    **struct(
        [field("id", "string"), field("total_order", "int64"), field("data_collection_order", "int64")],
        "event.block",
        version=1,
    ),
    "optional": True,
    "field": "transaction",
}
_COUNTED: Final = {
    **struct([field("data_collection", "string"), field("event_count", "int64")], "event.collection", version=1),
    "optional": True,
}
_TRANSACTION_KEY: Final = struct(
    [field("id", "string")], "io.debezium.connector.common.TransactionMetadataKey", version=1
)
_TRANSACTION_VALUE: Final = struct(
    [
        field("status", "string"),
        field("id", "string"),
        field("event_count", "int64", optional=True),
        {"type": "array", "items": _COUNTED, "optional": True, "field": "data_collections"},
        field("ts_ms", "int64"),
    ],
    "io.debezium.connector.common.TransactionMetadataValue",
    version=1,
)
