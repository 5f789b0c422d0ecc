"""Tables that are read by chunks beside their changes, from a database into the topics of a broker."""

import itertools
import json
import random
import threading
import time

import pytest

from runnel.capture import capture as captures
from runnel.capture.chosen import Mode
from runnel.capture.errors import NoKey
from runnel.capture.selection import Selection
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.signalling import signal, signal_text
from tests.contract.capture.topics import committed, line_of_place, rebuilt

numbers = itertools.count()

KEYED = Selection(without_tables=[r".*\.loose"])
ORDERS = Selection(tables=[r".*\.orders"])


@pytest.fixture
def name():
    return f"chunked{next(numbers)}"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(captures, "SIGNAL_MICROS", 20_000)
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.05)


class Lives:
    """Lives of a capture of one name, one after another."""

    def __init__(self, broker, database, name):
        self.broker, self.database, self.name = broker, database, name

    def begin(self, mode=Mode.INCREMENTAL, selection=KEYED, **options):
        source = self.database.source(self.name, selection)
        self.looking = self.database.source(self.name, selection)
        return running(
            capture_of(self.name, source, self.broker.bootstrap, selection, snapshot=mode, **{"chunk": 7, **options})
        )

    def table(self, capture, table="orders"):
        return capture.state.tables.get(f"{self.database.schema}.{table}")

    def signal(self, kind, **data):
        signal(self.broker.bootstrap, self.name, kind, data)

    def execute(self, *tables, **more):
        self.signal("execute-snapshot", **{"data-collections": [rf".*\.{each}" for each in tables]}, **more)

    def records(self, table="orders"):
        topics = committed(self.broker.bootstrap, f"{self.name}.")
        return topics.get(f"{self.name}.{self.database.schema}.{table}", [])

    def read_keys(self, table="orders"):
        return [json.loads(each.key)["id"] for each in self.records(table) if each.op == "r"]


@pytest.fixture
def lives(broker, database, name):
    return Lives(broker, database, name)


def orders(first, last, price=1):
    return [f"INSERT INTO orders VALUES ({number}, 'a', {price})" for number in range(first, last)]


def texts(rows):
    return sorted(tuple(str(value) for value in row) for row in rows)


def latest(records):
    """The rows as the last word of each key tells them."""
    rows = {}
    for each in records:
        if each.value is not None and each.op == "t":
            rows.clear()
        elif each.value is not None and each.value["after"] is not None:
            rows[each.key] = each.value["after"]
        else:
            rows.pop(each.key, None)
    return texts(row.values() for row in rows.values())


def write(database, chance, number):
    """Rows that come, change, move to other keys, and go: before and behind where reading is."""
    key, other = chance.randrange(150), 1_000 + number
    database.execute(
        *chance.choice(
            [
                [f"UPDATE orders SET price = {number} WHERE id % 10 = {key % 10}"],
                [f"UPDATE orders SET id = {other} WHERE id = {key}"],
                [f"UPDATE orders SET id = -{other} WHERE id = {key}"],
                [f"DELETE FROM orders WHERE id = {key}"],
                [f"DELETE FROM orders WHERE id = {key}", f"INSERT INTO orders VALUES ({key}, 'b', {number})"],
                [f"INSERT INTO orders VALUES ({other}, 'c', {number})"],
                [f"UPDATE pairs SET v = {number} WHERE b = {key % 10}"],
                [f"UPDATE pairs SET b = {other} WHERE a = 'a' AND b = {key % 10}"],
                [f"DELETE FROM pairs WHERE b = {key % 20}"],
            ]
        )
    )


