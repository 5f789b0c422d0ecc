"""Whatever a database's rows are and however Debezium writes them, a captured topic's rows are these rows again.

The oracle is the row itself: it is drawn, written as Debezium's converter writes it in each of its modes, and must come
back. What is read in a block must be what is read value by value.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.graph.formats import Debezium, columns_of
from runnel.pipeline.source.values import arrow_schema, json_blocks, parser

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLACEHOLDER = "__debezium_unavailable_value"
DECLARED = (
    "id bigint not null, name string, born date, total decimal(10,2), seen timestamp, local timestamp_ntz, "
    "data binary, ok boolean, share double, tags array<string>, days array<date>"
)
NAMES = ("id", "name", "born", "total", "seen", "local", "data", "ok", "share", "tags", "days")
MAY_BE_HOLES = ("name", "total", "data", "tags", "days")
UNITS = {"ms": "io.debezium.time.Timestamp", "us": "io.debezium.time.MicroTimestamp"}
UNITS["ns"] = "io.debezium.time.NanoTimestamp"


@dataclass(frozen=True)
class How:
    """The writer's modes."""

    unit: str
    decimals: str
    binary: str
    has_schemas: bool


hows = st.builds(
    How,
    st.sampled_from(("ms", "us", "ns")),
    st.sampled_from(("precise", "string", "double")),
    st.sampled_from(("bytes", "base64", "base64-url-safe", "hex")),
    st.booleans(),
)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
dates = st.dates(date(1600, 1, 1), date(2400, 1, 1))
moments = st.integers(-9_000_000_000_000, 9_000_000_000_000).map(lambda millis: millis * 1000)
rows = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | texts,
        "born": st.none() | dates,
        "total": st.none() | st.integers(-(10**10) + 1, 10**10 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "seen": st.none() | moments,
        "local": st.none() | moments,
        "data": st.none() | st.binary(max_size=8),
        "ok": st.none() | st.booleans(),
        "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "tags": st.none() | st.lists(st.none() | texts, max_size=3),
        "days": st.none() | st.lists(st.none() | dates, max_size=3),
    }
)


@dataclass(frozen=True)
class Event:
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    holes: frozenset[str] = frozenset()
    committed: int = 0
    transaction: str | None = None


changes = st.one_of(
    st.builds(
        Event,
        st.sampled_from("cur"),
        st.none() | rows,
        rows,
        st.just(frozenset()) | st.frozensets(st.sampled_from(MAY_BE_HOLES), max_size=2),
        moments,
        st.none() | st.just("7:1"),
    ),
    st.builds(Event, st.just("d"), rows, st.none(), st.just(frozenset()), moments),
    st.builds(Event, st.just("t"), st.none(), st.none(), st.just(frozenset()), moments),
    st.builds(Event, st.just("m"), st.none(), st.none(), st.just(frozenset()), moments),
)
HEARTBEAT, BROKEN, FLAT = b'{"ts_ms":1700000000000}', b'{"op":"c","after":{', b'{"id":1,"name":"Anne"}'
values = st.lists(st.one_of(changes, changes, changes, st.sampled_from((None, HEARTBEAT, BROKEN, FLAT))), max_size=20)


# --- the writer


def written(event: Event, how: How) -> bytes:
    payload = {
        "before": event.before and {name: put(name, event.before[name], how) for name in NAMES},
        "after": event.after and {name: after(name, event, how) for name in NAMES},
        "source": {"version": "3.3", "ts_ms": event.committed // 1000, "ts_us": event.committed, "table": "customers"},
        "transaction": event.transaction and {"id": event.transaction, "total_order": 1},
        "op": event.op,
        "ts_ms": 1,
    }
    whole = {"schema": schema_of(how), "payload": payload} if how.has_schemas else payload
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False, default=plain).encode()


def plain(number: Decimal) -> float:
    return float(number)


def after(name: str, event: Event, how: How) -> Any:
    assert event.after is not None
    return hole(name, how) if name in event.holes else put(name, event.after[name], how)


def hole(name: str, how: How) -> Any:
    if name == "data":
        return in_bytes(PLACEHOLDER.encode(), how)
    return [PLACEHOLDER] if name in ("tags", "days") else PLACEHOLDER


