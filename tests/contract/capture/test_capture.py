"""A capture from its database into the topics of a broker."""

import itertools
import json
import threading
from collections import Counter

import pytest

from runnel.capture import capture as captures
from runnel.capture.errors import OtherCapture, SameTopic, TooLongWithoutKey
from runnel.capture.selection import Selection
from runnel.capture.snapshots import pieces
from runnel.capture.tables import TableId
from runnel.client.errors import Fenced, Overdue, TransactionLost
from runnel.client.transaction import Transaction
from runnel.errors import Transient
from tests.contract.capture.conftest import SqliteDatabase
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import check_transactions, committed, rebuilt

numbers = itertools.count()


@pytest.fixture
def name():
    return f"shop{next(numbers)}"


def orders_of(broker, name, database):
    return committed(broker.bootstrap, f"{name}.")[f"{name}.{database.schema}.orders"]


def test_rows_that_are_there_come_first_and_then_every_change(broker, database, name):
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)", "INSERT INTO orders VALUES (2, 'b', 20)",
                     "INSERT INTO loose VALUES (1, 1)", "INSERT INTO loose VALUES (1, 1)")  # fmt: skip
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("UPDATE orders SET id = 7 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
        database.execute("DELETE FROM loose", "INSERT INTO loose VALUES (2, 2)")
        caught_up(capture, looking)
    topics = committed(broker.bootstrap, f"{name}.")
    orders = topics[f"{name}.{database.schema}.orders"]
    assert [(each.key, each.op) for each in orders] == [
        ('{"id":1}', "r"), ('{"id":2}', "r"),
        ('{"id":1}', "d"), ('{"id":1}', None), ('{"id":7}', "c"), ('{"id":2}', "d"), ('{"id":2}', None),
    ]  # fmt: skip
    words = Counter(each.value["source"]["snapshot"] for found in topics.values() for each in found if each.value)
    assert words == {"first": 1, "first_in_data_collection": 1, "last_in_data_collection": 2, "false": 6}
    loose = rebuilt(topics[f"{name}.{database.schema}.loose"])
    assert loose.bag == Counter({json.dumps({"x": 2, "y": 2}): 1})


def test_a_row_whose_chosen_key_changes_leaves_nothing_under_the_old_one(broker, database, name):
    chosen = Selection(tables=[r".*\.orders"], keys={r".*\.orders": ["name"]})
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)")
    source, looking = database.source(name, chosen), database.source(name, chosen)
    with running(capture_of(name, source, broker.bootstrap, chosen)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("UPDATE orders SET id = 7 WHERE id = 1")
        database.execute("UPDATE orders SET name = 'b' WHERE id = 7")
        caught_up(capture, looking)
    assert [(each.key, each.op, each.headers) for each in orders_of(broker, name, database)] == [
        ('{"name":"a"}', "r", {}),
        ('{"name":"a"}', "u", {}),
        ('{"name":"a"}', "d", {"__debezium.newkey": '{"name":"b"}'}),
        ('{"name":"a"}', None, {"__debezium.newkey": '{"name":"b"}'}),
        ('{"name":"b"}', "c", {"__debezium.oldkey": '{"name":"a"}'}),
    ]


def test_a_capture_goes_on_where_it_was(broker, database, name):
    for round in range(3):
        source, looking = database.source(name), database.source(name)
        database.execute(f"INSERT INTO orders VALUES ({round}, 'a', 10)")
        with running(capture_of(name, source, broker.bootstrap, transactions=True)) as capture:
            wait_until(capture.is_streaming.is_set)
            database.execute(f"UPDATE orders SET price = 11 WHERE id = {round}")
            caught_up(capture, looking)
    orders = orders_of(broker, name, database)
    assert [each.op for each in orders] == ["r", "u", "c", "u", "c", "u"]
    check_transactions(committed(broker.bootstrap, f"{name}."), name)


def test_what_passes_is_waited_for(broker, database, name, monkeypatch, caplog):
    source, looking = database.source(name), database.source(name)
    changes = source.changes
    failures = iter([Transient("the database is away"), Transient("it is away still")])

    def sometimes(*given):
        if (failure := next(failures, None)) is not None:
            raise failure
        return changes(*given)

    monkeypatch.setattr(source, "changes", sometimes)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        database.execute("INSERT INTO orders VALUES (1, 'a', 10)")
        wait_until(capture.is_streaming.is_set)
        caught_up(capture, looking)
    assert [(each.key, each.op) for each in orders_of(broker, name, database)] in (
        [('{"id":1}', "c")],
        [('{"id":1}', "r")],  # it was there when the tables were read
    )
    assert "waits, and goes on by itself: it is away still" in caplog.text


def test_a_capture_whose_database_is_away_does_not_say_that_it_reads_changes(broker, database, name, monkeypatch):
    source = database.source(name)
    changes, away = source.changes, threading.Event()

    def sometimes(*given):
        found = changes(*given)
        reading = found.read

        def read(seconds):
            if away.is_set():
                raise Transient("the database is away")
            return reading(seconds)

        found.read = read
        return found

    monkeypatch.setattr(source, "changes", sometimes)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        away.set()
        wait_until(lambda: not capture.is_streaming.is_set())
        away.clear()
        wait_until(capture.is_streaming.is_set)


def test_a_second_copy_fences_the_first(broker, database, name):
    first, second = database.source(name), database.source(name)
    looking = database.source(name)
    old = capture_of(name, first, broker.bootstrap)
    refused: list[BaseException] = []

    def run() -> None:
        try:
            old.run()
        except Fenced as error:
            refused.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(old.is_streaming.is_set)
    with running(capture_of(name, second, broker.bootstrap)) as new:
        wait_until(new.is_streaming.is_set)
        database.execute("INSERT INTO orders VALUES (1, 'a', 10)")
        caught_up(new, looking)
        thread.join()  # it reads the same, and is refused when it writes
    assert refused
    assert [(each.key, each.op) for each in orders_of(broker, name, database)] == [('{"id":1}', "c")]


def test_records_of_a_key_are_in_one_partition(broker, database, name):
    database.execute(*(f"INSERT INTO orders VALUES ({number}, 'a', 10)" for number in range(50)))
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap, partitions=3)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("UPDATE orders SET price = 11")
        caught_up(capture, looking)
    orders = orders_of(broker, name, database)
    partitions = {}
    for each in orders:
        partitions.setdefault(each.key, set()).add(each.partition)
    assert len(orders) == 100
    assert all(len(found) == 1 for found in partitions.values())
    assert set.union(*partitions.values()) == {0, 1, 2}