def test_tables_that_change_while_they_are_read_converge(lives, database):
    database.execute(*orders(0, 150), *(f"INSERT INTO pairs VALUES ('{a}', {b}, 0)" for a in "abc" for b in range(20)))
    chance = random.Random(7)
    with lives.begin() as capture:
        wait_until(lambda: len(capture.state.tables) == 2)
        for number in range(1, 400):
            write(database, chance, number)
            if number > 40 and capture.state.is_complete:
                break
        wait_until(lambda: capture.state.is_complete)
        database.execute("UPDATE orders SET price = 0 WHERE id % 2 = 0")
        caught_up(capture, lives.looking)
        states = dict(capture.state.tables)
    for table in ("orders", "pairs"):
        since = states[f"{database.schema}.{table}"].since
        found = rebuilt(lives.records(table), complete_from=line_of_place(since))
        assert texts(row.values() for row in found.rows.values()) == texts(database.rows(table))
        read = [each for each in lives.records(table) if each.op == "r"]
        assert {each.value["source"]["snapshot"] for each in read} == {"incremental"}
        assert len(read) > (10 if table == "orders" else 0)  # a quick writer deletes most of the pairs before


def test_a_table_that_is_emptied_while_it_is_read_converges(lives, database):
    empty = "DELETE FROM orders" if database.schema == "main" else "TRUNCATE orders"  # which SQLite does not have
    database.execute(*orders(0, 60))
    with lives.begin(chunk=4) as capture:
        wait_until(lambda: lives.table(capture) and lives.table(capture).rows >= 8)
        database.execute(empty, *orders(50, 55, price=2))
        wait_until(lambda: capture.state.is_complete)
        caught_up(capture, lives.looking)
    assert latest(lives.records()) == texts(database.rows("orders"))


def test_reading_goes_on_in_the_next_life(lives, database):
    database.execute(*orders(0, 40))
    with lives.begin(selection=ORDERS, rate=10) as capture:
        wait_until(lambda: lives.table(capture) and lives.table(capture).rows)
    key = lives.table(capture).key
    assert key is not None
    database.execute("UPDATE orders SET price = 2", "DELETE FROM orders WHERE id = 0")
    with lives.begin(selection=ORDERS) as capture:
        wait_until(lambda: capture.state.is_complete)
        caught_up(capture, lives.looking)
    assert sorted(lives.read_keys()) == list(range(40))  # each was read once
    assert latest(lives.records()) == texts(database.rows("orders"))


def test_a_table_without_a_key_is_refused(lives, broker, database, name):
    source = database.source(name)
    told = f'table "{database.schema}.loose" cannot be read by chunks: it has no primary key'
    with pytest.raises(NoKey, match=told) as refused:
        capture_of(name, source, broker.bootstrap, snapshot=Mode.INCREMENTAL).run()
    assert refused.value.hint == (
        "give it one, leave it out with --without-tables, or read the tables with --snapshot initial"
    )


def test_with_no_snapshot_only_changes_are_told(lives, database):
    database.execute(*orders(0, 3))
    with lives.begin(Mode.NONE, Selection()) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("UPDATE orders SET price = 2 WHERE id = 1")
        caught_up(capture, lives.looking)
        assert capture.state.is_complete
    assert [(each.key, each.op) for each in lives.records()] == [('{"id":1}', "u")]


