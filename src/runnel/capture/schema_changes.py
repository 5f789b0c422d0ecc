r"""What tables are like, as records of a topic: Debezium's schema changes.

    topic  <prefix>
    key    {"databaseName": "shop"}
    value  {"source": {...}, "ts_ms": ..., "databaseName": "shop", "schemaName": "public", "ddl": null,
            "tableChanges": [{"type": "CREATE", "id": "\"shop\".\"public\".\"orders\"", "table": {...}}]}

A table is told of before its first row is, and again when its columns are others than what was told last: CREATE, ALTER
and DROP. What was told last stands in the topic itself, in the same Kafka transactions as the rows: after a restart it
is read there, so nothing is told twice. `ddl` is null, because a database's log does not have the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from runnel.capture.connect_schemas import Schema, array, field, struct, wrapped
from runnel.capture.errors import InvalidChoice
from runnel.capture.forms import quoted
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Selected
from runnel.capture.source import Source
from runnel.capture.tables import Column, TableId

Definition: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[str], Iterable[tuple[bytes | None, bytes | None]]]

OTHER: Final = 1111
# java.sql.Types, by Kafka Connect's types and by the names of those that mean more.
JDBC_TYPES: Final = {
    "boolean": 16,
    "int8": -6,
    "int16": 5,
    "int32": 4,
    "int64": -5,
    "float": 7,
    "double": 8,
    "string": 12,
    "bytes": -3,
    "array": 2003,
    "org.apache.kafka.connect.data.Decimal": 3,
    "org.apache.kafka.connect.data.Date": 91,
    "org.apache.kafka.connect.data.Time": 92,
    "org.apache.kafka.connect.data.Timestamp": 93,
    "io.debezium.data.Bits": -7,
    "io.debezium.data.Enum": 1,
    "io.debezium.data.EnumSet": 1,
    "io.debezium.data.VariableScaleDecimal": 2,
    "io.debezium.data.Xml": 2009,
    "io.debezium.time.Date": 91,
    "io.debezium.time.Time": 92,
    "io.debezium.time.MicroTime": 92,
    "io.debezium.time.NanoTime": 92,
    "io.debezium.time.ZonedTime": 2013,
    "io.debezium.time.Timestamp": 93,
    "io.debezium.time.MicroTimestamp": 93,
    "io.debezium.time.NanoTimestamp": 93,
    "io.debezium.time.ZonedTimestamp": 2014,
    "io.debezium.time.Year": 4,
}
# Of MariaDB's types, where their names say more than what becomes of them.
JDBC_TYPES_BY_NAME: Final = {
    "BINARY": -2,
    "BIT": -7,
    "CHAR": 1,
    "FLOAT": 6,
    "INT UNSIGNED": 4,
    "SMALLINT UNSIGNED": 5,
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), 2004),
}
_ID: Final = re.compile(r'".*?"\."(.*?)"\."(.*)"', re.DOTALL)
_COMMA: Final = re.compile(r"(?<!\\),")  # that is not part of a word


class SchemaChanges:
    def __init__(self, prefix: str, source: Source, source_schema: Schema | None) -> None:
        """`source_schema` is that of the source block, if schemas are written beside the values."""
        self.topic = prefix
        self._database = source.database
        self._has_schemas = source.has_schemas
        self._told: dict[str, Definition | None] = {}
        self._key = self._start = self._end = ""
        key = f'{{"databaseName":{quoted(source.database)}}}'
        if source_schema is not None:
            before, behind = wrapped(_key_schema(source.connector))
            key = f"{before}{key}{behind}"
            self._start, self._end = wrapped(_value_schema(source.connector, source_schema))
        self._key = key

    def recall(self, read: Read) -> None:
        self._told = {}
        for _, value in read(self.topic):
            for change in self._changes_of(value):
                self._told[change["id"]] = change["table"]

    def define(self, selected: Selected, source: str, out: Outgoing, now: int) -> None:
        """Tell of a table as it leaves, unless that is known."""
        table = selected.table.id
        definition, known = definition_of(selected), self._told.get(self._id(table))
        if definition != known:
            self._tell("ALTER" if known else "CREATE", table, definition, source, out, now)

    def drop(self, table: TableId, source: str, out: Outgoing, now: int) -> None:
        if self._told.get(self._id(table)) is not None:
            self._tell("DROP", table, None, source, out, now)

    def tables(self) -> Iterator[TableId]:
        """Those of this database that were told of, and not to be dropped; none where it has no schemas."""
        for id, definition in self._told.items():
            found = _ID.fullmatch(id)
            if definition is None or found is None:
                continue
            table = TableId(*found.groups())
            if self._id(table) == id:
                yield table

    # --- inside

    def _changes_of(self, value: bytes | None) -> Any:
        try:
            told = json.loads(value or b"")
            return told.get("payload", told)["tableChanges"]
        except (ValueError, KeyError, AttributeError, TypeError):
            reason = "it holds something else than what tables are like: give another prefix"
            raise InvalidChoice("topic of the schema changes", self.topic, reason) from None

    def _tell(
        self, kind: str, table: TableId, definition: Definition | None, source: str, out: Outgoing, now: int
    ) -> None:
        if out.is_kept:
            self._told[self._id(table)] = definition
        change = {"type": kind, "id": self._id(table), "table": definition}
        schema = quoted(table.schema) if self._has_schemas else "null"
        value = (
            f'{{"source":{source},"ts_ms":{now // 1000},"databaseName":{quoted(self._database)},'
            f'"schemaName":{schema},"ddl":null,"tableChanges":[{_json(change)}]}}'
        )
        out.add(self.topic, self._key, f"{self._start}{value}{self._end}", now // 1000)

    def _id(self, table: TableId) -> str:
        schema = [table.schema] if self._has_schemas else []
        return ".".join(f'"{part}"' for part in (self._database, *schema, table.name))


def definition_of(selected: Selected) -> Definition:
    return {
        "defaultCharsetName": None,
        "primaryKeyColumnNames": [column.name for _, column in selected.key],
        "columns": [_column(number, column) for number, (_, column) in enumerate(selected.columns, 1)],
        "comment": None,
    }


def _column(position: int, column: Column) -> Definition:
    schema = column.form.schema
    name, parameters = schema.get("name", ""), schema.get("parameters", {})
    kind = column.type or name or schema["type"]
    return {
        "name": column.name,
        "jdbcType": JDBC_TYPES_BY_NAME.get(column.type) or JDBC_TYPES.get(name or schema["type"], OTHER),
        "nativeType": None,
        "typeName": kind,
        "typeExpression": kind,
        "charsetName": None,
        "length": _number(parameters, "connect.decimal.precision") or _number(parameters, "length"),
        "scale": _number(parameters, "scale"),
        "position": position,
        "optional": column.optional,
        "autoIncremented": None,
        "generated": None,
        "comment": None,
        "defaultValueExpression": None,
        "enumValues": _words(column, parameters["allowed"]) if "allowed" in parameters else None,
    }


def _words(column: Column, allowed: str) -> list[str]:
    """MariaDB's stand as in its SQL."""
    words = [word.replace("\\,", ",") for word in _COMMA.split(allowed)]
    return [literal(word) for word in words] if column.type in ("ENUM", "SET") else words


def literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _number(parameters: dict[str, str], name: str) -> int | None:
    return int(parameters[name]) if name in parameters else None


def _json(told: Any) -> str:
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


# --- Kafka Connect's schemas of it


def _key_schema(connector: str) -> Schema:
    return struct([field("databaseName", "string")], f"io.debezium.connector.{connector}.SchemaChangeKey", version=1)


def _value_schema(connector: str, source: Schema) -> Schema:
    texts = {"type": "string", "optional": False}
    column = struct(
        [
            field("name", "string"),
            field("jdbcType", "int32"),
            field("nativeType", "int32", optional=True),
            field("typeName", "string"),
            *(field(name, "string", optional=True) for name in ("typeExpression", "charsetName")),
            *(field(name, "int32", optional=True) for name in ("length", "scale")),
            field("position", "int32"),
            *(field(name, "boolean", optional=True) for name in ("optional", "autoIncremented", "generated")),
            *(field(name, "string", optional=True) for name in ("comment", "defaultValueExpression")),
            array(texts, "enumValues"),
        ],
        "io.debezium.connector.schema.Column",
        version=1,
    )
    table = struct(
        [
            field("defaultCharsetName", "string", optional=True),
            array(texts, "primaryKeyColumnNames"),
            array(column, "columns", optional=False),
            field("comment", "string", optional=True),
        ],
        "io.debezium.connector.schema.Table",
        version=1,
    )
    change = struct(
        [field("type", "string"), field("id", "string"), {**table, "optional": True, "field": "table"}],
        "io.debezium.connector.schema.Change",
        version=1,
    )
    told = [
        {**source, "field": "source"},
        field("ts_ms", "int64"),
        *(field(name, "string", optional=True) for name in ("databaseName", "schemaName", "ddl")),
        array(change, "tableChanges", optional=False),
    ]
    return struct(told, f"io.debezium.connector.{connector}.SchemaChangeValue", version=1)
