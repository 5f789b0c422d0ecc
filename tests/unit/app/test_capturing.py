"""The captures of an app at work, without Spark."""

import itertools
import json
import sqlite3
import threading

import pytest

from runnel import App, Broker
from runnel.app import capturing as at_work
from runnel.app.broker_checks import nouns
from runnel.app.capture_checks import capture_checks
from runnel.app.capturing import CaptureFailed, Captures, WatchedSource, capturing, make_topics, opened
from runnel.app.finding import Mark
from runnel.app.progress import CaptureProgress
from runnel.app.runner import Runner, Running
from runnel.capture.capture import Capture
from runnel.capture.chosen import Mode, Reading
from runnel.capture.errors import DatabaseBusy
from runnel.capture.events import Ended, Passed, Position
from runnel.capture.opening import SCHEMES
from runnel.capture.sqlite import SqliteSource
from runnel.capture.sqlite.changes import SqliteChanges
from runnel.cli import capture_signals
from runnel.client import Admin, Consumer
from runnel.pipeline.errors import JavaMissing
from runnel.pipeline.kafka import Kafka
from runnel.stop_request import StopRequest
from tests.contract.capture.topics import committed
from tests.pipeline.waiting import wait_until

NUMBERS = itertools.count()
SETTINGS = {"auto.create.topics.enable": False}


@pytest.fixture(scope="module")
def broker():
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO customers VALUES (1, 'Anne'), (2, 'Bob')")
    connection.close()
    return path


@pytest.fixture
def write(database):
    connection = sqlite3.connect(database, isolation_level=None)
    yield connection.execute
    connection.close()


@pytest.fixture
def name():
    return f"shop-{next(NUMBERS)}"


def app_of(database, name="shop"):
    app = App("shop")
    captured = app.capture(name, f"sqlite:{database}", tables=["customers"], prefix=name)
    customers = captured.table("customers", key="id", schema="id long, name string")
    app.view(customers.changes(), key="id", name="copy")(lambda changes: changes)
    return app


def told(broker, topic):
    with Consumer(broker.bootstrap, topic) as records:
        values = [json.loads(record.value) for record in records if record.value is not None]
    return [(value["op"], (value["after"] or value["before"])["name"]) for value in values]


def test_they_write_until_the_block_ends(broker, database, write, name):
    app = app_of(database, name)
    kafka = Kafka(broker.bootstrap)
    make_topics(app.captures, kafka)
    with capturing(app.captures, kafka) as captures:
        wait_until(lambda: captures.progress[0].doing == "reads changes" and captures.progress[0].lag is not None)
        write("UPDATE customers SET name = 'Anna' WHERE id = 1")
        wait_until(lambda: len(told(broker, f"{name}.main.customers")) == 3)
        captures.look()
        assert captures.progress[0].rows == 2
    assert told(broker, f"{name}.main.customers") == [("r", "Anne"), ("r", "Bob"), ("u", "Anna")]
    assert not [each for each in threading.enumerate() if each.name.startswith("runnel-capture")]


def test_they_end_when_all_that_was_there_is_in_the_topics(broker, database, write, name):
    app = app_of(database, name)
    for change in ("Anna", "Anni"):
        with capturing(app.captures, Kafka(broker.bootstrap)) as captures:
            captures.catch_up(StopRequest())
            write(f"UPDATE customers SET name = '{change}' WHERE id = 1")
    expected = [("r", "Anne"), ("r", "Bob"), ("u", "Anna")]
    assert told(broker, f"{name}.main.customers") == expected  # the last change was written behind the end


def test_one_that_is_paused_does_not_catch_up_and_says_so(broker, database, name):
    app, kafka = app_of(database, name), Kafka(broker.bootstrap)
    with capturing(app.captures, kafka) as captures:
        captures.catch_up(StopRequest())
    capture_signals.pause(name, broker.bootstrap)
    capture_signals.snapshot(name, bootstrap=broker.bootstrap)
    with capturing(app.captures, kafka) as captures, pytest.raises(CaptureFailed, match="it is paused") as failed:
        captures.catch_up(StopRequest())
    assert failed.value.hint == f"let it go on: runnel capture resume {name}"
    capture_signals.resume(name, broker.bootstrap)
    with capturing(app.captures, kafka) as captures:
        captures.catch_up(StopRequest())
    assert told(broker, f"{name}.main.customers") == [("r", "Anne"), ("r", "Bob")] * 2


