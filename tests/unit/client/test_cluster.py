"""Whom a cluster asks, when it asks again, and when it gives up."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from runnel.client import Busy, Refused, UnknownTopic, Unreachable, positions
from runnel.client.again import Again, pauses, settled
from runnel.client.cluster import KEPT_CONNECTIONS, Cluster
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.client.scripted_cluster import PLACE, asked, give_up_soon, listed, metadata, scripted_cluster


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_a_broker_that_does_not_lead_makes_it_look_for_the_leader_again(code):
    with scripted_cluster({Api.LIST_OFFSETS: [listed(-1, code=code), listed(5)]}) as (cluster, broker):
        assert positions.latest(cluster, [PLACE]) == {PLACE: 5}
    assert len(asked(broker, Api.METADATA)) == 2


def test_only_the_partitions_that_failed_are_asked_for_again():
    first = listed(5, -1)
    first["topics"][0]["partitions"][1]["error_code"] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    again = listed(0, 6)
    del again["topics"][0]["partitions"][0]
    with scripted_cluster({Api.LIST_OFFSETS: [first, again]}, partitions=2) as (cluster, broker):
        assert positions.latest(cluster, [("orders", 0), ("orders", 1)]) == {("orders", 0): 5, ("orders", 1): 6}
    questions = [
        [each["partition_index"] for each in body["topics"][0]["partitions"]]
        for body in asked(broker, Api.LIST_OFFSETS)
    ]
    assert questions == [[0, 1], [1]]


def test_a_leader_is_remembered():
    with scripted_cluster({Api.LIST_OFFSETS: [listed(5)]}) as (cluster, broker):
        for _ in range(3):
            positions.latest(cluster, [PLACE])
    assert len(asked(broker, Api.METADATA)) == 1
    assert {
        each["current_leader_epoch"]
        for body in asked(broker, Api.LIST_OFFSETS)
        for each in body["topics"][0]["partitions"]
    } == {3}


def test_a_partition_without_a_leader_is_waited_for():
    with scripted_cluster({Api.LIST_OFFSETS: [listed(5)]}) as (cluster, broker):
        broker.answers[Api.METADATA] = [metadata(broker, leader=-1), metadata(broker)]
        assert positions.latest(cluster, [PLACE]) == {PLACE: 5}


def test_a_partition_that_nobody_leads_for_too_long_is_told():
    with scripted_cluster({Api.LIST_OFFSETS: [listed(5)]}) as (cluster, broker):
        give_up_soon(cluster, broker)
        broker.answers[Api.METADATA] = [metadata(broker, leader=-1)]
        with pytest.raises(Busy, match="finding the leader of orders-0 failed: the partition has no leader"):
            positions.latest(cluster, [PLACE])


def test_a_refusal_is_told_at_once():
    refused = listed(-1, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with scripted_cluster({Api.LIST_OFFSETS: [refused]}) as (cluster, broker), pytest.raises(Refused) as told:
        positions.latest(cluster, [PLACE])
    assert told.value.hint == "ask whoever runs the cluster for the permission"
    assert len(asked(broker, Api.LIST_OFFSETS)) == 1


def test_a_new_topic_may_take_a_moment_to_be_known():
    with scripted_cluster({}) as (cluster, broker):
        unknown = metadata(broker, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        broker.answers[Api.METADATA] = [unknown, unknown, metadata(broker)]
        assert cluster.topic("orders").name == "orders"


def test_a_topic_that_stays_unknown_is_told_sooner_than_the_time_out():
    with scripted_cluster({}, timeout=3_600) as (cluster, broker):
        broker.answers[Api.METADATA] = [metadata(broker, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        with pytest.raises(UnknownTopic):
            cluster.topic("orders")


def test_a_name_that_cannot_be_one_is_told_at_once():
    with scripted_cluster({}, timeout=3_600) as (cluster, broker):
        broker.answers[Api.METADATA] = [metadata(broker, code=ErrorCode.INVALID_TOPIC)]
        with pytest.raises(Exception, match='"orders" cannot be the name of a topic'):
            cluster.topic("orders")


def test_asking_creates_no_topic():
    with scripted_cluster({}) as (cluster, broker):
        cluster.topic("orders")
    assert [body["allow_auto_topic_creation"] for body in asked(broker, Api.METADATA)] == [False]


def test_a_broker_that_asks_for_a_pause_gets_it():
    with scripted_cluster({Api.LIST_OFFSETS: [listed(5, throttle=300), listed(5)]}) as (cluster, _):
        positions.latest(cluster, [PLACE])
        before = time.monotonic()
        positions.latest(cluster, [PLACE])
    assert time.monotonic() - before > 0.25


def test_a_connection_that_ended_is_made_again():
    with scripted_cluster({Api.LIST_OFFSETS: [listed(5), b"", listed(6)]}) as (cluster, _):
        assert positions.latest(cluster, [PLACE]) == {PLACE: 5}
        assert positions.latest(cluster, [PLACE]) == {PLACE: 6}


def test_a_connection_that_the_broker_closed_while_it_was_idle_is_not_asked_on():
    with scripted_cluster({Api.LIST_OFFSETS: [listed(5)]}) as (cluster, broker):
        positions.latest(cluster, [PLACE])
        (wire,) = cluster._idle[broker.address]
        wire._socket.shutdown(socket.SHUT_RDWR)
        with cluster.wire(broker.address) as other:
            assert other is not wire
        assert wire._socket.fileno() == -1


def test_it_gives_up_when_nobody_comes_back():
    with scripted_cluster({Api.LIST_OFFSETS: [b""]}, timeout=2.0) as (cluster, _), pytest.raises(Unreachable):
        positions.latest(cluster, [PLACE])


def test_only_so_many_connections_are_kept():
    with scripted_cluster({}) as (cluster, broker):
        wires = [cluster.borrow(broker.address) for _ in range(KEPT_CONNECTIONS + 2)]
        for wire in wires:
            cluster.give_back(broker.address, wire)
        assert [wire._socket.fileno() >= 0 for wire in wires] == [True] * KEPT_CONNECTIONS + [False] * 2


def test_a_forked_process_makes_connections_of_its_own(monkeypatch):
    with scripted_cluster({}) as (cluster, broker):
        wire = cluster.borrow(broker.address)
        cluster.give_back(broker.address, wire)
        pid = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        with cluster.wire(broker.address) as other:
            assert other is not wire


def test_threads_do_not_share_a_connection():
    with scripted_cluster({}) as (cluster, broker):
        taken = [cluster.borrow(broker.address)]
        thread = threading.Thread(target=lambda: taken.append(cluster.borrow(broker.address)))
        thread.start()
        thread.join()
        assert taken[0] is not taken[1]
        for wire in taken:
            wire.close()


# --- again


def test_an_attempt_is_made_until_it_succeeds():
    answers = iter([Again(Busy("asking", "not yet")), Unreachable("here", "gone"), None])
    lost = []

    def attempt():
        if (error := next(answers)) is not None:
            raise error
        return "done"

    assert settled(attempt, 60, lambda: lost.append(1)) == "done"
    assert lost == [1]


def test_what_has_less_patience_is_told_sooner():
    def attempt():
        raise Again(Busy("asking", "not yet"), 0.01)

    with pytest.raises(Busy, match="asking failed: not yet"):
        settled(attempt, 3_600, lambda: None)


def test_pauses_grow_up_to_a_second():
    found = [pause for pause, _ in zip(pauses(), range(12), strict=False)]
    assert found[0] == 0.005
    assert found == sorted(found)
    assert found[-1] == 1.0


def test_a_cluster_is_not_asked_before_it_is_needed():
    Cluster("127.0.0.1:1").close()


def test_who_is_hurried_does_not_wait_for_a_broker_that_is_away():
    asked = []

    def attempt():
        asked.append(1)
        raise Unreachable("here", "gone")

    with pytest.raises(Unreachable):
        settled(attempt, 3_600, lambda: None, lambda: True)
    assert asked == [1]


def test_who_is_hurried_still_gives_a_broker_the_time_it_asks_for():
    answers = iter([Again(Busy("asking", "not yet")), None])

    def attempt():
        if (error := next(answers)) is not None:
            raise error
        return "done"

    assert settled(attempt, 60, lambda: None, lambda: True) == "done"
