"""Values beyond what a topic takes: the record goes aside with its key and position, and the rest goes on."""

import itertools
import json

import pyarrow as pa
import pytest

from runnel import Broker
from runnel.capture import publisher as publishing
from runnel.capture.events import Position
from runnel.capture.outgoing import Outgoing
from runnel.capture.publisher import Publisher, admin_of
from runnel.capture.state import State
from runnel.client import Admin, limits
from runnel.client.cluster import Cluster
from runnel.client.limits import Limits
from tests.contract.capture.captured_mariadb import MariadbDatabase
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import committed

numbers = itertools.count()


@pytest.fixture
def name():
    return f"large{next(numbers)}"


def make(broker, topic, limit):
    with Admin(broker.bootstrap) as admin:
        admin.create(topic, partitions=1, configs={"max.message.bytes": str(limit)})


def table_of_notes(database):
    text = "LONGTEXT" if isinstance(database, MariadbDatabase) else "TEXT"
    return f"CREATE TABLE notes (id INTEGER PRIMARY KEY, note {text})"


def note(number, length):
    return f"INSERT INTO notes VALUES ({number}, '{'x' * length}')"


def found(broker, name, database, table="notes"):
    topic = f"{name}.{database.schema}.{table}"
    topics = committed(broker.bootstrap, topic)
    return topics[topic], topics.get(f"{topic}.rejected", [])


def test_what_a_topic_does_not_take_goes_aside_and_the_rest_goes_on(broker, database, name):
    """The broker refuses first: nobody asks what it takes before so few bytes."""
    database.execute(table_of_notes(database))
    database.execute(note(1, 1), note(2, 5_000), note(3, 3))
    make(broker, f"{name}.{database.schema}.notes", 2_000)
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap, transactions=True)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(
            "UPDATE notes SET note = 'b' WHERE id = 1", f"UPDATE notes SET note = '{'y' * 5_000}' WHERE id = 3",
            "DELETE FROM notes WHERE id = 2",
        )  # fmt: skip
        caught_up(capture, looking)
        assert capture._publisher.rejected == {f"{name}.{database.schema}.notes": 3}
    notes, rejected = found(broker, name, database)
    assert [(each.key, each.op) for each in notes] == [
        ('{"id":1}', "r"), ('{"id":3}', "r"), ('{"id":1}', "u"), ('{"id":2}', None),
    ]  # fmt: skip
    assert [(each.key, each.value["op"]) for each in rejected] == [
        ('{"id":2}', "r"), ('{"id":3}', "u"), ('{"id":2}', "d"),
    ]  # fmt: skip
    headers = rejected[1].headers
    assert headers["runnel.topic"] == f"{name}.{database.schema}.notes"
    assert headers["runnel.limit"] == "2000"
    assert int(headers["runnel.bytes"]) > 5_000
    assert headers["runnel.transaction"] == rejected[1].value["transaction"]["id"]
    assert set(json.loads(headers["runnel.position"])) == {"at", "index"}
    assert rejected[1].value["source"]["table"] == "notes"


def test_the_limit_is_known_before_a_large_value_is_sent(broker, database, name, monkeypatch, caplog):
    monkeypatch.setattr(Limits, "refused", lambda self, error: pytest.fail(f"a broker had to refuse: {error}"))
    database.execute(table_of_notes(database))
    database.execute(note(1, 1), note(2, 1_100_000), note(3, 900_000), note(4, 1))
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("DELETE FROM notes WHERE id = 1")
        caught_up(capture, looking)
    notes, rejected = found(broker, name, database)
    assert [each.key for each in notes] == ['{"id":1}', '{"id":3}', '{"id":4}', '{"id":1}', '{"id":1}']
    assert [each.key for each in rejected] == ['{"id":2}']
    topic = f"{name}.{database.schema}.notes"
    assert f"a record was too large for topic {topic}, and went to {topic}.rejected with the key" in caplog.text


def test_many_small_records_are_cut_to_what_the_topic_takes(broker, database, name):
    database.execute(table_of_notes(database))
    database.execute(*(note(number, 1_000) for number in range(200)))
    make(broker, f"{name}.{database.schema}.notes", 20_000)
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        caught_up(capture, looking)
    notes, rejected = found(broker, name, database)
    assert (len(notes), rejected) == (200, [])