def test_a_table_that_is_chosen_later_is_read_then(broker, database, name):
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)", "INSERT INTO pairs VALUES ('a', 1, 1)")
    narrow = Selection(tables=[rf"{database.schema}\.orders"])
    source, looking = database.source(name, narrow), database.source(name, narrow)
    with running(capture_of(name, source, broker.bootstrap, narrow)) as capture:
        caught_up(capture, looking)
    database.execute("INSERT INTO pairs VALUES ('b', 1, 1)", "UPDATE orders SET price = 12")
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        wait_until(lambda: capture.is_streaming.is_set() and capture.state.is_complete)
        database.execute("UPDATE pairs SET v = 2 WHERE a = 'a'")
        caught_up(capture, looking)
    topics = committed(broker.bootstrap, f"{name}.")
    assert [each.op for each in topics[f"{name}.{database.schema}.orders"]] == ["r", "u"]
    pairs = [each.op for each in topics[f"{name}.{database.schema}.pairs"]]
    if source.connector == "mariadb":  # its log has the changes of all tables, chosen or not
        assert pairs.pop(0) == "c"
    assert pairs == ["r", "r", "u"]


def same_topic(database, name):
    """What is said of the tables a_b and a$b."""
    tables = rf'table "{database.schema}\.a_b" cannot be captured beside "{database.schema}\.a\$b": '
    return rf"{tables}the topic of both would be {name}\.{database.schema}\.a_b"


def test_a_table_that_comes_later_with_the_topic_of_another_is_refused_at_the_next_start(broker, database, name):
    database.execute("CREATE TABLE a$b (id INTEGER PRIMARY KEY)")
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        caught_up(capture, looking)
    database.execute("CREATE TABLE a_b (id INTEGER PRIMARY KEY)")
    with pytest.raises(SameTopic, match=same_topic(database, name)):
        capture_of(name, database.source(name), broker.bootstrap).run()