# --- each option


@pytest.fixture
def captured(broker, database, name):
    """Capture until all that is there is in the topics; what they hold, by the end of their names."""

    def captured(url=f"sqlite:{database}", **how):
        app = App("shop")
        app.capture(name, url, **how)
        with capturing(app.captures, Kafka(broker.bootstrap)) as captures:
            captures.catch_up(StopRequest())
        topics = committed(broker.bootstrap, name)
        return {topic.removeprefix(f"{name}."): records for topic, records in topics.items()}

    return captured


def after(records):
    return [record.value["after"] for record in records]


def test_tables_and_columns_are_left_out_and_rows_chosen(captured, write):
    write("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    write("INSERT INTO notes VALUES (1)")
    write("ALTER TABLE customers ADD COLUMN email DEFAULT 'a@x'")
    topics = captured(
        without_tables=["notes"], without_columns=["customers.name"], mask=["customers.email:5"],
        where={"customers": "id >= 2"},
    )  # fmt: skip
    assert "main.notes" not in topics
    assert after(topics["main.customers"]) == [{"id": 2, "email": "*****"}]


def test_schemas_transactions_schema_changes_and_partitions_are_as_asked(broker, captured, write, name):
    captured(schemas=True, transactions=True, schema_changes=True, partitions=3)
    write("UPDATE customers SET name = 'Anna' WHERE id = 1")
    topics = captured(schemas=True, transactions=True, schema_changes=True, partitions=3)
    changed = next(each for each in topics["main.customers"] if each.value["payload"]["op"] == "u")
    assert changed.value["schema"]["name"] == f"{name}.main.customers.Envelope"
    assert changed.value["payload"]["transaction"]["total_order"] == 1
    assert [each.value["payload"]["status"] for each in topics["transaction"]] == ["BEGIN", "END"]
    (change,) = topics[name]
    assert change.value["payload"]["tableChanges"][0]["id"] == '"shop"."main"."customers"'
    with Admin(broker.bootstrap) as admin:
        assert len(admin.topic(f"{name}.main.customers").partitions) == 3


def test_the_topics_that_an_app_reads_are_made_with_the_partitions_of_their_capture(broker, database, name):
    app = App("shop")
    app.capture(name, f"sqlite:{database}", partitions=2).table("customers", key="id", schema="id long")
    make_topics(app.captures, Kafka(broker.bootstrap))
    with Admin(broker.bootstrap) as admin:
        assert len(admin.topic(f"{name}.main.customers").partitions) == 2


def test_bytes_are_written_as_asked(captured, write):
    write("UPDATE customers SET name = x'00ff'")
    assert [row["name"] for row in after(captured(binary="hex")["main.customers"])] == ["00ff", "00ff"]


def test_events_of_an_outbox_are_sent_where_it_says(broker, captured, write, name):
    write("CREATE TABLE outbox (id TEXT PRIMARY KEY, aggregatetype, aggregateid, type, payload)")
    write("INSERT INTO outbox VALUES ('e1', 'order', '7', 'made', '{\"n\":1}')")
    assert "main.outbox" not in captured(outbox="outbox", outbox_topic=f"{name}-${{routedByValue}}")
    (event,) = committed(broker.bootstrap, f"{name}-order")[f"{name}-order"]
    assert (event.key, event.value, event.headers) == ("7", {"n": 1}, {"id": "e1", "eventType": "made"})


def test_an_outbox_that_is_not_there_is_told_before_anything_is_written(captured):
    with pytest.raises(CaptureFailed, match='database shop has no table "outbox"'):
        captured(outbox="outbox")


def test_a_heartbeat_is_written_as_often_as_asked(broker, database, name):
    app, beats = App("shop"), f"__debezium-heartbeat.{name}"
    app.capture(name, f"sqlite:{database}", heartbeat="1 millisecond")
    with capturing(app.captures, Kafka(broker.bootstrap)):
        wait_until(lambda: len(committed(broker.bootstrap, beats).get(beats, [])) > 1)


@pytest.mark.parametrize(
    ("mode", "words"), [("incremental", ["incremental", "incremental"]), ("initial", ["first", "last"]), ("none", [])]
)
def test_tables_are_read_as_asked(captured, mode, words):
    records = captured(snapshot=mode).get("main.customers", [])
    assert [each.value["source"]["snapshot"] for each in records] == words


def test_chunks_and_their_rate_are_as_asked(captured, monkeypatch):
    asked = []

    def made(*given, reading, **how):
        asked.append(reading)
        return Capture(*given, reading=reading, **how)

    monkeypatch.setattr("runnel.capture.at_work.Capture", made)
    captured(snapshot="incremental", chunk=1, snapshot_rate=500.0)
    assert asked == [Reading(Mode.INCREMENTAL, 1, 500.0)]


def test_an_app_too_warns_before_the_disk_of_a_server_fills(broker, database, name, monkeypatch, caplog):
    monkeypatch.setattr(SqliteSource, "retained", lambda self: 5_000, raising=False)
    monkeypatch.setattr(SqliteSource, "retained_limit", lambda self: None, raising=False)
    app = App("shop")
    app.capture(name, f"sqlite:{database}", retained_warning=4_000)
    with capturing(app.captures, Kafka(broker.bootstrap)):
        wait_until(lambda: "keeps 5,000 bytes of its log for it, more than 4,000" in caplog.text)


def test_what_only_some_databases_have_reaches_them(tmp_path, monkeypatch):
    reached = {}

    def postgres(*place, **own):
        reached.update(own)
        raise DatabaseBusy("shop", 1.0)

    monkeypatch.setitem(SCHEMES, "postgresql", postgres)
    own = {"decimals": "string", "times": "connect", "slot": "mine", "publication": "ours"}
    captured = App("shop").capture("shop", "postgresql://u@h/shop", in_progress=tmp_path, **own)
    with pytest.raises(DatabaseBusy):
        opened(captured)
    assert reached == {**own, "in_progress": str(tmp_path)}


class Log:
    """A source whose log is so long; each reading is given."""

    def __init__(self, end, readings=()):
        self.end = end
        self.readings = list(readings)

    def changes(self, after, until=None):
        return self

    def behind(self, position):
        return self.end - position.at["lsn"]

    def read(self, seconds):
        return self.readings.pop(0)


NEVER = 4_000_000_000_000_000  # microseconds: the database's clock is far ahead of ours


@pytest.mark.parametrize(
    "reading",
    [(), (Passed({"lsn": 60}),), (Ended("7", {"lsn": 60}, NEVER),)],
    ids=["nothing", "of-others", "of-another-clock"],
)
def test_a_reading_does_not_say_by_itself_that_the_log_is_read(reading, monkeypatch):
    monkeypatch.setattr(at_work, "ASK_EVERY", 0)
    source = WatchedSource(Log(100, [reading, (), (Passed({"lsn": 100}),), ()]))
    changes = source.changes(Position({"lsn": 40}))
    seen = []
    for _ in range(4):
        changes.read(0.5)
        seen.append(source.is_caught_up)
    assert seen == [False, False, False, True]


def test_what_is_written_after_the_beginning_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(at_work, "ASK_EVERY", 0)
    log = Log(100, [(Passed({"lsn": 70}),), (Passed({"lsn": 110}),), ()])
    source = WatchedSource(log)
    changes = source.changes(Position({"lsn": 40}))
    for end in (200, 300):
        log.end = end
        changes.read(0.5)
        assert not source.is_caught_up
    changes.read(0.5)
    assert source.is_caught_up


def test_a_log_that_was_read_before_is_caught_up_at_once():
    source = WatchedSource(Log(40, [()]))
    source.changes(Position({"lsn": 40})).read(0.5)
    assert source.is_caught_up


def test_the_topic_of_an_empty_table_is_there_and_keeps_everything(broker, database, write, name):
    write("DELETE FROM customers")
    make_topics(app_of(database, name).captures, Kafka(broker.bootstrap))
    topic = f"{name}.main.customers"
    with Admin(broker.bootstrap) as admin:
        configs = {each.name: each.value for each in admin.configs([topic])[topic]}
    assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "-1")


