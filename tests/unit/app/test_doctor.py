"""What the doctor finds, without Spark. What a run has left behind is looked at in tests/pipeline/test_doctor.py."""

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from runnel import App, Broker
from runnel.app import machine_checks
from runnel.app.broker_checks import clock, nouns, served
from runnel.app.doctor import Patient, examine
from runnel.app.finding import Mark
from runnel.app.kept_checks import store
from runnel.client import Producer
from runnel.files import DiskFiles
from runnel.pipeline.kafka import Kafka
from runnel.pipeline.place import Place

NOBODY = 65_534
NOW = 1_767_225_600_000
APP = """
from runnel import App
app = App("shop")
clicks = app.stream("clicks", schema="page string, at timestamp", time="at", late="1 second")
app.view(clicks, key="page", name="pages")(lambda clicks: clicks)
"""


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def found(patient):
    return {each.what: each for each in examine(patient)}


def test_an_app_that_could_run(broker, file, tmp_path):
    broker.create_topic("clicks", 3)
    checks = found(Patient(file, broker.bootstrap, tmp_path / "data"))
    assert {each.mark for each in checks.values()} <= {Mark.WELL, Mark.NOTE}
    assert checks["app"].found == "shop: pages"
    assert checks["topic clicks"].found == "3 partitions"
    assert checks["checkpoint of pages"].found == "not begun yet"
    assert f"{broker.bootstrap} answers: Kafka's protocol" in checks["broker"].found
    assert not (tmp_path / "data").exists()


def test_a_missing_topic(broker, tmp_path):
    file = tmp_path / "app.py"
    file.write_text(APP.replace('"clicks"', '"missing"'))
    check = found(Patient(file, broker.bootstrap, tmp_path))["topic missing"]
    assert (check.mark, check.found) == (Mark.WRONG, "it is not there")
    assert "runnel topics create missing" in check.hint


def test_a_broker_that_should_be_there_and_one_that_need_not(file, tmp_path):
    chosen = found(Patient(file, "127.0.0.1:1", tmp_path))["broker"]
    assert (chosen.mark, "no broker answers at 127.0.0.1:1" in chosen.found) == (Mark.WRONG, True)
    default = found(Patient(file, "127.0.0.1:1", tmp_path, is_chosen=False))
    assert (default["broker"].mark, "runnel up" in default["broker"].hint) == (Mark.NOTE, True)
    assert "cannot be told without a broker" in default["checkpoint of pages"].found


def test_a_file_that_is_no_app(broker, tmp_path):
    file = tmp_path / "app.py"
    file.write_text("1 / 0")
    check = found(Patient(file, broker.bootstrap, tmp_path))["app"]
    assert (check.mark, "ZeroDivisionError" in check.found) == (Mark.WRONG, True)


def test_what_a_file_prints_is_no_part_of_what_is_found(broker, tmp_path, capsys):
    file = tmp_path / "app.py"
    file.write_text(f"print('hello')\n{APP}")
    assert found(Patient(file, broker.bootstrap, tmp_path))["app"].mark is Mark.WELL
    assert capsys.readouterr() == ("", "hello\n")


def test_a_file_that_ends_the_program_does_not_end_the_doctor(broker, tmp_path):
    file = tmp_path / "app.py"
    file.write_text("import sys\nsys.exit(f'usage: {sys.argv[0]} TOPIC')")
    checks = found(Patient(file, broker.bootstrap, tmp_path))
    assert (checks["app"].mark, "line 2: it ends the program: usage" in checks["app"].found) == (Mark.WRONG, True)
    assert checks["broker"].mark is Mark.WELL