def test_a_limit_that_is_changed_while_it_runs_counts(broker, database, name, monkeypatch):
    monkeypatch.setattr(limits, "OLD_SECONDS", 0.0)
    topic = f"{name}.{database.schema}.notes"
    database.execute(table_of_notes(database))
    make(broker, topic, 500_000)
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture, Admin(broker.bootstrap) as admin:
        wait_until(capture.is_streaming.is_set)
        for number, limit in enumerate((500_000, 100_000, 500_000)):
            admin.alter(topic, configs={"max.message.bytes": str(limit)})
            database.execute(note(number, 200_000))
            caught_up(capture, looking)
    notes, rejected = found(broker, name, database)
    assert [each.key for each in notes] == ['{"id":0}', '{"id":2}']
    assert [each.key for each in rejected] == ['{"id":1}']


def test_rows_without_a_key_go_aside_too(broker, database, name):
    database.execute("CREATE TABLE plain (note TEXT)")
    database.execute("INSERT INTO plain VALUES ('a')", f"INSERT INTO plain VALUES ('{'x' * 5_000}')")
    make(broker, f"{name}.{database.schema}.plain", 2_000)
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        caught_up(capture, looking)
    rows, rejected = found(broker, name, database, "plain")
    assert [each.value["after"]["note"] for each in rows] == ["a"]
    assert [(each.key, each.value["op"]) for each in rejected] == [(None, "r")]


def test_what_goes_aside_does_not_replace_what_goes_there_anyhow(broker, name):
    topic = f"{name}.x"
    make(broker, topic, 2_000)
    out = Outgoing()
    out.add(topic, "large", "y" * 5_000, 0)
    out.add(f"{topic}.rejected", "ordinary", "1", 0)
    with Cluster(broker.bootstrap) as cluster:
        publisher = Publisher(cluster, name, lambda: admin_of(broker.bootstrap), partitions=1)
        publisher.open()
        publisher.publish(out, State("sqlite", Position({"id": 1})))
    told = committed(broker.bootstrap, topic)[f"{topic}.rejected"]
    assert {each.key for each in told} == {"ordinary", "large"}


def test_what_a_broker_does_not_take_as_a_request_goes_aside(name, caplog):
    """It closes the connection of whoever sends such a one: that looks like a broker that is away."""
    topic = f"{name}.x"
    out = Outgoing()
    for number, length in enumerate((1, 2_000_000, 2)):
        out.add(topic, str(number), json.dumps({"op": "c", "after": {"id": number, "note": "y" * length}}), 0)
    with Broker(settings={"socket.request.max.bytes": "1048576"}) as broker, Cluster(broker.bootstrap) as cluster:
        make(broker, topic, 5_000_000)
        publisher = Publisher(cluster, name, lambda: admin_of(broker.bootstrap), partitions=1)
        publisher.open()
        publisher.publish(out, State("sqlite", Position({"id": 1})))
        topics = committed(broker.bootstrap, topic)
    assert [each.key for each in topics[topic]] == ["0", "2"]
    ((key, headers),) = [(each.key, each.headers) for each in topics[f"{topic}.rejected"]]
    assert (key, headers["runnel.column"]) == ("1", "note")
    assert "(socket.request.max.bytes)" in headers["runnel.reason"]
    assert "raise the brokers' socket.request.max.bytes" in caplog.text


def test_what_is_more_than_arrow_holds_in_an_array_is_written_in_parts_and_a_record_of_that_size_goes_aside(
    broker, name, monkeypatch
):
    array = pa.array

    def small(values, kind=None):
        if kind == pa.binary() and sum(len(each or "") for each in values) > 1_000:
            raise pa.ArrowCapacityError("too much")
        return array(values, kind)

    monkeypatch.setattr(publishing.pa, "array", small)
    topic = f"{name}.x"
    out = Outgoing()
    for number, length in enumerate((400, 500, 600, 2_000, 10, 700)):
        out.add(topic, str(number), f'"{"y" * length}"', 0, (("n", str(number)),), "c")
    with Cluster(broker.bootstrap) as cluster:
        publisher = Publisher(cluster, name, lambda: admin_of(broker.bootstrap), partitions=1)
        publisher.open()
        publisher.publish(out, State("sqlite", Position({"id": 1})))
    topics = committed(broker.bootstrap, topic)
    assert [(each.key, each.headers) for each in topics[topic]] == [(key, {"n": key}) for key in "01245"]
    assert [each.key for each in topics[f"{topic}.rejected"]] == ["3"]
    assert publisher.events == {(topic, "c"): 6}
    assert publisher.rejected == {topic: 1}
