"""The watch over the queries of an app, look by look: a broker, and queries that only say how they are."""

import itertools
import json

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from runnel import Broker
from runnel.app.progress import State
from runnel.app.watching import Watching
from runnel.client import Admin, Consumer, Groups, Producer, lag
from runnel.client.cluster import Cluster
from runnel.client.errors import UnknownTopic
from runnel.client.group_position import GroupPosition
from runnel.graph.alert import Alert, AlertRule
from runnel.graph.event_time import event_time
from runnel.graph.formats import columns_of
from runnel.graph.reading import Reading
from runnel.pipeline.batch import Totals
from runnel.pipeline.done import Done
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import Place
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.view_inputs.spec import ViewSpec
from runnel.protocol.versions import Api
from runnel.testing import StoppedClock
from runnel.views.opening import open_store
from runnel.views.store import Declared, Marker
from tests.filling import AT_ONCE

GROUP = "runnel.shop.pages"

numbers = itertools.count()


class SaidQuery:
    """A query that is as it was told to be."""

    name = "pages"
    open_windows = None
    under_way = None

    def __init__(self, bootstrap, *topics):
        columns = columns_of("page string, at timestamp", "a stream")
        times = event_time("a stream", columns, time="at", late="1 second", idle=None, ahead="1 hour")
        self.streams = tuple(
            Spec("pages", number, bootstrap, topic, columns, Reading(), "/nowhere", time=times)
            for number, topic in enumerate(topics)
        )
        self.totals = Totals()
        self.last = None
        self.is_active = True
        self.spark_says = {}
        self.at = {}

    def reached(self):
        return {number: Offsets(number, next, {}) for number, next in self.at.items()}

    def read(self, number, offset, *, rows=0, seconds=1.0, watermark=None):
        """A batch ends."""
        spec = self.streams[number]
        self.at[number] = {(spec.topic, 0): offset}
        self.totals.batches += 1
        self.totals.in_time += rows
        self.last = Done(self.totals.batches, 0.0, seconds, {"body": seconds}, watermark, {})


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def clock():
    return StoppedClock()


@pytest.fixture
def topic(broker):
    name = f"clicks-{next(numbers)}"
    broker.create_topic(name, 1)
    with Producer(broker.bootstrap, settings=AT_ONCE) as producer:
        for _ in range(10):
            producer.submit(name, b"{}")
    return name


@pytest.fixture
def query(broker, topic):
    return SaidQuery(broker.bootstrap, topic)


@pytest.fixture
def watch(broker, clock, tmp_path):
    made = []

    def watch(*queries, rules=(), is_troubled=lambda _: False, bootstrap=broker.bootstrap):
        place = Place("shop", Kafka(bootstrap, patience=1), tmp_path, str(tmp_path))
        made.append(Watching(place, [query.name for query in queries], rules, is_troubled, clock))
        made[-1]._queries = list(queries)
        return made[-1]

    yield watch
    for each in made:
        each.stop()


def test_before_the_first_look_the_queries_have_not_begun(watch, query):
    (seen,) = watch(query).progress.queries
    assert (seen.name, seen.state, seen.lag) == ("pages", State.BEGINS, None)


def test_the_lag_is_what_lies_between_the_position_and_the_end(watch, query, topic, clock):
    watching = watch(query)
    query.read(0, 4)
    assert watching.look().queries[0].lag == {topic: 6}
    query.read(0, 10)
    clock.advance(1_000)
    assert watching.look().queries[0].lag == {topic: 6}  # brokers are asked every few seconds
    clock.advance(2_000)
    assert watching.look().queries[0].lag == {topic: 0}


def test_the_lag_is_by_input(broker, watch, topic):
    broker.create_topic("others", 1)
    query = SaidQuery(broker.bootstrap, topic, "others")
    query.read(0, 1)
    assert watch(query).look().queries[0].lag == {topic: 9}
    query.read(1, 0)
    assert watch(query).look().queries[0].lag == {topic: 9, "others": 0}


def test_a_topic_that_is_gone_has_no_lag(broker, watch):
    query = SaidQuery(broker.bootstrap, "deleted")
    query.read(0, 4)
    assert watch(query).look().queries[0].lag == {"deleted": 0}