def test_a_database_that_is_missing_ends_the_app_before_spark_starts(broker, tmp_path, name):
    app = app_of(tmp_path / "nowhere.sqlite", name)
    with pytest.raises(CaptureFailed, match=f'capture "{name}" has stopped: there is no database') as failed:
        Runner(app, Running(broker.bootstrap, tmp_path / "data")).run()
    assert failed.value.hint == "give the path of a file that is there"


@pytest.mark.parametrize("wanted", ["custmers", "Customers", "sales.customers"])
def test_a_table_that_is_not_there_ends_the_app_and_is_what_the_doctor_finds(broker, database, name, wanted):
    app = App("shop")
    app.capture(name, f"sqlite:{database}").table(wanted, key="id", schema="id long")
    wrong = wanted if "." in wanted else f"main.{wanted}"
    with (
        pytest.raises(CaptureFailed, match=f'has no table "{wrong}"') as failed,
        capturing(app.captures, Kafka(broker.bootstrap)),
    ):
        pass
    assert failed.value.hint == "it has main.customers"
    (finding,) = capture_checks(app)
    assert (finding.mark, finding.hint) == (Mark.WRONG, "it has main.customers")


def test_a_table_that_is_mistyped_leaves_no_topic_behind(broker, database, tmp_path, name):
    app = App("shop")
    customers = app.capture(name, f"sqlite:{database}").table("custmers", key="id", schema="id long")
    app.view(customers.changes(), key="id", name="copy")(lambda changes: changes)
    with pytest.raises(CaptureFailed, match=r'has no table "main\.custmers"'):
        Runner(app, Running(broker.bootstrap, tmp_path / "data")).run()
    with Admin(broker.bootstrap) as admin:
        assert not [topic.name for topic in admin.topics() if topic.name.startswith(f"{name}.")]


