"""A batch that takes longer than its transaction may last is published all the same, if nobody else has taken over."""

import time

import pyarrow as pa
import pytest

from runnel import Broker
from runnel.client import positions
from runnel.client.errors import Fenced
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