def test_the_lag_behind_a_view_is_in_changes(broker, watch, topic, tmp_path):
    query = SaidQuery(broker.bootstrap, topic)
    view = ViewSpec("pages", 1, "counts", str(tmp_path), StructType(), "/nowhere", changes=True)
    query.streams = (*query.streams, view)
    query.at = {0: {(topic, 0): 10}, 1: {view.place: 1}}
    assert watch(query).look().queries[0].lag == {topic: 0}  # there is no such view yet
    rows = pa.table({"page": ["a", "b", "c"]})
    with open_store(str(tmp_path)).writer(Declared("counts", ("page",), rows.schema), "counts") as writer:
        writer.claim()
        end = writer.apply(rows, Marker("counts", 0, "checkpoint", {})).next_position
    assert watch(query).look().queries[0].lag == {topic: 0, "counts": end}
    query.at[1] = {view.place: end + 1}
    assert watch(query).look().queries[0].lag == {topic: 0, "counts": 0}


def test_rows_a_second(watch, query, clock):
    watching = watch(query)
    watching.look()
    query.read(0, 4, rows=50)
    clock.advance(5_000)
    assert watching.look().queries[0].rows_per_second == 10


def test_what_spark_says_is_part_of_it(watch, query):
    query.spark_says = {
        "durationMs": {"triggerExecution": 900, "addBatch": 600},
        "stateOperators": [
            {"memoryUsedBytes": 1_000, "numRowsTotal": 0},
            {"memoryUsedBytes": 500, "numRowsTotal": 0, "customMetrics": {"rocksdbSstFileSize": 20}},
        ],
    }
    query.read(0, 1, seconds=0.5, watermark=7)
    (seen,) = watch(query).look().queries
    assert (seen.state_bytes, seen.state_rows, seen.watermark) == (1_520, None, 7)
    assert seen.seconds == pytest.approx(0.8)
    assert seen.steps == {"plan": pytest.approx(0.3), "body": 0.5}
    assert seen.has_time


def test_spark_that_does_not_answer_harms_nothing(watch, query):
    class Gone(SaidQuery):
        is_active = property(lambda _: 1 / 0, lambda *_: None)
        spark_says = property(lambda _: 1 / 0, lambda *_: None)

    query.__class__ = Gone
    query.read(0, 1, rows=3)
    (seen,) = watch(query).look().queries
    assert (seen.in_time, seen.state) == (3, State.ENDED)


def test_a_query_runs_waits_and_ends(watch, query):
    troubled = []
    watching = watch(query, is_troubled=lambda name: name in troubled)
    assert watching.look().queries[0].state is State.RUNS
    troubled.append("pages")
    assert watching.look().queries[0].state is State.WAITS
    troubled.clear()
    query.is_active = False
    assert watching.look().queries[0].state is State.ENDED


# --- the group


def committed(broker):
    with Admin(broker.bootstrap) as admin:
        return Groups(admin).committed(GROUP)


def test_the_position_is_committed_to_a_group(broker, watch, query, topic):
    watching = watch(query)
    query.read(0, 4)
    watching.look()
    assert committed(broker)[topic, 0] == 4
    with Admin(broker.bootstrap) as admin:
        assert [(each.committed, each.lag) for each in lag(admin, GROUP) if each.topic == topic] == [(4, 6)]
        assert Groups(admin).describe(GROUP).members == ()


def test_the_last_position_is_committed_at_the_end(broker, watch, query, topic):
    watching = watch(query)
    watching.start([query])
    query.read(0, 9)
    watching.stop()
    assert committed(broker)[topic, 0] == 9


def test_a_position_that_did_not_change_is_committed_again_only_after_long(broker, watch, query, topic, clock):
    watching = watch(query)
    query.read(0, 4)
    watching.look()
    with Admin(broker.bootstrap) as admin:
        Groups(admin).reset(GROUP, {(topic, 0): 1})
    clock.advance(599_000)
    watching.look()
    assert committed(broker)[topic, 0] == 1
    clock.advance(1_000)
    watching.look()
    assert committed(broker)[topic, 0] == 4


