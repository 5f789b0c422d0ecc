"""Waiting for what was written, through the streams of a broker and the views of a store."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import runnel
from runnel.client import Admin, Producer, Token, positions
from runnel.client.bodies import bodies
from runnel.client.cluster import Cluster
from runnel.client.writing import write
from runnel.pipeline.markers import Marker
from runnel.pipeline.sinks.publisher import Publisher, bodies_of
from runnel.pipeline.source import aside
from runnel.records import Codec, Record
from runnel.views.errors import NotSeen
from runnel.views.store import Declared
from runnel.views.store import Marker as ViewMarker
from runnel.views.upstream import FIRST_BACK
from tests.contract.views.clicks import SCHEMA, claimed, marker, seen

numbers = itertools.count()
NOTHING = aside.SCHEMA.empty_table()
ROWS = pa.table(
    {
        "key": pa.array([None], pa.binary()),
        "value": pa.array([b"{}"], pa.binary()),
        "headers": pa.nulls(1, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        "timestamp": pa.array([1_767_225_600_000], pa.int64()),
    }
)


@pytest.fixture(scope="module")
def broker():
    with runnel.Broker() as running:
        yield running


class Stream:
    """A derived stream `name` over clicks, as its query would write it."""

    def __init__(self, broker, name: str, app: str = "shop", partitions: int = 2) -> None:
        self.name, self.app = name, app
        self.marks = f"runnel.{app}.{name}.marker"
        broker.create_topic(self.marks, 1, configs={"cleanup.policy": "compact"})
        if app == "shop":
            broker.create_topic(name, partitions)
        self.cluster = Cluster(broker.bootstrap)
        self.publisher = Publisher(
            self.cluster, name, name=f"runnel.{app}.{name}", marks=self.marks, late=f"{name}.late"
        )
        self.publisher.open()
        self.batch = 0

    def has_read(self, offset: int, *, partition: int | None = None, output: bool = True) -> None:
        """A batch up to before an offset; with a row in a partition, or without one."""
        contents = {} if partition is None else {(self.name, partition): ROWS}
        mark = Marker(self.name, self.batch, "7c3e", {"clicks": {"0": offset}}, self.name if output else "")
        self.publisher.publish(mark, contents, NOTHING)
        self.batch += 1


@pytest.fixture
def stream(broker):
    made = Stream(broker, f"long_{next(numbers)}")
    yield made
    made.cluster.close()


@pytest.fixture
def view(store, place, broker):
    """A view and its writer; positions are given with each batch."""
    with claimed(store) as writer, runnel.views(place.address, bootstrap=broker.bootstrap) as views:
        batches = iter(range(1_000_000))

        def read(**positions):
            writer.apply(seen(), marker(next(batches), **positions))

        read(nothing={})
        yield views["clicks"], read


def is_seen(view, *tokens) -> bool:
    try:
        view.wait_for(*tokens, timeout=0)
    except NotSeen:
        return False
    return True


def end_of(stream):
    """Where committed records of each partition end."""
    found = positions.latest(stream.cluster, stream.cluster.topic(stream.name).places)
    return {str(partition): at for (_, partition), at in found.items()}


def test_a_stream_is_followed_by_its_markers(view, stream):
    found, read = view
    token = Token("clicks", 0, 4)
    stream.has_read(4, partition=0)
    read(**{stream.name: end_of(stream)})
    assert not is_seen(found, token)
    stream.has_read(5, partition=1)
    assert not is_seen(found, token)
    read(**{stream.name: end_of(stream)})
    assert is_seen(found, token)
    assert not is_seen(found, Token("clicks", 0, 5))


def test_a_row_that_the_stream_leaves_out_is_seen_when_the_stream_has_read_it(view, stream):
    found, read = view
    stream.has_read(4, partition=0)
    read(**{stream.name: end_of(stream)})
    stream.has_read(5)
    assert is_seen(found, Token("clicks", 0, 4))


def test_a_stream_that_has_not_finished_a_batch_is_waited_for(view, stream):
    found, read = view
    read(clicks={"0": 5}, **{stream.name: {"0": 0, "1": 0}})
    with pytest.raises(NotSeen, match=f"{stream.name} has not finished a batch yet"):
        found.wait_for(Token("clicks", 0, 4), timeout=0)


def test_a_stream_of_others_that_is_deleted_meanwhile_hurts_nobody(view, stream, broker):
    found, read = view
    other = Stream(broker, f"gone_{next(numbers)}", app="other")
    stream.has_read(5, partition=0)
    read(**{stream.name: end_of(stream)})
    assert not is_seen(found, Token("clicks", 0, 5))
    with Admin(broker.bootstrap) as admin:
        admin.delete(other.marks)
    assert is_seen(found, Token("clicks", 0, 4))
    other.cluster.close()


def test_what_is_written_and_not_yet_committed_counts_for_the_end(view, stream):
    """The marker of a transaction can be seen before the transaction's rows are: their partitions are told later."""
    found, read = view
    stream.has_read(5, partition=0)
    read(**{stream.name: end_of(stream)})
    ticket = stream.publisher.begin([(stream.name, 1)])
    write(stream.cluster, ticket, {(stream.name, 1): bodies_of(ROWS)}, codec=Codec.NONE)
    assert not is_seen(found, Token("clicks", 0, 4))
    stream.publisher.abort_quietly()
    read(**{stream.name: end_of(stream)})
    assert is_seen(found, Token("clicks", 0, 4))


