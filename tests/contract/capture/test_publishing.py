"""What a capture asks its cluster for: as little as can be, because a change waits for each answer."""

import itertools
from dataclasses import replace

import pytest

from runnel.capture import publisher as publishing
from runnel.capture import state as states
from runnel.capture.events import Position
from runnel.capture.outgoing import Outgoing
from runnel.capture.publisher import Publisher, admin_of
from runnel.capture.state import State, TableState
from runnel.client.cluster import Cluster
from runnel.client.errors import Fenced
from runnel.client.wire import Wire
from runnel.clock import SYSTEM_CLOCK
from runnel.protocol.versions import Api
from tests.contract.capture.topics import committed

numbers = itertools.count()


@pytest.fixture
def name():
    return f"publishing{next(numbers)}"


@pytest.fixture
def cluster(broker):
    with Cluster(broker.bootstrap) as cluster:
        yield cluster


def publisher_of(cluster, name):
    return Publisher(cluster, name, lambda: admin_of(cluster.bootstrap), partitions=2)


def changes(name, number):
    """Of two tables, in all partitions of their topics."""
    out = Outgoing()
    for key in range(20):
        out.add(f"{name}.a", str(key), str(number), 0)
        out.add(f"{name}.b", str(key), str(number), 0)
    return out


def at(number):
    return State("sqlite", Position({"id": number}))


def test_changes_and_their_position_are_two_questions(cluster, name, monkeypatch):
    """One that writes to all topics at once and begins the transaction by that, and one that ends it."""
    publisher = publisher_of(cluster, name)
    publisher.open()
    publisher.publish(changes(name, 0), at(0))  # which makes the topics
    asked = []
    send = Wire.send

    def noted(self, api_key, *given, **named):
        asked.append(Api(api_key))
        return send(self, api_key, *given, **named)

    monkeypatch.setattr(Wire, "send", noted)
    publisher.publish(changes(name, 1), at(1))
    assert asked == [Api.PRODUCE, Api.END_TXN]


def test_a_capture_that_starts_reads_the_end_of_its_state_and_not_all_that_it_ever_wrote(cluster, name, monkeypatch):
    monkeypatch.setattr(publishing, "WHOLE_STEPS", 10)
    monkeypatch.setattr(states, "BACK", (30, 60))
    looked_at = []
    between = states.committed_between

    def counted(cluster, place, start, end):
        looked_at.append(end - start)
        return between(cluster, place, start, end)

    monkeypatch.setattr(states, "committed_between", counted)
    tables = {"main.a": TableState("complete", None, 3, {"id": 0}), "main.b": TableState()}
    publisher = publisher_of(cluster, name)
    publisher.open()
    for number in range(40):
        kept = publisher.publish(Outgoing(), replace(at(number), tables=tables))
    looked_at.clear()
    assert publisher_of(cluster, name).open() == kept
    assert looked_at == [30]


def test_no_record_is_later_than_the_present_however_far_the_clock_of_its_database_is_ahead(cluster, name):
    """The cluster would refuse it, with message.timestamp.after.max.ms."""
    publisher, present = publisher_of(cluster, name), SYSTEM_CLOCK.now()
    publisher.open()
    out = Outgoing()
    for time in (0, present - 1, present + 7_200_000):
        out.add(f"{name}.a", "1", "1", time)
    publisher.publish(out, at(0))
    (found,) = committed(cluster.bootstrap, f"{name}.a").values()
    first, second, last = sorted(each.timestamp for each in found)
    assert (first, second) == (0, present - 1)
    assert present <= last <= SYSTEM_CLOCK.now()


def test_a_copy_that_was_replaced_is_refused_with_its_first_record(cluster, name):
    first, second = publisher_of(cluster, name), publisher_of(cluster, name)
    first.open()
    first.publish(changes(name, 0), at(0))
    second.open()
    with pytest.raises(Fenced):
        first.publish(changes(name, 1), at(1))
    second.publish(changes(name, 2), at(2))
    found = committed(cluster.bootstrap, f"{name}.")
    assert [{each.value for each in seen} for seen in found.values()] == [{0, 2}, {0, 2}]
    assert [len(seen) for seen in found.values()] == [40, 40]
