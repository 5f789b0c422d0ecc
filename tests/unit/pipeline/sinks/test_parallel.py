"""What the tasks of a large batch hand to those that write."""

import pyarrow as pa

from runnel.client.bodies import BATCH_BYTES
from runnel.client.columns import Origin, decode
from runnel.client.partitioning import partitions_of
from runnel.pipeline.sinks import parallel
from runnel.records import batch_around

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PARTITIONS = 3


def records(keys):
    count = len(keys)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array([b"value %d" % number for number in range(count)], pa.binary()),
        "headers": pa.nulls(count, HEADERS),
        "timestamp": pa.array(range(count), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def written(batches):
    """The values of each partition as a reader sees them."""
    encoded = pa.Table.from_batches(parallel._encoded(PARTITIONS, 0, BATCH_BYTES)(batches))
    found = {}
    for number, made in parallel._bodies(encoded, "out").items():
        data = [batch_around(body.data, body.contents, attributes=body.codec) for body in made]
        for block in decode(data, ("value",), Origin("out", number)):
            found.setdefault(number, []).extend(block.column("value").to_pylist())
    return found


def test_records_keep_their_order_and_go_where_their_key_belongs():
    keys = [b"a", b"b", b"c", b"a", b"d", b"a"]
    first, second = records(keys), records(keys)
    chosen = partitions_of(first.column("key"), PARTITIONS).tolist()
    expected = {}
    for batch in (first, second):
        for number, value in zip(chosen, batch.column("value").to_pylist(), strict=True):
            expected.setdefault(number, []).append(value)
    assert written([first, second]) == expected


def test_records_without_a_key_of_one_task_stay_together_in_their_order():
    batch = records([None] * 5)
    assert written([batch]) == {0: batch.column("value").to_pylist()}
