"""Alerts are told to the log, to topics and to commands, and whoever tells them does not wait."""

import json
import logging
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from runnel import Broker
from runnel.app.alerts import Event
from runnel.app.telling import Line, Telling
from runnel.client import Admin, Consumer
from runnel.errors import Transient
from runnel.graph.alert import Alert, AlertRule
from runnel.pipeline.kafka import Kafka

NOWHERE = Kafka("127.0.0.1:1", patience=1)


def event(*, begins=True, **rule):
    return Event(AlertRule(Alert.rejected(), **rule), "shop", "pages", begins, "it is so", 0.5, 1_767_225_600_000)


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert holds()


def is_alive(process):
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Away:
    """A broker that is tried until the gate opens, and does not answer."""

    def __init__(self):
        self.asked, self.gate, self.gave_up = threading.Event(), threading.Event(), threading.Event()
        self.times = 0

    def make_topic(self, topic):
        self.times += 1
        self.asked.set()
        self.gate.wait(60)
        self.gave_up.set()
        raise Transient(f"nobody knows of {topic}")


@pytest.fixture
def telling():
    telling = Telling(NOWHERE)
    yield telling
    telling.close(patience=1)


def test_the_log_is_told_with_the_values_beside(telling, caplog):
    caplog.set_level(logging.INFO)
    telling.tell([event(), event(begins=False)])
    first, last = caplog.records
    assert (first.levelname, first.getMessage()) == ("WARNING", "alert rejected begins: pages: it is so")
    assert (last.levelname, last.getMessage()) == ("INFO", "alert rejected ends: pages: it is so")
    assert first.alert["value"] == 0.5


def test_a_command_gets_json_in_the_order_of_the_events(telling, tmp_path):
    out = tmp_path / "out"
    command = f"cat >> {out}; echo >> {out}"
    telling.tell([event(command=command), event(command=command, begins=False)])
    telling.close(patience=60)
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(each["alert"], each["state"]) for each in told] == [("rejected", "begins"), ("rejected", "ends")]


def test_a_command_that_fails_is_logged(telling, caplog):
    telling.tell([event(command="echo it hurts >&2; exit 3")])
    telling.close(patience=60)
    assert "the command of an alert ended with exit code 3: echo it hurts >&2; exit 3: it hurts" in caplog.messages


def test_a_command_may_say_what_is_no_text(telling, caplog):
    telling.tell([event(command=r"printf '\377\376'; exit 3")])
    telling.close(patience=60)
    assert caplog.messages[-1].endswith(r": \xff\xfe")


def test_an_alert_that_cannot_be_told_does_not_keep_the_next_from_being_told(caplog):
    told = threading.Event()

    def tell(given):
        if given.begins:
            raise RuntimeError("nobody knows why")
        told.set()
        return True

    line = Line("test", tell)
    line.put(event())
    line.put(event(begins=False))
    assert told.wait(60)
    line.close(time.monotonic() + 60)
    assert "an alert was not told" in caplog.messages


def test_a_command_that_hangs_is_ended_and_logged(telling, caplog, monkeypatch):
    monkeypatch.setattr("runnel.app.telling.LONGEST_COMMAND", 0.1)
    telling.tell([event(command="exec sleep 600")])
    telling.close(patience=60)
    assert "the command of an alert was ended after 0 s: exec sleep 600" in caplog.messages


def test_what_a_command_has_started_ends_with_it(telling, caplog, monkeypatch, tmp_path):
    """The shell is not all of it: in a line with a pipe, or with two commands, others do the work."""
    monkeypatch.setattr("runnel.app.telling.LONGEST_COMMAND", 0.5)
    pid = tmp_path / "pid"
    telling.tell([event(command=f"sh -c 'echo $$ > {pid}; exec sleep 600' | cat")])
    telling.close(patience=60)
    assert "was ended after" in caplog.text
    child = int(pid.read_text())
    wait_until(lambda: not is_alive(child))


def test_a_command_that_ends_is_not_waited_for_because_of_what_it_leaves_in_the_background(telling, caplog, tmp_path):
    gate = tmp_path / "gate"
    telling.tell([event(command=f"(while [ ! -e {gate} ]; do sleep 0.05; done) & echo it hurts; exit 3")])
    telling.close(patience=30)
    gate.touch()
    assert [message.endswith("exit 3: it hurts") for message in caplog.messages[1:]] == [True]


