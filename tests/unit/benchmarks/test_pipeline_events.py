"""The events of the pipeline's benchmarks are what the figures say they are."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks import pipeline_events as events
from benchmarks.pipeline_events import Kind
from runnel.client.columns import Origin, decode
from runnel.graph.formats import columns_of
from runnel.pipeline.source.values import arrow_schema, parser
from runnel.records import Codec, records_of


def parsed(kind, schema, count=1_000):
    fields = arrow_schema(columns_of(schema, "here").fields)
    made = events.values(np.arange(count), kind).cast("binary")
    return parser(columns_of(schema, "here").format, fields).parse(made)


@pytest.mark.parametrize(("kind", "schema"), [(Kind.CLEAN, events.FLAT), (Kind.NESTED, events.NESTED)])
def test_every_event_fits_its_schema(kind, schema):
    result = parsed(kind, schema)
    assert result.rows.num_rows == 1_000
    assert not result.rejected


def test_the_broken_ones_are_as_many_as_told_and_about_one_in_a_hundred():
    assert len(parsed(Kind.BROKEN, events.FLAT, 20_000).rejected) == events.broken(20_000)
    assert 100 < events.broken(20_000) < 300


def test_a_thousand_events_make_a_second_and_times_rise():
    rows = [json.loads(value) for value in events.values(np.arange(0, 2_500), Kind.CLEAN).to_pylist()]
    times = [datetime.fromisoformat(row["at"]) for row in rows]
    assert times == sorted(times)
    assert times[0] == datetime(2026, 1, 1, tzinfo=UTC)
    assert (times[2_000] - times[0]).total_seconds() == 2


def test_a_block_that_begins_in_the_middle_of_a_second_has_the_same_times():
    whole = events.values(np.arange(0, 3_000), Kind.CLEAN).to_pylist()
    assert events.values(np.arange(1_500, 3_000), Kind.CLEAN).to_pylist() == whole[1_500:]


@pytest.mark.parametrize("kind", list(Kind))
def test_partitions_together_have_every_event_once(kind):
    count = 4_001
    found = []
    for partition in range(events.PARTITIONS):
        batches = list(events._batches(partition, count, kind))
        for block in decode(batches, ("value",), Origin("t", partition)):
            found += block.column("value").to_pylist()
    assert sorted(found) == sorted(events.values(np.arange(count), kind).cast("binary").to_pylist())


def test_the_rich_ones_are_compressed_and_have_keys_and_headers():
    batch = next(events._batches(1, 1_000, Kind.RICH))
    assert batch[22] & 7 == Codec.ZSTD
    first = records_of(batch)[0]
    assert first.key is not None
    assert len(first.headers) == 2