def test_a_topic_that_was_deleted_is_left_out_of_the_position_until_it_is_there_again(
    broker, watch, query, topic, monkeypatch
):
    """As one of a pattern's topics, which its query goes on without."""
    deleted, asked, ask = f"deleted-{next(numbers)}", [], Cluster.ask
    broker.create_topic(deleted, 1)

    def noted(cluster, node, api_key, body, doing, **versions):
        asked.extend(part["name"] for part in body["topics"] if api_key == Api.OFFSET_COMMIT)
        return ask(cluster, node, api_key, body, doing, **versions)

    def look_at(offset):
        query.at[0] = {(topic, 0): offset, (deleted, 0): offset}
        asked.clear()
        watching.look()
        return sorted(asked)

    watching = watch(query)
    monkeypatch.setattr(Cluster, "ask", noted)
    assert look_at(1) == [topic, deleted]
    with Admin(broker.bootstrap) as admin:
        admin.delete(deleted)
    assert look_at(2) == [topic, deleted]
    assert look_at(2) == []
    assert look_at(3) == [topic]
    assert committed(broker)[topic, 0] == 3
    assert (deleted, 0) not in committed(broker)
    broker.create_topic(deleted, 1)
    assert look_at(4) == [topic, deleted]
    assert committed(broker)[deleted, 0] == 4


def test_a_topic_that_its_coordinator_does_not_know_yet_is_tried_again_without_a_word(
    broker, watch, query, topic, monkeypatch, caplog
):
    def unknown(position, offsets):
        assert offsets == {(topic, 0): 4}
        raise UnknownTopic(topic)

    watching = watch(query)
    query.read(0, 4)
    with monkeypatch.context() as patched:
        patched.setattr(GroupPosition, "commit", unknown)
        watching.look()
    watching.look()
    assert committed(broker)[topic, 0] == 4
    assert not [record for record in caplog.records if record.name.startswith("runnel.app.")]


def test_a_group_that_has_members_is_told_once_and_harms_nothing(broker, watch, query, topic, caplog):
    watching = watch(query)
    with Consumer(broker.bootstrap, topic, group=GROUP, follow=True) as consumer:
        list(consumer.records(1))
        for offset in (4, 5):
            query.read(0, offset)
            watching.look()
    (told,) = (record for record in caplog.records if record.name.startswith("runnel.app."))  # the broker tells it, too
    assert told.levelname == "WARNING"
    assert "the position of group runnel.shop.pages could not be committed" in told.getMessage()


def test_a_broker_that_is_away_harms_nothing(watch, query, clock, caplog):
    watching = watch(query, bootstrap="127.0.0.1:1")
    query.read(0, 4, rows=4)
    (seen,) = watching.look().queries
    assert (seen.in_time, seen.lag) == (4, None)
    assert caplog.records == []  # the query itself tells that it waits


# --- alerts


def test_an_alert_is_told_to_a_topic_and_shown(broker, watch, query, topic, clock):
    told = f"{topic}-alerts"
    watching = watch(query, rules=[AlertRule(Alert.lag(records=5, lasting="0 seconds"), topic=told)])
    query.read(0, 4)
    assert watching.look().alerts == ("pages: 6 records behind, the limit is 5",)
    query.read(0, 10)
    clock.advance(3_000)
    assert watching.look().alerts == ()
    watching.stop()
    with Consumer(broker.bootstrap, told) as consumer:
        found = [json.loads(record.value) for record in consumer]
    assert [(each["query"], each["state"], each["value"]) for each in found] == [
        ("pages", "begins", 6),
        ("pages", "ends", 0),
    ]


def test_a_defect_of_the_watch_is_told_and_does_not_end_it(watch, query, caplog, monkeypatch):
    watching = watch(query)
    monkeypatch.setattr(query, "reached", lambda: 1 / 0)
    watching._look_safely()
    assert "the watch over the app failed" in caplog.text


def test_before_the_first_look_it_tells_for_how_long_it_has_been_starting(watch, query, clock):
    watching = watch(query)
    clock.advance(12_000)
    assert watching.progress.running == 12