def put(name: str, value: Any, how: How) -> Any:
    if value is None:
        return None
    match name:
        case "born":
            return (value - date(1970, 1, 1)).days
        case "days":
            return [each and (each - date(1970, 1, 1)).days for each in value]
        case "seen" | "local":
            return {"ms": value // 1000, "us": value, "ns": value * 1000 + 999}[how.unit]
        case "total":
            return in_decimal(value, how)
        case "data":
            return in_bytes(value, how)
    return value


def in_decimal(value: Decimal, how: How) -> Any:
    if how.decimals == "precise":
        units = int(value.scaleb(2))
        length = (~units if units < 0 else units).bit_length() // 8 + 1
        return base64.b64encode(units.to_bytes(length, signed=True)).decode()
    return f"{value:f}" if how.decimals == "string" else float(value)


def in_bytes(value: bytes, how: How) -> str:
    match how.binary:
        case "hex":
            return value.hex()
        case "base64-url-safe":
            return base64.urlsafe_b64encode(value).decode()
    return base64.b64encode(value).decode()


def schema_of(how: How) -> dict[str, Any]:
    decimal: dict[str, Any] = {"type": how.decimals}
    if how.decimals == "precise":
        name = "org.apache.kafka.connect.data.Decimal"
        decimal = {"type": "bytes", "name": name, "version": 1, "parameters": {"scale": "2"}}
    day = {"type": "int32", "name": "io.debezium.time.Date", "version": 1}
    time = {"type": "int64", "name": UNITS[how.unit], "version": 1}
    types = {"born": day, "total": decimal, "seen": time, "local": time, "days": {"type": "array", "items": day}}
    types["data"] = {"type": "bytes" if how.binary == "bytes" else "string"}
    row = [{**types.get(name, {"type": "string"}), "optional": True, "field": name} for name in NAMES]
    both = [{"type": "struct", "fields": row, "optional": True, "field": field} for field in ("before", "after")]
    return {"type": "struct", "fields": both, "optional": False, "name": "shop.public.customers.Envelope"}


# --- what must come back


def told(row: dict[str, Any] | None, holes: frozenset[str] = frozenset()) -> dict[str, Any]:
    if row is None:
        return dict.fromkeys(NAMES)
    times = {name: row[name] is not None and EPOCH + timedelta(microseconds=row[name]) for name in ("seen", "local")}
    found = row | {"seen": times["seen"] or None, "local": times["local"] and times["local"].replace(tzinfo=None)}
    found["local"] = found["local"] or None
    return {name: None if name in holes else found[name] for name in NAMES}


def parsed_as(format: Debezium, given_values: list[bytes | None], *, keyed: bool, few: int = 0) -> Any:
    columns = columns_of(format, "a test")
    fields = columns.fields if keyed else (*columns.fields, *columns.envelope)
    with patch.multiple(json_blocks, FEW=few):
        parsed = parser(columns.format, arrow_schema(fields), keyed=keyed).parse(pa.array(given_values, pa.binary()))
    parsed.rows.validate(full=True)
    return parsed


def declared(how: How) -> Debezium:
    """Where the schema tells, what is declared does not matter."""
    if how.has_schemas:
        return Debezium(DECLARED, binary="bytes" if how.binary == "bytes" else how.binary)
    return Debezium(DECLARED, time_unit=how.unit, decimals=how.decimals, binary=how.binary)


@settings(max_examples=60, deadline=None)
@given(drawn=values, how=hows)
def test_a_stream_has_every_change_as_it_was_written(drawn, how):
    given_values = [written(each, how) if isinstance(each, Event) else each for each in drawn]
    parsed = parsed_as(declared(how), given_values, keyed=False)
    expected, kept = [], []
    for place, each in enumerate(drawn):
        if isinstance(each, Event) and each.op != "m":
            kept.append(place)
            about = {
                "_op": each.op,
                "_before": each.before and told(each.before),
                "_source_time": EPOCH + timedelta(microseconds=each.committed),
                "_transaction": each.transaction,
                "_unavailable": sorted(each.holes) or None,
            }
            expected.append(told(each.after, each.holes) | about)
    assert parsed.indices().tolist() == kept
    assert parsed.rows.to_pylist() == expected
    assert [each.index for each in parsed.rejected] == [n for n, each in enumerate(drawn) if each in (BROKEN, FLAT)]
    passed = [n for n, each in enumerate(drawn) if each in (None, HEARTBEAT) or getattr(each, "op", "") == "m"]
    assert parsed.passed.tolist() == passed
    assert parsed.tombstones.tolist() == []


@settings(max_examples=40, deadline=None)
@given(drawn=values, how=hows)
def test_a_table_has_the_rows_after_and_knows_what_is_gone(drawn, how):
    given_values = [written(each, how) if isinstance(each, Event) else each for each in drawn]
    parsed = parsed_as(declared(how), given_values, keyed=True)
    there = [(n, each) for n, each in enumerate(drawn) if isinstance(each, Event) and each.op in "cur"]
    assert parsed.indices().tolist() == [n for n, _ in there]
    assert parsed.rows.to_pylist() == [told(each.after, each.holes) for _, each in there]
    assert dict(parsed.holes) == {n: each.holes for n, each in there if each.holes}
    gone = [n for n, each in enumerate(drawn) if each is None or getattr(each, "op", "") == "d"]
    assert parsed.tombstones.tolist() == gone
    assert parsed.emptying.tolist() == [n for n, each in enumerate(drawn) if getattr(each, "op", "") == "t"]
    assert [each.index for each in parsed.rejected] == [n for n, each in enumerate(drawn) if each in (BROKEN, FLAT)]


mutations = st.tuples(st.integers(0, 400), st.sampled_from((b"", b'"', b"}", b"1", b"null", b'"x"', b" ", b"-", b".5")))


@settings(max_examples=40, deadline=None)
@given(drawn=st.lists(st.tuples(changes, st.none() | mutations), max_size=12), how=hows, keyed=st.booleans())
def test_what_is_read_in_a_block_is_what_is_read_value_by_value(drawn, how, keyed):
    given_values = []
    for event, mutation in drawn:
        value = written(event, how)
        if mutation is not None:
            at, text = mutation
            value = value[: at % len(value)] + text + value[at % len(value) + 1 :]
        given_values.append(value)
    together = parsed_as(declared(how), given_values, keyed=keyed)
    alone = [parsed_as(declared(how), [each], keyed=keyed, few=4) for each in given_values]
    assert together.rows.to_pylist() == [row for each in alone for row in each.rows.to_pylist()]
    assert together.indices().tolist() == [n for n, each in enumerate(alone) if each.rows.num_rows]
    reasons = [(n, each.rejected[0].reason) for n, each in enumerate(alone) if each.rejected]
    assert [tuple(each) for each in together.rejected] == reasons
