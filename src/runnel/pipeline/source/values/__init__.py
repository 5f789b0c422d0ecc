"""The values of records, turned into typed columns. Knows neither Spark nor a broker.

    schema = arrow_schema(declared.fields)
    parsed = parser(declared.format, schema, columns=["page", "at"]).parse(values)

Every value ends in one of four places: a row, a rejected value with the reason, a tombstone (there was no value), or
among those that are passed over because they say nothing of rows.
Only the columns asked for are read: what is wrong with another one is not noticed, and it comes out as nulls.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from runnel.graph.formats import Avro, Debezium, Format, Json, Text
from runnel.pipeline.source.values.avro import AvroParser
from runnel.pipeline.source.values.debezium import DebeziumParser
from runnel.pipeline.source.values.json_blocks import JsonParser
from runnel.pipeline.source.values.parsed import Parsed, Parser, Rejected
from runnel.pipeline.source.values.plain import RawParser, TextParser
from runnel.pipeline.source.values.schema import UnsupportedType, arrow_schema

__all__ = ["Parsed", "Parser", "Rejected", "UnsupportedType", "arrow_schema", "parser"]


def parser(format: Format, schema: pa.Schema, columns: Collection[str] | None = None, *, keyed: bool = False) -> Parser:
    """The parser of a format; `columns` are the names of those to be read, all of them if it is None. `keyed`: what is
    read is a table.
    """
    names = schema.names if columns is None else [name for name in schema.names if name in columns]
    if unknown := sorted(set(columns or ()) - set(names)):
        raise ValueError(f"no column {', '.join(unknown)}; the schema has: {', '.join(schema.names)}")
    match format:
        case Json():
            return JsonParser(schema, names)
        case Avro():
            return AvroParser(format, schema, names)
        case Debezium():
            return DebeziumParser(format, schema, names, keyed=keyed)
        case Text():
            return TextParser(schema, names)
        case _:
            return RawParser(schema, names)