@pytest.mark.servers  # it takes its time
def test_a_column_that_is_renamed_while_the_app_runs_is_warned_of_once(broker, database, write, name, caplog):
    def written():
        with Consumer(broker.bootstrap, f"{name}.main.customers") as records:
            return len(list(records))

    with capturing(app_of(database, name).captures, Kafka(broker.bootstrap)) as captures:
        wait_until(lambda: captures.progress[0].doing == "reads changes")
        write("UPDATE customers SET name = 'Anna' WHERE id = 1")
        write("ALTER TABLE customers RENAME COLUMN name TO title")
        said = f'table "{name}.main.customers": the changes of main.customers come without the column name from here on'
        wait_until(lambda: said in caplog.text)
        write("UPDATE customers SET title = 'Anni' WHERE id = 1")
        wait_until(lambda: written() == 6)  # two rows at first, two that are told again, and two changes
    assert caplog.text.count(said) == 1
    assert "which is null then: it has id, title" in caplog.text


def test_a_table_whose_name_no_topic_can_have_is_read(broker, database, write, name):
    write('CREATE TABLE "my orders" (id INTEGER PRIMARY KEY, name TEXT)')
    write("INSERT INTO \"my orders\" VALUES (1, 'tea')")
    app = App("shop")
    orders = app.capture(name, f"sqlite:{database}").table("my orders", key="id", schema="id long, name string")
    with capturing(app.captures, Kafka(broker.bootstrap)) as captures:
        captures.catch_up(StopRequest())
    assert told(broker, orders.topic) == [("r", "tea")]


def test_a_capture_that_fails_later_is_told(broker, database, name, monkeypatch):
    app = app_of(database, name)

    def prepare(_):
        raise ValueError("a defect")

    monkeypatch.setattr(SqliteSource, "prepare", prepare)
    with (
        capturing(app.captures, Kafka(broker.bootstrap)) as captures,
        pytest.raises(ValueError, match="a defect") as failed,
    ):
        wait_until(lambda: captures.look() is not None)
    assert failed.value.__notes__ == [f'in capture "{name}"']


