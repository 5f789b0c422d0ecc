"""The rows of a test as records of the topics that the app declares."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any, NamedTuple

import fastavro
import numpy as np

from runnel.client.producer import About
from runnel.graph.event_time import RECORD_TIME
from runnel.graph.formats import Avro, Columns, Debezium, Json
from runnel.graph.graph import Declared
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.graph.types import TIMESTAMP, Simple
from runnel.graph.types import Decimal as DecimalType
from runnel.testing.events import Mistake, Sent, as_written, at

MIDNIGHT = "00:00"
LOCAL = Simple("timestamp_ntz")
WIDE = Context(prec=76, traps=[])  # for all digits of a decimal(38,38), and whatever a test gives
PLAIN_FROM, PLAIN_TO = 1e-3, 1e7  # where Java writes a number without an exponent
FRAME = bytes(5)  # that of a registry: its number is not looked up


class Record(NamedTuple):
    topic: str
    value: bytes | None
    about: About


def record_of(sent: Sent, noun: Declared) -> Record:
    """`noun` is what the app declares over the topic."""
    about = sent.about
    if (
        "_timestamp" not in about
        and isinstance(noun, Stream)
        and noun.time is not None
        and noun.time.column == RECORD_TIME
    ):
        hint = 'say when each record was written: row(..., _timestamp="12:00:10")'
        raise Mistake(f"{noun} has its event times from its records, and a row has none", hint=hint)
    return Record(
        sent.topic,
        _value(sent, noun),
        {
            "key": _key(sent, noun),
            "timestamp": round(_time(sent, noun).timestamp() * 1000),
            "headers": [(name, _bytes(value)) for name, value in about.get("_headers", {}).items()],
            "partition": about.get("_partition"),
        },
    )


def _value(sent: Sent, noun: Declared) -> bytes | None:
    if sent.value is None or isinstance(sent.value, bytes):
        return sent.value
    columns = _checked(sent.value, noun)
    match noun.columns.format:
        case Json():
            return _json(columns).encode()
        case Avro() as format:
            return _avro(format, columns, noun)
        case Debezium():
            time = round(_time(sent, noun).timestamp() * 1000)
            return _json({"before": None, "after": columns, "source": {"ts_ms": time}, "op": "c"}).encode()
        case _:
            return _bytes(columns.get("value"))


def _checked(given: Mapping[str, Any], noun: Declared) -> dict[str, Any]:
    for name in given:
        if noun.columns.find(name) is None:
            hint = f"its columns are {', '.join(noun.columns.names)}; raw() plays any value"
            raise Mistake(f"{noun} has no column {name}", hint=hint)
    return {name: _timed(noun.columns, name, value) for name, value in given.items()}


def _timed(columns: Columns, name: str, value: Any) -> Any:
    found = columns.find(name)
    kind = found.type if found is not None and isinstance(value, str) else None
    if kind == LOCAL:
        time = as_written(value)
        return value if time.tzinfo else time  # with a zone it does not fit, and is rejected
    return at(value) if kind == TIMESTAMP else value


def _key(sent: Sent, noun: Declared) -> bytes | None:
    if "_key" in sent.about:
        return _bytes(sent.about["_key"])
    if not isinstance(noun, Table):
        if sent.key:
            raise Mistake(f"{noun} has no rows that can be deleted", hint="delete() is for a table")
        return None
    given = sent.key or (sent.value if isinstance(sent.value, Mapping) else {})
    missing = [name for name in noun.key if given.get(name) is None]
    if missing and not isinstance(sent.value, bytes):
        raise Mistake(f"{noun}: a row has no {', '.join(missing)}", hint="it is the key, and every row needs one")
    if unknown := [name for name in sent.key if name not in noun.key]:
        hint = f"give the key and no more: {', '.join(noun.key)}"
        raise Mistake(f"{noun} is not keyed by {', '.join(unknown)}", hint=hint)
    if missing:
        return None
    given = {name: _typed(noun.columns, name, given[name]) for name in noun.key}
    if len(noun.key) == 1 and not isinstance(given[noun.key[0]], Mapping | list):
        return _bytes(_as_text(given[noun.key[0]]))
    return _as_object(given).encode()


def _typed(columns: Columns, name: str, value: Any) -> Any:
    """As a value of the column's type, which says how Spark writes it: 5 is 5.0 as a double, 5.00 as a price."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return _timed(columns, name, value)
    found = columns.find(name)
    match found.type if found is not None else None:
        case Simple("float"):
            return np.float32(value)
        case Simple("double"):
            return np.float64(value)
        case DecimalType(scale=scale):
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=WIDE)
    return value


def _as_text(value: Any) -> Any:
    """As Spark writes the key of a derived stream: a row of either is the same row of a table."""
    match value:
        case bool():
            return str(value).lower()
        case np.floating():
            return _as_java_writes(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            text = _without_zone(value).isoformat(" ")
            return text.rstrip("0") if value.microsecond else text
    return value


def _as_object(value: Any) -> str:
    """The same of several columns: without spaces, in UTF-8, and with all digits of a time."""
    match value:
        case Mapping():
            return "{" + ",".join(f"{_as_object(str(name))}:{_as_object(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_as_object, value)) + "]"
        case datetime():
            zone = "Z" if value.tzinfo else ""
            return json.dumps(_without_zone(value).isoformat(timespec="microseconds") + zone)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case np.floating():
            text = _as_java_writes(value)
            return text if np.isfinite(value) else json.dumps(text)
    return _json(value)


def _as_java_writes(number: np.floating[Any]) -> str:
    """With a point always, and an exponent where it is small or large: 1.0E7."""
    if not np.isfinite(number):
        return str(number).replace("inf", "Infinity").replace("nan", "NaN")
    if number == 0 or PLAIN_FROM <= abs(number) < PLAIN_TO:
        return np.format_float_positional(number, trim="0")
    return np.format_float_scientific(number, trim="0", exp_digits=1).replace("e+", "e").replace("e", "E")


def _without_zone(time: datetime) -> datetime:
    return (time.astimezone(UTC) if time.tzinfo else time).replace(tzinfo=None)


def _avro(format: Avro, columns: dict[str, Any], noun: Declared) -> bytes:
    written = io.BytesIO(FRAME if format.framing else b"")
    written.seek(0, io.SEEK_END)
    try:
        fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(format.schema)), columns)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "give every column that may not be null, with a value of its type; raw() plays any bytes"
        raise Mistake(f"{noun}: a row does not fit its Avro schema: {error}", hint=hint) from None
    return written.getvalue()


def _json(value: Any) -> str:
    match value:
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(str(name))}: {_json(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_json, value)) + "]"
        case Decimal():
            return str(value)
        case date():  # a datetime is one
            return json.dumps(value.isoformat())
        case bytes():
            return json.dumps(base64.b64encode(value).decode())
    return json.dumps(value)


def _time(sent: Sent, noun: Declared) -> datetime:
    """Of the record: as it is given, or that of the event, so that nothing depends on when the test runs."""
    if "_timestamp" in sent.about and not isinstance(sent.about["_timestamp"], str | datetime):
        hint = 'write one such as "12:00:10", or give a datetime'
        raise Mistake(f"{noun}: the _timestamp of a record is {sent.about['_timestamp']!r}", hint=hint)
    value = sent.value if isinstance(sent.value, Mapping) else {}
    event = value.get(noun.time.column) if isinstance(noun, Stream) and noun.time is not None else None
    found = sent.about.get("_timestamp", event)
    if not isinstance(found, str | datetime):
        return at(MIDNIGHT)
    return at(found if isinstance(found, str) else found.isoformat())


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()