def test_a_table_that_comes_while_it_runs_with_the_topic_of_another_ends_it_before_a_row_is_told(
    broker, tmp_path, name
):
    database = SqliteDatabase(tmp_path / "shop.sqlite")
    database.execute("CREATE TABLE a$b (id INTEGER PRIMARY KEY)", "INSERT INTO a$b VALUES (1)")
    work, refused = capture_of(name, database.source(name), broker.bootstrap), []

    def run():
        with pytest.raises(SameTopic, match=same_topic(database, name)) as failed:
            work.run()
        refused.append(failed)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(work.is_streaming.is_set)
        database.execute("CREATE TABLE a_b (id INTEGER PRIMARY KEY)", "INSERT INTO a_b VALUES (2)")
        wait_until(lambda: refused)
    finally:
        work.stop()
        thread.join()
    database.close()
    assert [each.key for each in committed(broker.bootstrap, f"{name}.")[f"{name}.main.a_b"]] == ['{"id":1}']


def test_a_heartbeat_comes_when_it_is_asked_for(broker, database, name):
    with running(capture_of(name, database.source(name), broker.bootstrap, heartbeat=0.01)) as capture:
        wait_until(capture.is_streaming.is_set)
        step = capture.state.step
        wait_until(lambda: capture.state.step > step + 1)
    beats = committed(broker.bootstrap, f"__debezium-heartbeat.{name}")
    assert len(beats[f"__debezium-heartbeat.{name}"]) >= 2


def test_a_name_that_was_used_for_another_kind_of_database_is_refused(broker, database, name):
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
    other = database.source(name)
    type(other).connector, kind = "oracle", other.connector
    try:
        with pytest.raises(OtherCapture, match=f'"{name}" has read from {kind} before, and this is oracle'):
            capture_of(name, other, broker.bootstrap).run()
    finally:
        type(other).connector = kind


@pytest.fixture
def endless(monkeypatch):
    """A table without a key that never ends."""
    begun = threading.Event()

    def endless(snapshot, table, told, *, is_end):
        for piece in pieces(snapshot, table, told, is_end=is_end):
            yield piece._replace(is_last=bool(table.key))
            while not table.key:
                begun.set()
                yield piece._replace(is_first=False, is_last=False)

    monkeypatch.setattr(captures, "pieces", endless)
    return begun


def test_a_capture_stops_in_the_middle_of_a_table_without_a_key_and_nothing_of_it_is_committed(
    broker, database, name, endless
):
    database.execute("INSERT INTO loose VALUES (1, 1)")
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(endless.is_set)
    assert capture.state.table(TableId(database.schema, "loose")).state == "pending"
    assert not committed(broker.bootstrap, f"{name}.").get(f"{name}.{database.schema}.loose")


@pytest.fixture
def lost(monkeypatch):
    """Commits that fail: by their numbers, with what."""
    failures, count = {}, itertools.count(1)

    def commit(self):
        if (error := failures.get(next(count))) is not None:
            raise error
        ended(self)

    ended = Transaction.commit
    monkeypatch.setattr(Transaction, "commit", commit)
    return failures


def test_a_transaction_that_is_lost_is_written_again_and_told(broker, database, name, lost, caplog):
    database.execute("INSERT INTO loose VALUES (1, 1)")
    source, looking = database.source(name), database.source(name)
    lost[2] = Overdue(name, "its coordinator", "it was open for 301 s")  # the first one begins
    lost[3] = TransactionLost(name, "its coordinator", "it does not know it")
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        caught_up(capture, looking)
    loose = committed(broker.bootstrap, f"{name}.")[f"{name}.{database.schema}.loose"]
    assert [each.op for each in loose] == ["r"]
    assert f"capture {name} writes again what was not committed: the transaction of" in caplog.text
    assert "it was open for 301 s" in caplog.text


def test_a_table_without_a_key_that_takes_too_long_twice_ends_the_capture(broker, database, name, lost):
    database.execute("INSERT INTO loose VALUES (1, 1)")
    lost.update({number: Overdue(name, "its coordinator", "it was open for 301 s") for number in (2, 3)})
    with pytest.raises(
        TooLongWithoutKey,
        match=r"loose has taken more than 300 s twice.*give the table a primary key.*tables NAME --remove",
    ):
        capture_of(name, database.source(name), broker.bootstrap).run()