def test_what_a_row_filter_raises_is_told_with_its_capture_and_its_line(broker, database, name):
    app = App("shop")
    app.capture(name, f"sqlite:{database}", where={"customers": lambda row: row["nmae"] != "Bob"})
    said = f"capture \"{name}\" has stopped: the row filter of customers raised KeyError: 'nmae'"
    with (
        pytest.raises(CaptureFailed, match=said) as failed,
        capturing(app.captures, Kafka(broker.bootstrap)) as captures,
    ):
        wait_until(lambda: captures.look() is not None)
    assert f"see {__file__}, line " in failed.value.hint
    assert isinstance(failed.value.__cause__.__cause__, KeyError)


def test_a_database_that_is_busy_is_waited_for(broker, database, name, monkeypatch, caplog):
    """The first look finds it locked."""
    tries = []
    original = SqliteSource.tables

    def locked(source):
        tries.append(source)
        if len(tries) == 1:
            raise DatabaseBusy(str(database), 60)
        return original(source)

    monkeypatch.setattr(SqliteSource, "tables", locked)
    with capturing(app_of(database, name).captures, Kafka(broker.bootstrap)) as captures:
        captures.catch_up(StopRequest())
    assert "waits, and goes on by itself" in caplog.text
    assert told(broker, f"{name}.main.customers") == [("r", "Anne"), ("r", "Bob")]


def test_a_capture_that_waits_in_the_middle_says_so(broker, database, name, monkeypatch):
    away, original = threading.Event(), SqliteChanges.read

    def read(changes, seconds):
        if away.is_set():
            raise DatabaseBusy(str(database), 60)
        return original(changes, seconds)

    monkeypatch.setattr(SqliteChanges, "read", read)
    with capturing(app_of(database, name).captures, Kafka(broker.bootstrap)) as captures:
        wait_until(lambda: captures.progress[0].doing == "reads changes")
        away.set()
        waiting = CaptureProgress(name, "waits for its database or the cluster", 2, 100.0)
        wait_until(lambda: captures.progress[0] == waiting)
        away.clear()
        wait_until(lambda: captures.progress[0].doing == "reads changes")


def test_a_run_that_ends_captures_first(broker, database, tmp_path, name, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing):
        Runner(app_of(database, name), Running(broker.bootstrap, tmp_path / "data", until_caught_up=True)).run()
    assert told(broker, f"{name}.main.customers") == [("r", "Anne"), ("r", "Bob")]


def test_a_test_that_plays_rows_needs_no_database(broker, tmp_path, name, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    held = tmp_path / "held"
    held.mkdir()
    with pytest.raises(JavaMissing):
        Runner(app_of(tmp_path / "nowhere.sqlite", name), Running(broker.bootstrap, tmp_path / "data", held=held)).run()


def test_the_doctor_looks_for_the_database(database, tmp_path):
    (well,) = capture_checks(app_of(database))
    assert (well.mark, well.what, well.found) == (
        Mark.WELL,
        'capture "shop"',
        f"sqlite:{database} answers: main.customers",
    )
    (wrong,) = capture_checks(app_of(tmp_path / "nowhere.sqlite"))
    assert (wrong.mark, wrong.hint) == (Mark.WRONG, "give the path of a file that is there")
    assert list(capture_checks(None)) == []
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall() == []
    connection.close()


def test_the_doctor_does_not_miss_a_topic_that_the_capture_makes(database):
    assert nouns(app_of(database)) == []


def test_progress_in_words():
    assert str(CaptureProgress("shop")) == "capture shop waits for its database, 0 rows read"
    reading = CaptureProgress("shop", "reads tables", 1_200, 48.4)
    assert str(reading) == "capture shop reads tables, 1,200 rows read, 48 %"
    streaming = CaptureProgress("shop", "reads changes", 2_500, 100.0, 0.25)
    assert str(streaming) == "capture shop reads changes, 2,500 rows read, 0.2 s behind"


def test_no_captures_are_no_trouble(broker):
    captures = Captures([], Kafka(broker.bootstrap))
    captures.start()
    captures.catch_up(StopRequest())
    assert captures.progress == ()