def test_a_directory_that_others_may_not_look_into(broker, file):
    """As where a service runs as a user of its own."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        data = Path(home, "data")
        data.mkdir()
        DiskFiles().lock(str(data / "lock")).release()
        app = Path(home, "shop.py")
        app.write_text(APP)
        os.chmod(home, 0o755)
        os.chmod(data, 0)
        os.seteuid(NOBODY if user == 0 else user)
        try:
            checks = list(examine(Patient(app, broker.bootstrap, data)))
            deeper = list(examine(Patient(None, broker.bootstrap, data / "deeper")))
        finally:
            os.seteuid(user)
            os.chmod(data, 0o700)
    for each in (checks, deeper):
        assert "ask as the user who runs the app" in [check.hint for check in each if check.mark is Mark.WRONG]


@pytest.mark.parametrize("data", ["taken", "taken/below"])
def test_a_file_where_the_directory_is_to_be(broker, file, tmp_path, data):
    (tmp_path / "taken").touch()
    every = list(examine(Patient(file, broker.bootstrap, tmp_path / data)))
    of_directory = [each for each in every if each.what == "data directory"]
    assert [(each.mark, each.hint) for each in of_directory] == [
        (Mark.WRONG, "name another one, or move the file away")
    ]
    assert of_directory[0].found.endswith(f"{tmp_path / 'taken'} is a file")


def test_settings_that_are_none(broker, tmp_path):
    check = found(Patient(None, broker.bootstrap, tmp_path, settings={"security.protocol": "odd"}))["broker"]
    assert check.mark is Mark.WRONG


def test_a_store_that_does_not_answer_and_its_password(broker, tmp_path):
    check = found(Patient(None, broker.bootstrap, tmp_path, "postgresql://me:secret@127.0.0.1:1/views"))["store"]
    assert check.mark is Mark.WRONG
    assert "secret" not in check.found + check.hint


def test_the_password_of_a_store_that_answers_is_not_shown(monkeypatch, tmp_path):
    monkeypatch.setattr(Place, "store", lambda _: SimpleNamespace(names=lambda: ["pages"]))
    for address in ("postgresql://me:secret@there/views", "postgresql://there/views?user=me&password=secret&x=1"):
        found = store(Place("shop", Kafka("127.0.0.1:1"), tmp_path, address)).found
        assert "secret" not in found
        assert found.startswith("postgresql://")
        assert found.endswith(": pages")


def test_an_app_that_runs_is_told(broker, file, tmp_path):
    lock = DiskFiles().lock(str(tmp_path / "lock"))
    notes = [each for each in examine(Patient(None, broker.bootstrap, tmp_path)) if each.mark is Mark.NOTE]
    lock.release()
    assert f"process {os.getpid()} runs it with {tmp_path}" in [each.found for each in notes]


def test_java_that_is_missing_or_too_old(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert machine_checks.java().mark is Mark.WRONG
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    (tmp_path / "bin" / "java").chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    check = machine_checks.java()
    assert (check.mark, "11.0.2" in check.found, "install Java 17" in check.hint) == (Mark.WRONG, True, True)


def test_spark_of_another_version_or_none(monkeypatch, tmp_path, broker):
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.5.1")
    assert machine_checks.spark().found == "pyspark 3.5.1, and 4.3 is needed"

    def missing(name):
        raise machine_checks.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    assert machine_checks.spark().found == "pyspark is not installed"
    checks = found(Patient(None, broker.bootstrap, tmp_path))
    assert "store" not in checks  # Spark's side cannot be loaded


def test_a_python_for_spark_that_is_not_there(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    assert machine_checks.python().mark is Mark.WRONG


@pytest.mark.parametrize(
    ("free", "mark"), [(2**20, Mark.WRONG), (2**30, Mark.NOTE), (2**32, Mark.WELL)], ids=["none", "little", "enough"]
)
def test_the_room_on_a_disk(monkeypatch, tmp_path, free, mark):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free, total=2**40))
    assert machine_checks.disk("disk", tmp_path / "not" / "there").mark is mark


def test_a_directory_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    marks = {each.what: each.mark for each in machine_checks.disks(tmp_path / "data")}
    assert marks["data directory"] is Mark.WRONG


def stream(ahead="1 hour"):
    schema = "page string, at timestamp"
    return App("shop").stream("clicks", schema=schema, time="at", late="1 second", ahead=ahead)


@pytest.mark.parametrize(
    ("ahead", "mark"), [(0, Mark.WELL), (60_000, Mark.WELL), (61_000, Mark.NOTE), (3_600_001, Mark.WRONG)]
)
def test_a_clock_is_held_against_the_newest_records(ahead, mark):
    assert clock([(stream(), NOW + ahead)], NOW).mark is mark


def test_a_clock_that_was_never_set():
    check = clock([], 3_600_000)
    assert (check.mark, check.found) == (Mark.WRONG, "it says 1970-01-01T01:00:00Z")


def test_the_newest_records_are_looked_for(broker, tmp_path):
    broker.create_topic("tomorrow", 2, configs={"message.timestamp.after.max.ms": str(2**62)})
    with Producer(broker.bootstrap) as producer:
        producer.produce("tomorrow", b"{}", partition=1, timestamp=4_000_000_000_000)
    file = tmp_path / "app.py"
    file.write_text(APP.replace('"clicks"', '"tomorrow"'))
    check = found(Patient(file, broker.bootstrap, tmp_path))["clock"]
    assert (check.mark, "the newest record of tomorrow lies" in check.found) == (Mark.WRONG, True)


def api(key, least, most):
    return {"api_key": key, "min_version": least, "max_version": most}


def test_a_broker_that_serves_too_little():
    told = {"api_keys": [api(1, 4, 17)], "finalized_features": []}
    check = served("there:9092", told)
    assert check.mark is Mark.WRONG
    assert "Produce" in check.found
    assert "Fetch" not in check.found


@pytest.mark.parametrize(("level", "release"), [(7, "3.3"), (29, "4.2"), (30, "4.3"), (99, "4.5")])
def test_apache_kafka_is_known_by_its_metadata(level, release):
    told = {
        "api_keys": [api(key, 0, 20) for key in range(90)],
        "finalized_features": [{"name": "metadata.version", "max_version_level": level}],
    }
    assert f"Apache Kafka, metadata.version of {release}" in served("there:9092", told).found


def test_topics_that_the_app_makes_itself_are_not_asked_for():
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")
    app.stream(clicks)(pages)
    own = app.stream("pages", schema="page string")
    app.view(own, key="page", name="copy")(lambda pages: pages)
    assert [noun.topic for noun in nouns(app)] == ["clicks"]


def pages(clicks):
    return clicks