def test_a_command_ends_with_the_app_and_what_is_not_told_is_logged(telling, caplog, tmp_path):
    """Nobody would be there to end one that hangs."""
    pid = tmp_path / "pid"
    command = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"
    telling.tell([event(command=command), event(command="true"), event(command="true", begins=False)])
    wait_until(pid.exists)
    telling.close(patience=0)
    wait_until(lambda: not is_alive(int(pid.read_text())))
    wait_until(lambda: f"the command of an alert was ended, as the app ends: {command}" in caplog.messages)
    assert "2 alerts were not told to a command: the app ends" in caplog.messages


def test_what_a_command_says_without_an_end_takes_no_memory(telling, caplog, monkeypatch):
    monkeypatch.setattr("runnel.app.telling.LONGEST_COMMAND", 600)
    tracemalloc.start()
    try:
        telling.tell([event(command="head -c 50000000 /dev/zero | tr '\\0' x; exit 3")])
        telling.close(patience=60)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caplog.messages[-1].endswith(f"exit 3: {500 * 'x'}")
    assert most < 10_000_000


def test_nobody_waits_for_a_command(telling, tmp_path):
    gate, ended = tmp_path / "gate", tmp_path / "ended"
    telling.tell([event(command=f"while [ ! -e {gate} ]; do sleep 0.05; done; touch {ended}")])
    assert not ended.exists()
    gate.touch()
    telling.close(patience=60)
    assert ended.exists()  # one that had been waited for would have been ended before the gate was opened


def test_a_topic_is_made_and_told():
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        telling = Telling(Kafka(broker.bootstrap))
        telling.tell([event(topic="ops"), event(topic="ops", begins=False)])
        telling.close(patience=60)
        with Consumer(broker.bootstrap, "ops") as consumer:
            records = list(consumer)
    assert [record.key for record in records] == [b"shop.pages.rejected"] * 2
    assert [json.loads(record.value)["state"] for record in records] == ["begins", "ends"]


def test_a_topic_that_was_deleted_is_made_anew():
    with Broker(settings={"auto.create.topics.enable": False}) as broker, Admin(broker.bootstrap) as admin:
        telling = Telling(Kafka(broker.bootstrap))
        assert telling._to_topic(event(topic="ops"))
        admin.delete("ops")
        line = Line("test", telling._to_topic, again_after=0.1)
        line.put(event(topic="ops", begins=False))
        line.close(time.monotonic() + 60)
        telling.close()
        with Consumer(broker.bootstrap, "ops") as consumer:
            records = list(consumer)
    assert [json.loads(record.value)["state"] for record in records] == ["ends"]


def test_what_cannot_be_told_now_is_told_later_and_in_order():
    told = []
    refusals = iter([False, False, True, True])
    done = threading.Event()

    def tell(given):
        if next(refusals):
            told.append(given.begins)
        if len(told) == 2:
            done.set()
        return len(told) > (0 if given.begins else 1)

    line = Line("test", tell, again_after=0.01)
    line.put(event())
    line.put(event(begins=False))
    assert done.wait(60)
    line.close(time.monotonic() + 60)
    assert told == [True, False]


def test_what_could_not_be_told_to_the_end_is_logged(caplog):
    tried = threading.Event()
    line = Line("topic", lambda given: tried.set(), again_after=60)
    line.put(event())
    line.put(event(begins=False))
    assert tried.wait(60)
    line.close(time.monotonic())
    line.end(60)
    assert caplog.messages == ["2 alerts were not told to a topic: the app ends"]


def test_the_end_does_not_wait_for_a_broker_that_is_away(caplog):
    broker = Away()
    telling = Telling(broker)
    telling.tell([event(topic="ops")])
    assert broker.asked.wait(60)
    telling.close(patience=0)
    assert not broker.gave_up.is_set()
    assert "1 alert was not told to a topic: the app ends" in caplog.messages
    broker.gate.set()
    telling.close(patience=60)  # its thread was told to end, and does not try again
    assert broker.gave_up.is_set()
    assert broker.times == 1
