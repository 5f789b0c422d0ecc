"""Events of an outbox table, from its database into their topics: each once."""

import itertools

import pytest

from runnel.capture import capture as captures
from runnel.capture.errors import InvalidChoice, TableMissing
from runnel.capture.outbox import Outbox, OutboxColumns, check
from runnel.capture.selection import Selection
from runnel.capture.sqlite import changes, snapshot
from runnel.client import Admin
from tests.contract.capture.conftest import TABLES, SqliteDatabase
from tests.contract.capture.cut_off import lived
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import check_transactions, committed

numbers = itertools.count()
TABLE = (
    "CREATE TABLE outbox (id INTEGER PRIMARY KEY, aggregatetype VARCHAR(20), aggregateid VARCHAR(20),"
    " type VARCHAR(20), payload VARCHAR(200))"
)


@pytest.fixture
def name():
    return f"events{next(numbers)}"


def outbox_of(name, database):
    return Outbox(rf"{database.schema}\.outbox", topic=f"{name}.event.${{routedByValue}}")


def event(number, kind="order"):
    return f"""INSERT INTO outbox VALUES ({number}, '{kind}', 'o{number % 3}', 'Placed', '{{"n": {number}}}')"""


def test_events_that_are_there_and_events_that_come_are_sent_once(broker, database, name):
    database.execute(TABLE)
    database.execute(event(1), event(2, "customer"))
    source, looking = database.source(name), database.source(name)
    work = capture_of(name, source, broker.bootstrap, outbox=outbox_of(name, database), transactions=True)
    with running(work) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(event(3), "INSERT INTO orders VALUES (7, 'a', 1)")
        database.execute(event(4), "DELETE FROM outbox WHERE id = 4")  # as applications do
        database.execute("UPDATE outbox SET payload = '{}' WHERE id = 1", "DELETE FROM outbox")
        caught_up(capture, looking)
    topics = committed(broker.bootstrap, f"{name}.")
    assert [(each.key, each.value, each.headers) for each in topics[f"{name}.event.order"]] == [
        (f"o{number % 3}", {"n": number}, {"id": str(number), "eventType": "Placed"}) for number in (1, 3, 4)
    ]
    assert [each.value for each in topics[f"{name}.event.customer"]] == [{"n": 2}]
    assert f"{name}.{database.schema}.outbox" not in topics
    assert [each.op for each in topics[f"{name}.{database.schema}.orders"]] == ["c"]
    check_transactions(topics, name)


@pytest.mark.parametrize(
    ("step", "is_begun"),
    [
        ("capture.write:before:2", False),
        pytest.param("capture.commit:before:1", False, marks=pytest.mark.servers),
        ("capture.commit:after:1", True),
        pytest.param("capture.write:after:5", True, marks=pytest.mark.servers),
        ("capture.commit:before:3", True),
        pytest.param("capture.commit:after:3", True, marks=pytest.mark.servers),
    ],
)
def test_a_capture_that_is_cut_off_sends_no_event_twice_and_loses_none(
    broker, tmp_path, name, monkeypatch, step, is_begun
):
    monkeypatch.setattr(changes, "AT_ONCE", 3)
    monkeypatch.setattr(snapshot, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.02)
    database = SqliteDatabase(tmp_path / "shop.sqlite")
    orders = [f"INSERT INTO orders VALUES ({number}, 'a', 1)" for number in range(12)]
    database.execute(TABLE, TABLES[0], *(event(number) for number in range(7)), *orders)

    def live(die_at=""):
        source, looking = database.source(name), database.source(name)
        options = {"outbox": outbox_of(name, database), "schema_changes": True}
        return lived(capture_of(name, source, broker.bootstrap, **options), looking, die_at)

    assert live(step)
    database.execute(*(event(number) for number in range(7, 14)))
    database.execute(event(14), "DELETE FROM outbox WHERE id = 14")  # before anybody could read it
    live(step)
    assert not live()
    database.close()
    topics = committed(broker.bootstrap, name)
    sent = [each.value["n"] for each in topics[f"{name}.event.order"]]
    assert sorted(sent) == list(range(15 if is_begun else 14))
    told = [each["id"] for record in topics[name] for each in record.value["tableChanges"]]
    assert sorted(told) == ['"shop"."main"."orders"', '"shop"."main"."outbox"']


def test_events_of_a_table_without_a_key_are_sent_in_one_transaction(broker, tmp_path, name):
    """Their topics are not known when it begins."""
    database = SqliteDatabase(tmp_path / "shop.sqlite")
    database.execute(TABLE.replace(" PRIMARY KEY", ""), event(1), event(2, "customer"))
    source, looking = database.source(name), database.source(name)
    assert not lived(capture_of(name, source, broker.bootstrap, outbox=outbox_of(name, database)), looking)
    database.close()
    topics = committed(broker.bootstrap, f"{name}.event.")
    assert {topic: [each.value["n"] for each in found] for topic, found in topics.items()} == {
        f"{name}.event.order": [1], f"{name}.event.customer": [2],
    }  # fmt: skip


@pytest.mark.servers  # it takes its time
def test_an_event_that_is_too_large_does_not_replace_one_that_goes_where_it_is_put_aside(broker, tmp_path, name):
    database = SqliteDatabase(tmp_path / "shop.sqlite")
    large = event(1).replace('"n": 1', f'"n": 1, "note": "{"x" * 5_000}"')
    database.execute(TABLE)
    with Admin(broker.bootstrap) as admin:
        admin.create(f"{name}.event.order", partitions=1, configs={"max.message.bytes": "2000"})
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap, outbox=outbox_of(name, database))) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(event(2, "order.rejected"), large, event(3, "order.rejected"), event(4))
        caught_up(capture, looking)
    database.close()
    topics = committed(broker.bootstrap, f"{name}.event.")
    assert [each.headers["id"] for each in topics[f"{name}.event.order"]] == ["4"]
    aside = topics[f"{name}.event.order.rejected"]
    assert sorted(each.headers["id"] for each in aside) == ["1", "2", "3"]
    assert [each.headers["id"] for each in aside if "runnel.reason" in each.headers] == ["1"]


def test_an_outbox_that_is_not_there_or_lacks_a_column_is_told(tmp_path):
    database = SqliteDatabase(tmp_path / "shop.sqlite")
    database.execute(TABLE)
    source = database.source()
    with pytest.raises(TableMissing, match=r'has no table "main.outbocks" \(it has main.outbox\)'):
        check(Outbox("main.outbocks"), source, Selection())
    with pytest.raises(InvalidChoice, match=r'"kind" cannot be used: table main.outbox sends aggregateid'):
        check(Outbox("main.outbox", OutboxColumns(route="kind")), source, Selection())
    check(Outbox("main.outbox"), source, Selection())
    database.close()
