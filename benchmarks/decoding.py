"""Record batches into typed columns on one core, beside the parts that do less.

The records are objects of about 86 bytes of the schema "page string, customer_id long, at timestamp, ms long", in
batches of 500. Ours starts from the bytes of batches; where the peer starts from values that are joined already, it has
less to do. `rows/s` counts CPU seconds of this process, because other programs of the machine would count otherwise.
"""

import json
import random
import time
from collections.abc import Callable
from functools import partial

import aiokafka.record.default_records
import pyarrow as pa
from pyarrow import json as arrow_json

from benchmarks.harness import Figure, Options, at_least, side_by_side
from runnel.client.columns import Origin, decode
from runnel.graph.formats import columns_of
from runnel.pipeline.source.values import arrow_schema, parser
from runnel.records import Codec, Record, build_batch

FLAT = "page string, customer_id long, at timestamp, ms long"
NESTED = (
    "id string, user struct<name:string,age:int>, tags array<string>, "
    "items array<struct<sku:string,price:decimal(10,2),qty:int>>, at timestamp"
)
PER_BATCH = 500
EVERYTHING = ("value", "key", "offset", "timestamp", "headers")
HERE = Origin("clicks", 0)


def run(options: Options) -> list[Figure]:
    count = options.size(full=200_000, quick=2_000)
    chance = random.Random(6)
    values = [_click(chance) for _ in range(count)]
    broken = [_broken(value, chance) if chance.random() < 0.01 else value for value in values]
    nested = [_order(chance) for _ in range(count // 4)]
    clicks, parse = batches_of(values), parsing(FLAT)
    rich = batches_of(values, Codec.ZSTD, key=b"customer", headers=(("trace", b"0123456789abcdef"), ("kind", b"click")))
    text, text_of_nested = b"\n".join(values), b"\n".join(nested)
    parse(decoded(clicks[:1], EVERYTHING))  # what is imported at the first call is not counted
    compare = partial(side_by_side, unit="rows/s", options=options)
    return [
        compare(
            "values as they are",
            against="aiokafka's reader",
            ours=lambda: rate(count, lambda: decoded(clicks, ["value"])),
            peer=lambda: rate(count, lambda: by_aiokafka(clicks)),
        ),
        compare(
            "all columns, zstd, keys and headers",
            against="aiokafka's reader",
            ours=lambda: rate(count, lambda: decoded(rich, EVERYTHING)),
            peer=lambda: rate(count, lambda: by_aiokafka(rich, EVERYTHING)),
        ),
        compare(
            "JSON into columns",
            against="json.loads of each value",
            ours=lambda: rate(count, lambda: parse(decoded(clicks, ["value"]))),
            peer=lambda: rate(count, lambda: [json.loads(value) for value in values]),
            target=at_least(2),
        ),
        compare(
            "JSON into columns",
            against="pyarrow.json of joined values",
            ours=lambda: rate(count, lambda: parse(decoded(clicks, ["value"]))),
            peer=lambda: rate(count, lambda: by_arrow(text, FLAT)),
        ),
        compare(
            "JSON, one value in a hundred broken",
            against="ours, none broken",
            ours=lambda: rate(count, partial(parse, decoded(batches_of(broken), ["value"]))),
            peer=lambda: rate(count, partial(parse, decoded(clicks, ["value"]))),
            target=at_least(0.5),
        ),
        compare(
            "JSON, zstd, keys, headers, all columns",
            against="ours, values alone",
            ours=lambda: rate(count, lambda: parse(decoded(rich, EVERYTHING))),
            peer=lambda: rate(count, lambda: parse(decoded(clicks, ["value"]))),
            target=at_least(0.5),
        ),
        compare(
            "JSON, nested",
            against="pyarrow.json of joined values",
            ours=lambda: rate(len(nested), partial(parsing(NESTED), decoded(batches_of(nested), ["value"]))),
            peer=lambda: rate(len(nested), lambda: by_arrow(text_of_nested, NESTED)),
        ),
    ]


def rate(count: int, action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return count / (time.process_time() - start)


def _click(chance: random.Random) -> bytes:
    at = f"2026-11-15T20:{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(1000):03}Z"
    fields = {"page": f"/p/{chance.randrange(1000)}", "customer_id": chance.randrange(10**6), "at": at}
    return json.dumps({**fields, "ms": chance.randrange(1000)}).encode()


def _broken(value: bytes, chance: random.Random) -> bytes:
    kinds = (
        value[:-10],
        b"not JSON",
        value.replace(b'"customer_id": ', b'"customer_id": "x'),
        value.replace(b'"ms": ', b'"ms": 1.5e'),
        value.replace(b"2026-11", b"2026-13"),
        value.replace(b", ", b"; ", 1),
    )
    return chance.choice(kinds)


def _order(chance: random.Random) -> bytes:
    items = [{"sku": f"s{number}", "price": number * 1.25, "qty": number} for number in range(chance.randrange(4))]
    user = {"name": "Ada", "age": chance.randrange(90)}
    order = {
        "id": f"o{chance.random()}",
        "user": user,
        "tags": ["a", "b"],
        "items": items,
        "at": "2026-11-15T20:00:00Z",
    }
    return json.dumps({**order, "at": "2026-11-15T20:00:00Z"}).encode()


def batches_of(values: list[bytes], codec: Codec = Codec.NONE, **rest: object) -> list[bytes]:
    batches = []
    for start in range(0, len(values), PER_BATCH):
        records = [Record(value, timestamp=1_700_000_000_000 + start, **rest) for value in values[start:][:PER_BATCH]]
        batches.append(build_batch(records, base_offset=start, codec=codec))
    return batches


def decoded(batches: list[bytes], names: list[str] | tuple[str, ...]) -> list[pa.RecordBatch]:
    return list(decode(batches, names, HERE))


def parsing(schema: str) -> Callable[[list[pa.RecordBatch]], object]:
    columns = columns_of(schema, "a benchmark")
    chosen = parser(columns.format, arrow_schema(columns.fields))
    return lambda blocks: [chosen.parse(block.column("value")) for block in blocks]


def by_aiokafka(batches: list[bytes], names: tuple[str, ...] = ("value",)) -> list[pa.Array]:
    columns: list[list[object]] = [[] for _ in names]
    for data in batches:
        batch = aiokafka.record.default_records.DefaultRecordBatch(data)
        batch.validate_crc()
        if len(names) == 1:
            columns[0] += [record.value for record in batch]
            continue
        for record in batch:
            for column, name in zip(columns, names, strict=True):
                column.append(getattr(record, name))
    return [pa.array(column) for column, name in zip(columns, names, strict=True) if name != "headers"]


def by_arrow(text: bytes, schema: str) -> pa.Table:
    wanted = arrow_schema(columns_of(schema, "a benchmark").fields)
    options = arrow_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return arrow_json.read_json(pa.BufferReader(text), read_options=reading, parse_options=options)
