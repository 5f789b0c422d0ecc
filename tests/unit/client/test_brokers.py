"""Which broker is asked, when it is asked again, and what is told of what it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from runnel.client import Busy, Node, NotPlain, Partition, Refused, Topic, Transactions, UnknownPartition, UnknownTopic
from runnel.client.brokers import Again, Brokers
from runnel.client.connection import Connection
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.client.scripted_broker import scripted_broker

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
PLACE = ("orders", 0)


def admin(broker, *, leader=1, timeout=60.0, **settings):
    """Of a cluster with one broker, which leads the one partition of a topic."""
    host, port = broker.address if broker is not None else ("127.0.0.1", 1)
    topic = Topic("orders", "", False, (Partition(0, leader, (1,), (1,)),))
    return SimpleNamespace(
        connection=Connection(f"{host}:{port}", settings, timeout),
        cluster=lambda: SimpleNamespace(brokers=(Node(1, host, port),)),
        described=lambda names: [topic for name in names if name == "orders"],
    )


def listed(code=ErrorCode.NONE, *names):
    states = [{"transactional_id": name, "producer_id": 7, "transaction_state": "Ongoing"} for name in names]
    return {"throttle_time": 0, "error_code": code, "unknown_state_filters": [], "transaction_states": states}


def described(name, code=ErrorCode.NONE, state="Ongoing", partitions=(0,)):
    return {
        "error_code": code, "transactional_id": name, "transaction_state": state, "transaction_timeout": 60_000,
        "transaction_start_time": 5, "producer_id": 7, "producer_epoch": 3,
        "topics": [{"topic": "orders", "partitions": list(partitions)}],
    }  # fmt: skip


def coordinator(broker_port, code=ErrorCode.NONE):
    found = {"key": "x", "node_id": 1, "host": "127.0.0.1", "port": broker_port, "error_code": code}
    return {"throttle_time": 0, "coordinators": [found | {"error_message": None}]}


def producers(first_offset=3):
    active = {
        "producer_id": 7, "producer_epoch": 3, "last_sequence": 0, "last_timestamp": 5, "coordinator_epoch": -1,
        "current_txn_start_offset": first_offset,
    }  # fmt: skip
    partition = {"partition_index": 0, "error_code": 0, "error_message": None, "active_producers": [active]}
    return {"throttle_time": 0, "topics": [{"name": "orders", "partitions": [partition]}]}


def states(*each):
    return {"throttle_time": 0, "transaction_states": each}


# --- again


def test_a_broker_that_asks_to_try_again_is_asked_again():
    with scripted_broker({Api.LIST_TRANSACTIONS: [listed(LOADING), listed(LOADING), listed()]}) as broker:
        assert Transactions(admin(broker)).list() == []
    assert [key for key, _, _ in broker.asked].count(Api.LIST_TRANSACTIONS) == 3


def test_a_broker_that_asks_to_try_again_for_too_long_is_told():
    with scripted_broker({Api.LIST_TRANSACTIONS: [listed(LOADING)]}) as broker, pytest.raises(Busy) as told:
        Transactions(admin(broker, timeout=2.0)).list()
    assert str(told.value) == "listing the transactions failed: coordinator load in progress (try again)"


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_is_looked_for_again(code):
    answers = {Api.FIND_COORDINATOR: [{}], Api.DESCRIBE_TRANSACTIONS: [states(described("x"))]}
    with scripted_broker(answers) as broker:
        port = broker.address[1]
        broker.answers[Api.FIND_COORDINATOR] = [coordinator(port, code), coordinator(port)]
        assert Transactions(admin(broker)).describe("x").producer_id == 7
    assert [key for key, _, _ in broker.asked].count(Api.FIND_COORDINATOR) == 2


def test_a_refusal_is_told_and_not_asked_again():
    with (
        scripted_broker({Api.LIST_TRANSACTIONS: [listed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]}) as broker,
        pytest.raises(Refused) as told,
    ):
        Transactions(admin(broker)).list()
    assert told.value.what == "listing the transactions failed: cluster authorization failed"
    assert told.value.hint == "ask whoever runs the cluster for the permission"
    assert [key for key, _, _ in broker.asked].count(Api.LIST_TRANSACTIONS) == 1


@pytest.mark.parametrize(
    ("code", "words"), [(ErrorCode.TRANSACTION_ABORTABLE, "transaction abortable"), (999, "error 999")]
)
def test_an_error_without_a_message_is_told_in_words(code, words):
    with scripted_broker({Api.LIST_TRANSACTIONS: [listed(code)]}) as broker, pytest.raises(Refused, match=words):
        Transactions(admin(broker)).list()


# --- who is asked


def test_a_cluster_with_tls_is_refused_before_anything_is_asked():
    with pytest.raises(NotPlain) as told:
        Transactions(admin(None, **{"security.protocol": "SSL"})).list()
    assert str(told.value) == (
        "listing the transactions failed: the cluster asks for TLS or SASL, and this is asked over plain connections "
        "only (use a listener without them)"
    )


def test_a_partition_without_a_leader_is_waited_for():
    with Brokers(admin(None, leader=None), "asking") as brokers, pytest.raises(Again, match="orders-0 has no leader"):
        brokers.by_leader([PLACE])


def test_a_leader_that_is_not_up_is_waited_for():
    with Brokers(admin(None, leader=2), "asking") as brokers, pytest.raises(Again, match="a leader is not up"):
        brokers.by_leader([PLACE])


def test_any_broker_that_is_up_tells_the_coordinator():
    answers = {Api.FIND_COORDINATOR: [{}], Api.DESCRIBE_TRANSACTIONS: [states(described("x"))]}
    with scripted_broker(answers) as broker:
        broker.answers[Api.FIND_COORDINATOR] = [coordinator(broker.address[1])]
        known = admin(broker)
        known.cluster = lambda: SimpleNamespace(brokers=(Node(2, "127.0.0.1", 1), Node(1, *broker.address)))
        assert Transactions(known).describe("x").epoch == 3


def test_a_partition_that_is_not_there_is_told():
    with Brokers(admin(None), "asking") as brokers, pytest.raises(UnknownPartition, match="has no partition 5"):
        brokers.by_leader([PLACE, ("orders", 5)])


def test_a_topic_that_was_deleted_meanwhile_is_told():
    with Brokers(admin(None), "asking") as brokers, pytest.raises(UnknownTopic, match='no topic "orders"'):
        brokers.check({"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, topic="orders")


# --- what changes between two questions


def test_a_transaction_that_is_forgotten_while_they_are_listed_is_left_out():
    gone = described("gone", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    answers = {
        Api.LIST_TRANSACTIONS: [listed(ErrorCode.NONE, "gone", "there")],
        Api.DESCRIBE_TRANSACTIONS: [states(gone, described("there"))],
    }
    with scripted_broker(answers) as broker:
        assert [each.id for each in Transactions(admin(broker)).list()] == ["there"]


def test_many_transactions_are_described_in_parts():
    names = [f"id-{number}" for number in range(501)]
    answers = {Api.LIST_TRANSACTIONS: [listed(ErrorCode.NONE, *names)], Api.DESCRIBE_TRANSACTIONS: [states()]}
    with scripted_broker(answers) as broker:
        Transactions(admin(broker)).list()
    asked = [body["transactional_ids"] for key, _, body in broker.asked if key == Api.DESCRIBE_TRANSACTIONS]
    assert asked == [names[:500], names[500:]]


def test_what_ended_while_its_coordinator_was_asked_does_not_hang():
    """The partition had it open, the coordinator has just let it go, and the partition has its end by now."""
    answers = {
        Api.LIST_TRANSACTIONS: [listed(ErrorCode.NONE, "x")],
        Api.DESCRIBE_TRANSACTIONS: [states(described("x", state="CompleteCommit", partitions=()))],
    }
    with scripted_broker(answers | {Api.DESCRIBE_PRODUCERS: [producers(3), producers(-1)]}) as broker:
        assert Transactions(admin(broker)).hanging([PLACE]) == []
    with scripted_broker(answers | {Api.DESCRIBE_PRODUCERS: [producers(3), producers(9)]}) as broker:
        assert Transactions(admin(broker)).hanging([PLACE]) == []
    with scripted_broker(answers | {Api.DESCRIBE_PRODUCERS: [producers(3)]}) as broker:
        assert [each.first_offset for each in Transactions(admin(broker)).hanging([PLACE])] == [3]


def test_a_state_that_is_not_known_is_shown_as_it_is():
    answers = {
        Api.LIST_TRANSACTIONS: [listed(ErrorCode.NONE, "x")],
        Api.DESCRIBE_TRANSACTIONS: [states(described("x", state="Dreaming"))],
    }
    with scripted_broker(answers) as broker:
        (found,) = Transactions(admin(broker)).list()
    assert (found.state, found.is_open, found.started) == ("Dreaming", False, None)
