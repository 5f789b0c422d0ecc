"""A batch is published all the same: if it takes longer than its transaction may last, and nobody else has taken over;
if a topic takes only smaller batches of records.
"""

import random
import time

import pyarrow as pa
import pytest

from runnel import Broker
from runnel.client import Admin, positions
from runnel.client.committed import committed
from runnel.client.errors import Fenced, RecordTooLarge, Refused
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.markers import Marker, read_marker
from runnel.pipeline.sinks import publisher as publishing
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.source import aside

LIMIT = 60.0
MARKS, OUT = "marks", "out"
NOTHING = aside.SCHEMA.empty_table()
ROWS = pa.table(
    {
        "key": pa.nulls(1, pa.binary()),
        "value": pa.array([b"a"], pa.binary()),
        "headers": pa.nulls(1, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        "timestamp": pa.array([0], pa.int64()),
    }
)


@pytest.fixture
def cluster():
    with Broker(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}) as broker:
        for topic in (MARKS, OUT):
            broker.create_topic(topic, 1)
        with Kafka(broker.bootstrap).cluster() as cluster:
            yield cluster


@pytest.fixture
def publisher(cluster, monkeypatch):
    monkeypatch.setattr(publishing, "LONGEST", 0.2)
    return made(cluster)


def made(cluster):
    publisher = Publisher(cluster, "stays", name="runnel.shop.stays", marks=MARKS, late="stays.late")
    publisher.open()
    return publisher


def ends(cluster):
    return positions.latest(cluster, [(OUT, 0)])[OUT, 0]


@pytest.fixture
def slow(cluster, monkeypatch):
    """The first write takes so long that the broker aborts its transaction. Then what is in the list is called."""
    then = []
    write = publishing.write

    def write_slowly(*given, **more):
        monkeypatch.setattr(publishing, "write", write)
        write(*given, **more)
        until = time.monotonic() + LIMIT
        while not ends(cluster):  # of what is committed or aborted
            assert time.monotonic() < until, "the transaction is still open"
            time.sleep(0.02)
        for each in then:
            each()

    monkeypatch.setattr(publishing, "write", write_slowly)
    return then


def test_a_batch_that_took_too_long_is_published_again(cluster, publisher, slow):
    marker = Marker("stays", 0, "7c3e", {})
    publisher.publish(marker, {(OUT, 0): ROWS}, NOTHING)
    assert read_marker(cluster, MARKS, "stays") == marker
    publisher.publish(Marker("stays", 1, "7c3e", {}), {(OUT, 0): ROWS}, NOTHING)
    assert ends(cluster) == 6  # each of the three has one record, and the mark of its end


def test_one_that_was_taken_over_meanwhile_stops(cluster, publisher, slow):
    slow.append(lambda: made(cluster))
    with pytest.raises(Fenced, match=r"longer than its time-out of 0\.2 s, or another one has taken over its id since"):
        publisher.publish(Marker("stays", 0, "7c3e", {}), {(OUT, 0): ROWS}, NOTHING)
    assert read_marker(cluster, MARKS, "stays") is None


def random_rows(count, size):
    chance = random.Random(count)
    columns = {name: pa.nulls(count, ROWS.schema.field(name).type) for name in ("key", "headers", "timestamp")}
    return pa.table({**columns, "value": [chance.randbytes(size) for _ in range(count)]})


def put_aside(values):
    about = {"kind": aside.REJECTED, "reason": "no JSON", "stream": "in", "topic": "in", "partition": 0, "timestamp": 0}
    rows = [{**about, "offset": number, "value": value, "headers": []} for number, value in enumerate(values)]
    return pa.Table.from_pylist(rows, schema=aside.SCHEMA)


def test_batches_are_as_small_as_a_topic_takes_them_also_if_that_is_set_meanwhile(cluster):
    rows, others = random_rows(100, 500), random_rows(101, 500)
    rejected = put_aside(rows["value"].to_pylist())
    with Admin(cluster.bootstrap) as admin:
        admin.create("in.rejected", partitions=1, configs={"max.message.bytes": "20000"})
        publisher = made(cluster)
        publisher.publish(Marker("stays", 0, "7c3e", {}), {(OUT, 0): rows}, rejected)
        admin.alter(OUT, configs={"max.message.bytes": "10000"})
        last = Marker("stays", 1, "7c3e", {})
        publisher.publish(last, {(OUT, 0): others}, NOTHING)
    assert [value for _, value in committed(cluster, OUT)] == [*rows["value"].to_pylist(), *others["value"].to_pylist()]
    assert [value for _, value in committed(cluster, "in.rejected")] == rows["value"].to_pylist()
    assert read_marker(cluster, MARKS, "stays") == last


def test_a_time_that_a_topic_does_not_take_is_told_with_what_to_do(cluster):
    ahead = pa.array([(int(time.time()) + 7_200) * 1_000], pa.int64())
    rows = ROWS.set_column(ROWS.column_names.index("timestamp"), "timestamp", ahead)
    with pytest.raises(Refused, match=r"writing to out-0 failed: .*message.timestamp.after.max.ms = 3600000") as told:
        made(cluster).publish(Marker("stays", 0, "7c3e", {}), {(OUT, 0): rows}, NOTHING)
    assert told.value.hint.startswith("give records a time that is not so far off")


def test_a_record_that_a_topic_does_not_take_is_told_and_nothing_stays_open(cluster):
    with Admin(cluster.bootstrap) as admin:
        admin.alter(OUT, configs={"max.message.bytes": "400"})
    publisher = made(cluster)
    with pytest.raises(RecordTooLarge, match=r'a record for topic "out" is too large'):
        publisher.publish(Marker("stays", 0, "7c3e", {}), {(OUT, 0): random_rows(2, 500)}, NOTHING)
    publisher.publish(Marker("stays", 0, "7c3e", {}), {(OUT, 0): ROWS}, NOTHING)
    assert [value for _, value in committed(cluster, OUT)] == [b"a"]
