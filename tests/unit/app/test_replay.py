"""Whether a replay may be: of what, from when, and into which topic. Without Spark."""

import errno
import json
import os

import pytest

from runnel import Alert, App, Broker, Reading
from runnel.app.replay import InvalidFrom, NotReplayed, Replay
from runnel.app.runner import Running
from runnel.client import Producer
from runnel.pipeline.errors import DiskFull

TO = "again"


class SparkStarts(Exception):
    """All was well until there."""


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    def start(_):
        raise SparkStarts

    monkeypatch.setattr(Replay, "_spark", start)


@pytest.fixture
def running(broker, tmp_path):
    return Running(broker.bootstrap, tmp_path)


def shop(times=1):
    app = App("shop")
    clicks = app.stream("clicks", schema="page string")

    @app.stream(clicks)
    def stays(clicks):
        return clicks.select(times)

    @app.stream(clicks)
    def goes(clicks):
        return clicks

    return app


def begins(running, *, app=None, name="stays", start="1d", to=TO):
    """Whether it comes to the point where Spark is started."""
    with pytest.raises(SparkStarts):
        Replay(app or shop(), name, running, start=start, to=to).run()
    return True


def checkpoint(running, name="stays"):
    return running.data / "replays" / TO / "queries" / name / "checkpoint"


def plan_a_batch(running, name="stays"):
    """As Spark does before it runs the first one."""
    offsets = checkpoint(running, name) / "offsets"
    offsets.mkdir(parents=True)
    (offsets.parent / "metadata").write_text('{"id": "1"}')
    (offsets / "0").write_text("v1")


def asked(running):
    told = json.loads((running.data / "replays" / TO / "replay.json").read_text())
    return told["stream"], told["from"]


@pytest.mark.parametrize("start", ["latest", "20260701", "0", "yesterday", ""])
def test_it_begins_at_a_time_and_not_at_an_offset_or_the_end(running, start):
    with pytest.raises(InvalidFrom) as raised:
        Replay(shop(), "stays", running, start=start, to=TO)
    assert raised.value.what == f'"{start}" is no time to replay from'
    assert raised.value.hint == "expected earliest, a time such as 2026-07-01T12:00:00Z, or an age such as 1d"
    assert raised.value.text == start
    assert not (running.data / "replays").exists()


@pytest.mark.parametrize("start", ["earliest", "2026-07-01", "2026-07-01T12:00:00Z", "1d"])
def test_it_begins_at_the_earliest_record_at_a_time_or_at_an_age(running, start):
    assert begins(running, start=start)


def test_a_replay_that_failed_before_it_began_gives_way_to_a_corrected_one(running):
    assert begins(running, start="2026-07-01")
    left = checkpoint(running).parent / "start-0.json"  # where that one would have begun
    left.parent.mkdir(parents=True)
    left.touch()
    assert begins(running, start="2026-07-02")
    assert asked(running) == ("stays", "2026-07-02")
    assert not left.exists()
    assert begins(running, app=shop(2))
    assert begins(running, name="goes")
    assert asked(running) == ("goes", "1d")


def test_one_that_planned_no_batch_gives_way_as_well(running):
    assert begins(running)
    checkpoint(running).mkdir(parents=True)
    (checkpoint(running) / "metadata").write_text('{"id": "1"}')
    assert begins(running)
    assert (checkpoint(running) / "metadata").exists()
    assert begins(running, start="2d")
    assert not checkpoint(running).exists()


def test_a_replay_by_half_is_gone_on_with_by_the_same_call_alone(running):
    assert begins(running)
    plan_a_batch(running)
    assert begins(running)
    with pytest.raises(NotReplayed) as raised:
        Replay(shop(2), "stays", running, start="1d", to=TO).run()
    assert raised.value.what == "again has a part of a replay of stays from 1d, of other code"
    assert raised.value.hint == "name another topic; only the same replay can go on there"
    for name, start, of_other_code in (("stays", "2d", ""), ("goes", "1d", ", of other code")):
        with pytest.raises(NotReplayed) as raised:
            Replay(shop(), name, running, start=start, to=TO).run()
        assert raised.value.what == f"again has a part of a replay of stays from 1d{of_other_code}"
    assert asked(running) == ("stays", "1d")


def test_a_replay_that_came_to_its_end_stays(running):
    assert begins(running)
    (running.data / "replays" / TO / "done").touch()
    with pytest.raises(NotReplayed) as raised:
        Replay(shop(), "stays", running, start="2d", to=TO).run()
    assert raised.value.what == "again was written by a replay of stays from 1d, to its end"
    assert raised.value.hint == "name another topic"


def test_records_of_others_in_the_topic_are_told_and_nothing_is_kept(running):
    with Producer(running.bootstrap) as producer:
        producer.produce("full", b"1")
    with pytest.raises(NotReplayed) as raised:
        Replay(shop(), "stays", running, start="1d", to="full").run()
    assert raised.value.what == "full has records already"
    assert raised.value.hint == "name another topic"
    assert not (running.data / "replays").exists()


def test_a_disk_that_is_full_is_told_and_another_error_is_not_taken_for_it(running, monkeypatch):
    for number, error in ((errno.EDQUOT, DiskFull), (errno.EIO, OSError)):

        def fail(_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Replay, "_keep_what_is_asked", fail)
        with pytest.raises(error, match=os.strerror(number)):
            Replay(shop(), "stays", running, start="1d", to=TO).run()


@pytest.mark.parametrize("to", ["clicks", "stays", "orders-again"])
def test_it_does_not_write_to_what_the_app_reads_or_writes(running, to):
    app = shop()
    orders = app.stream("orders", schema="id long", read=Reading(topics=r"orders-.*"))

    @app.stream(orders)
    def bills(orders):
        return orders

    with pytest.raises(NotReplayed, match=f"{to} is a topic of the app itself"):
        Replay(app, "stays", running, start="1d", to=to)


@pytest.mark.parametrize("to", ["orders.rejected", "bills.late", "runnel.shop.stays.marker", "ops"])
def test_it_does_not_write_to_what_the_app_writes_beside_its_outputs(running, to):
    app = shop()
    orders = app.stream("orders", schema="at timestamp", time="at", late="1 minute")

    @app.stream(orders)
    def bills(orders):
        return orders

    app.alert(Alert.late(), topic="ops")
    with pytest.raises(NotReplayed, match=f"{to} is a topic of the app itself"):
        Replay(app, "stays", running, start="1d", to=to)


def test_a_topic_is_refused_whose_name_is_too_long_for_that_of_the_markers(running):
    """`runnel.shop.stays.replay.TO.marker` has 249 characters at most."""
    assert begins(running, to="t" * 217)
    with pytest.raises(NotReplayed, match="it is longer than Kafka's 249 characters") as told:
        Replay(shop(), "stays", running, start="1d", to="t" * 218)
    assert told.value.hint == "name one of at most 217 characters"


def test_names_of_an_app_and_a_stream_can_leave_no_room_for_a_replay(running):
    app = App("a" * 221)

    @app.stream(app.stream("clicks", schema="page string"))
    def stays(clicks):
        return clicks

    with pytest.raises(NotReplayed, match="longer than Kafka's 249 characters") as told:
        Replay(app, "stays", running, start="1d", to="together")
    assert told.value.hint == "give the app or the stream a shorter name"