@pytest.mark.servers
def test_a_table_is_read_again_when_it_is_asked_for(lives, database):
    database.execute(*orders(0, 20), "INSERT INTO pairs VALUES ('a', 1, 1)")
    with lives.begin(Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.execute("orders")
        wait_until(lambda: lives.table(capture).rows == 20 and capture.state.is_complete)
        lives.execute("orders")
        wait_until(lambda: capture.state.signals == 2 and capture.state.is_complete)
    assert lives.read_keys() == [*range(20), *range(20)]
    assert lives.records("pairs") == []


def test_only_rows_that_a_filter_lets_pass_are_read(lives, database):
    database.execute(*orders(0, 40))
    with lives.begin(Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        conditions = [{"data-collection": r".*\.orders", "filter": "id > 10 AND id % 5 = 0 -- 100 %"}]
        lives.execute("orders", **{"additional-conditions": conditions})
        wait_until(lambda: capture.state.signals and capture.state.is_complete)
    assert lives.read_keys() == [15, 20, 25, 30, 35]


def test_a_filter_that_is_none_stops_its_snapshot_and_changes_go_on(lives, database, caplog):
    where = "this is no SQL"
    database.execute(*orders(0, 3))
    with lives.begin(Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.execute("orders", **{"additional-conditions": [{"data-collection": r".*\.orders", "filter": where}]})
        wait_until(lambda: capture.state.signals and capture.state.is_complete)
        database.execute("UPDATE orders SET price = 2 WHERE id = 1")
        caught_up(capture, lives.looking)
    assert [each.op for each in lives.records()] == ["u"]
    assert f'rows of "{database.schema}.orders" cannot be chosen by "{where}"' in caplog.text
    assert len(database.rows("orders")) == 3


@pytest.mark.servers
def test_reading_is_paused_over_lives_and_resumed(lives, database):
    database.execute(*orders(0, 20))
    with lives.begin(Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.signal("pause-snapshot")
        lives.execute("orders")
        wait_until(lambda: capture.state.signals == 2)
        assert capture.state.is_paused
        database.execute("UPDATE orders SET price = 2 WHERE id = 3")
        caught_up(capture, lives.looking)
        assert lives.table(capture).state == "pending"
    with lives.begin(Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("UPDATE orders SET price = 3 WHERE id = 4")
        caught_up(capture, lives.looking)
        assert lives.table(capture).state == "pending"
        assert lives.read_keys() == []
        lives.signal("resume-snapshot")
        wait_until(lambda: capture.state.is_complete)
    assert latest(lives.records()) == texts(database.rows("orders"))


def test_a_clock_that_is_set_back_holds_up_neither_signals_nor_chunks(lives):
    lives.database.execute(*orders(0, 20))
    ahead = 3_600_000_000
    with lives.begin(mode=Mode.NONE, rate=1_000, micros=lambda: time.time_ns() // 1000 + ahead) as capture:
        lives.execute("orders")
        wait_until(lambda: capture.state.signals == 1 and capture.state.is_complete)
        ahead = 0
        lives.execute("orders")
        wait_until(lambda: capture.state.signals == 2 and capture.state.is_complete)
    assert lives.read_keys() == [*range(20), *range(20)]


@pytest.mark.servers
def test_reading_is_stopped(lives, database):
    database.execute(*orders(0, 20))
    with lives.begin(rate=1, chunk=2) as capture:
        wait_until(lambda: lives.table(capture) and lives.table(capture).rows)
        lives.signal("stop-snapshot", **{"data-collections": [r".*\.orders"]})
        wait_until(lambda: capture.state.signals)
        assert lives.table(capture).state == "partial"
    with lives.begin() as capture:
        database.execute("UPDATE orders SET price = 2 WHERE id = 19")
        caught_up(capture, lives.looking)
        assert lives.table(capture).state == "partial"
    assert 0 < len(lives.read_keys()) < 20
    assert lives.records()[-1].op == "u"


def test_broken_signals_are_told_and_passed_over(lives, broker, database, name, caplog):
    with lives.begin(Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        signal_text(broker.bootstrap, name, "hello")
        signal_text(broker.bootstrap, name, "{}", key="somebody")
        lives.execute("nothing")
        lives.signal("pause-snapshot")
        wait_until(lambda: capture.state.signals == 4)
        assert capture.state.is_paused
    for reason in ("'hello' is no JSON", "its key is 'somebody'", r"no captured table is called .*\.nothing"):
        assert reason in caplog.text


def test_a_table_that_is_made_while_it_runs_is_read_when_it_is_asked_for(lives, database):
    with lives.begin(Mode.INCREMENTAL, KEYED) as capture:
        wait_until(lambda: capture.state.is_complete)
        database.execute("CREATE TABLE later (id INTEGER PRIMARY KEY, v INTEGER)", "INSERT INTO later VALUES (1, 1)")
        lives.execute("later")
        wait_until(lambda: lives.table(capture, "later") and capture.state.signals and capture.state.is_complete)
        database.execute("INSERT INTO later VALUES (2, 2)")
        wait_until(lambda: len(latest(lives.records("later"))) == 2)
    assert latest(lives.records("later")) == texts(database.rows("later"))


@pytest.mark.servers
def test_a_table_that_comes_back_is_read_again(lives, database):
    database.execute("INSERT INTO pairs VALUES ('a', 1, 1)", *orders(0, 3))
    with lives.begin() as capture:
        wait_until(lambda: capture.state.is_complete)
    with lives.begin(selection=ORDERS) as capture:
        database.execute(
            "UPDATE pairs SET v = 2", "INSERT INTO pairs VALUES ('b', 1, 1)", "UPDATE orders SET price = 2"
        )
        caught_up(capture, lives.looking)
        assert lives.table(capture, "pairs") is None
    database.execute("DELETE FROM pairs WHERE a = 'b'")
    with lives.begin() as capture:
        wait_until(lambda: lives.table(capture, "pairs") and capture.state.is_complete)
        caught_up(capture, lives.looking)
    assert latest(lives.records("pairs")) == texts(database.rows("pairs"))
    assert [each.op for each in lives.records()] == ["r"] * 3 + ["u"] * 3


@pytest.mark.servers
def test_a_table_that_is_dropped_while_it_is_read_is_forgotten_and_its_topic_emptied(lives, database):
    database.execute(*orders(0, 30), "INSERT INTO pairs VALUES ('a', 1, 1)")
    with lives.begin(rate=40, chunk=4) as capture:
        wait_until(lambda: lives.table(capture) and lives.table(capture).rows)
        database.execute("DROP TABLE orders")
        wait_until(lambda: capture.state.is_complete)
        database.execute("UPDATE pairs SET v = 2")
        caught_up(capture, lives.looking)
        wait_until(lambda: lives.table(capture) is None)
    assert [each.op for each in lives.records("pairs")] == ["r", "u"]
    assert lives.records("orders")[-1].op == "t"


@pytest.mark.servers
def test_a_column_that_is_added_while_a_table_is_read_is_told(lives, database):
    database.execute(*orders(0, 60))
    with lives.begin(rate=400, chunk=4) as capture:
        wait_until(lambda: lives.table(capture) and lives.table(capture).rows)
        database.execute("ALTER TABLE orders ADD COLUMN city TEXT")
        database.execute("UPDATE orders SET city = 'Graz'")
        wait_until(lambda: capture.state.is_complete)
        caught_up(capture, lives.looking)
    assert latest(lives.records()) == texts(database.rows("orders"))


@pytest.mark.servers
def test_a_snapshot_that_was_not_finished_goes_on_by_chunks(lives, database, monkeypatch):
    """Somebody who has waited long enough for the first reading starts it again with another mode."""
    database.execute(*orders(0, 30))
    stopped = threading.Event()
    publish = captures.Capture._publish

    def publish_once(capture, out, state):
        publish(capture, out, state)
        if capture.state.tables[f"{database.schema}.orders"].state == "pending":
            stopped.set()
            capture.stop()

    with monkeypatch.context() as patched:
        patched.setattr(captures.Capture, "_publish", publish_once)
        with lives.begin(Mode.INITIAL, ORDERS):
            wait_until(stopped.is_set)
    database.execute("UPDATE orders SET price = 2 WHERE id = 3")
    with lives.begin(Mode.INCREMENTAL, ORDERS) as capture:
        wait_until(lambda: capture.state.is_complete)
        caught_up(capture, lives.looking)
    assert sorted(lives.read_keys()) == list(range(30))
    assert latest(lives.records()) == texts(database.rows("orders"))
