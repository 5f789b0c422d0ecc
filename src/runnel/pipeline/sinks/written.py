"""What a derived stream writes, as those that read it will find it: the columns of the JSON value, and their types.

A type is offered only if a value comes back from the JSON as it was. The others are refused when the query is built,
with what to cast them to: somebody will read the topic, if not in this app.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from runnel.graph.derived import Derived
from runnel.graph.event_time import RECORD_TIME
from runnel.graph.formats import TAKEN, Columns, Json
from runnel.graph.inputs import CHANGE
from runnel.graph.types import TIMESTAMP, Array, Decimal, Field, Map, Simple, Struct, Type
from runnel.pipeline.errors import InvalidBody

SIMPLE: dict[type[DataType], str] = {
    BooleanType: "boolean",
    ByteType: "tinyint",
    ShortType: "smallint",
    IntegerType: "int",
    LongType: "bigint",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "binary",
    DateType: "date",
    TimestampType: "timestamp",
    TimestampNTZType: "timestamp_ntz",
}
INTERVALS = (DayTimeIntervalType, YearMonthIntervalType, CalendarIntervalType)


def written_names(schema: StructType, stream: Derived) -> tuple[str, ...]:
    """The columns of the value, in their order."""
    writing = stream.writing
    return tuple(writing.columns or (name for name in schema.names if name not in (*writing.headers, CHANGE)))


def written_columns(schema: StructType, stream: Derived) -> Columns:
    """InvalidBody if what the body returns cannot be written, or would not come back."""
    _check_once(str(stream), "the body returns", schema.names)
    names = written_names(schema, stream)
    if not names:
        raise InvalidBody(
            str(stream), "no column is left for the value", hint="return one that is neither a header nor _change"
        )
    for name in names:
        if name.lower().startswith(TAKEN):  # who reads the stream has columns of these names beside it
            hint = f"rename it: names that begin with {TAKEN} are taken"
            raise InvalidBody(str(stream), f"the body returns a column {name}", hint=hint)
    fields = tuple(Field(name, _type(str(stream), name, schema[name].dataType)) for name in names)
    columns = Columns(Json(", ".join(field.ddl for field in fields)), fields)
    _check_time(stream, columns)
    return columns


def _check_once(where: str, who: str, names: Sequence[str]) -> None:
    """Spark does not tell names apart by their case, and JSON has no name twice."""
    for name, count in Counter(each.lower() for each in names).items():
        if not name:
            raise InvalidBody(where, f"{who} a column without a name", hint='name it, with .alias("name")')
        if count > 1:
            raise InvalidBody(where, f"{who} {count} columns called {name}", hint="rename or drop one of them")


def _check_time(stream: Derived, columns: Columns) -> None:
    if stream.time is None or stream.time.column == RECORD_TIME:
        return
    column = stream.time.column
    found = columns.find(column)
    if found is None:
        hint = f"the columns of the value are {', '.join(columns.names)}; {RECORD_TIME} is the record's own time"
        raise InvalidBody(str(stream), f"time names {column}, which is not written", hint=hint)
    if found.type != TIMESTAMP:
        hint = f'cast it in the body: F.col("{column}").cast("timestamp")'
        raise InvalidBody(str(stream), f"time names {column}, which is of type {found.type}", hint=hint)


def _type(where: str, path: str, kind: DataType) -> Type:
    match kind:
        case DecimalType():
            return Decimal(kind.precision, kind.scale)
        case ArrayType():
            return Array(_type(where, f"{path}[]", kind.elementType))
        case MapType():
            return _map(where, path, kind)
        case StructType():
            return Struct(tuple(_fields(where, path, kind)))
    for each in type(kind).__mro__:
        if each in SIMPLE:
            return Simple(SIMPLE[each])
    raise _refused(where, path, kind, _remedy(kind))


def _map(where: str, path: str, kind: MapType) -> Map:
    value = _type(where, f"{path}[]", kind.valueType)
    if not isinstance(kind.keyType, StringType):
        hint = f'cast it: F.col("{path}").cast("map<string,{value}>")'
        raise _refused(where, path, kind, hint)
    return Map(Simple("string"), value)


def _fields(where: str, path: str, kind: StructType) -> Iterable[Field]:
    if not kind.fields:
        raise _refused(where, path, kind, "leave it out, or give it a field")
    _check_once(where, f"{path} has", kind.names)
    for field in kind.fields:
        yield Field(field.name, _type(where, f"{path}.{field.name}", field.dataType))


def _remedy(kind: DataType) -> str:
    if isinstance(kind, NullType):
        return 'say what it is a null of: F.lit(None).cast("string")'
    if isinstance(kind, INTERVALS):
        return 'cast it to what it counts, such as .cast("long") for seconds, or to a string'
    return 'cast it to a type that JSON has, such as .cast("string")'


def _refused(where: str, path: str, kind: DataType, hint: str) -> InvalidBody:
    what = f"column {path} is of type {kind.simpleString()}, which does not come back from JSON as it was"
    return InvalidBody(where, what, hint=hint)