def test_the_newest_marker_is_found_behind_many_transactions_that_were_aborted(view, stream):
    found, read = view
    stream.has_read(5, partition=0)
    for _ in range(FIRST_BACK):
        ticket = stream.publisher.begin([])
        wrong = Record(Marker(stream.name, 1, "7c3e", {"clicks": {"0": 99}}, stream.name).to_bytes(), key=b"x")
        write(stream.cluster, ticket, {(stream.marks, 0): bodies([wrong])}, codec=Codec.NONE)
        stream.publisher.abort_quietly()
    read(**{stream.name: end_of(stream)})
    assert is_seen(found, Token("clicks", 0, 4))
    assert not is_seen(found, Token("clicks", 0, 5))


def test_the_marker_of_a_view_of_another_app_says_nothing_of_a_topic_of_its_name(view, stream, broker):
    found, read = view
    stream.has_read(5, partition=0)
    other = Stream(broker, stream.name, app="other")
    other.has_read(1, output=False)
    read(**{stream.name: end_of(stream)})
    assert is_seen(found, Token("clicks", 0, 4))
    other.cluster.close()


def test_a_view_of_a_view_has_seen_it_when_it_has_read_the_changes(store, place):
    popular = Declared("popular", ("page",), SCHEMA)
    with claimed(store) as writer, store.writer(popular, "popular") as second, runnel.views(place.address) as views:
        second.claim()
        second.apply(seen(), ViewMarker("popular", 0, "c", {"view:clicks": {"0": 1}}))
        assert not is_seen(views["popular"], Token("clicks", 0, 4))
        writer.apply(seen(("a", 1), ("b", 1)), marker(0, clicks={"0": 5}))
        assert not is_seen(views["popular"], Token("clicks", 0, 4))
        second.apply(seen(("a", 1)), ViewMarker("popular", 1, "c", {"view:clicks": {"0": 3}}))
        assert is_seen(views["popular"], Token("clicks", 0, 4))
        # A batch that changes nothing: there is nothing to read.
        writer.apply(seen(("a", 1)), marker(1, clicks={"0": 9}))
        assert is_seen(views["popular"], Token("clicks", 0, 8))


def test_a_token_is_what_a_producer_returns(view, broker):
    found, read = view
    with Producer(broker.bootstrap) as producer:
        token = producer.produce("tokens", b"1")
    read(tokens={str(token.partition): token.offset + 1})
    found.wait_for(token, timeout=0)


def test_a_broker_that_is_not_there_is_told(store, place):
    with claimed(store) as writer:
        writer.apply(seen(), marker(0, clicks={"0": 1}))
    with runnel.views(place.address, bootstrap="127.0.0.1:1") as views, pytest.raises(NotSeen) as told:
        views["clicks"].wait_for(Token("orders", 0, 0), timeout=0)
    assert "127.0.0.1:1" in str(told.value)
