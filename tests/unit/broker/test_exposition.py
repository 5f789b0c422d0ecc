import errno
import socket
import threading
import urllib.error
import urllib.request

import confluent_kafka
import pytest
from prometheus_client.parser import text_string_to_metric_families

import runnel
from runnel.broker.endpoints import Endpoint
from runnel.broker.exposition import Exposition, troubles_of
from runnel.errors import AddressInUse, AddressUnusable
from runnel.protocol.versions import Api
from tests.abuse.wire import Client, batch_of, make_topics, parsed_address, produce
from tests.broker_wire import Wire

LOOPBACK = Endpoint("127.0.0.1", 0)


@pytest.fixture
def served():
    with runnel.Broker() as broker:
        exposition = Exposition(broker._server, LOOPBACK)
        yield broker, exposition
        exposition.close()


def get(exposition: Exposition, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{exposition.endpoint}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def numbers(exposition: Exposition) -> dict[tuple[str, ...], float]:
    """By name and labels: a topic before its partition."""
    _, text = get(exposition, "/metrics")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items(), reverse=True))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_broker_that_serves_is_healthy_and_ready(served):
    _, exposition = served
    assert get(exposition, "/health") == (200, "healthy\n")
    assert get(exposition, "/ready") == (200, "ready\n")


def test_another_path_tells_which_there_are(served):
    _, exposition = served
    assert get(exposition, "/") == (404, "see /metrics, /health and /ready\n")


def test_a_query_behind_the_path_does_not_matter(served):
    _, exposition = served
    assert get(exposition, "/ready?verbose=1")[0] == 200


def test_the_numbers_tell_what_was_asked_and_written(served):
    broker, exposition = served
    address = parsed_address(broker.bootstrap)
    make_topics(address, "orders")
    with Client(address) as client:
        client.send(produce("orders", batch_of(b"one", b"two")))
        client.read(Api.PRODUCE, 9)
        found = numbers(exposition)
        assert found["runnel_connections",] == 1
    assert found["runnel_requests_total", "produce"] == 1
    assert found["runnel_requests_total", "create_topics"] == 1
    assert found["runnel_partition_end_offset", "orders", "0"] == 2
    assert found["runnel_connections_accepted_total",] == 2
    assert found["runnel_partitions_failed",] == 0
    assert found["process_resident_memory_bytes",] > 0


def test_groups_of_both_types_and_their_rebalances_are_counted(served):
    broker, exposition = served
    broker.create_topic("orders", 1)
    joins = {
        "group_id": "g",
        "member_id": "ann",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    with Wire(broker.bootstrap) as wire:
        assert not wire.ask(Api.CONSUMER_GROUP_HEARTBEAT, 1, **joins)["error_code"]
    found = numbers(exposition)
    assert found["runnel_groups", "consumer", "Stable"] == 1
    assert found["runnel_groups", "consumer", "Reconciling"] == 0
    assert found["runnel_groups", "classic", "Stable"] == 0
    assert found["runnel_group_rebalances_total",] == 1


def test_transactions_are_counted_by_how_they_ended(served):
    broker, exposition = served
    broker.create_topic("orders", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    for is_committed in (True, False, True):
        producer.begin_transaction()
        producer.produce("orders", b"one")
        if is_committed:
            producer.commit_transaction(60)
        else:
            producer.flush(60)
            producer.abort_transaction(60)
    found = numbers(exposition)
    assert found["runnel_transactions_committed_total",] == 2
    assert found["runnel_transactions_aborted_total",] == 1


def test_bad_clients_are_counted(served):
    broker, exposition = served
    with Client(parsed_address(broker.bootstrap)) as client:
        client.send(b"\xff" * 8)
        assert client.is_closed()
    assert numbers(exposition)["runnel_connection_errors_total",] == 1


def test_a_broker_that_stops_is_not_ready(served):
    broker, exposition = served
    broker._server.node.stopping = True
    assert get(exposition, "/ready") == (503, "the broker is stopping\n")
    broker._server.node.stopping = False


def test_a_partition_that_refuses_writes_is_named(served, monkeypatch):
    broker, exposition = served
    make_topics(parsed_address(broker.bootstrap), "orders")
    partition = broker._server.node.topics.find("orders").partition(0)
    monkeypatch.setattr(type(partition), "failed", property(lambda each: each.id.topic == "orders"))
    assert get(exposition, "/ready") == (503, "partition orders-0 refuses writes\n")
    assert troubles_of(broker._server) == ["partition orders-0 refuses writes"]
    assert get(exposition, "/health")[0] == 200


def test_a_loop_that_hangs_is_not_healthy(served, monkeypatch):
    broker, exposition = served
    monkeypatch.setattr("runnel.broker.exposition.SECONDS_TO_ANSWER", 0.05)
    hangs = threading.Event()
    broker._loop.call_soon_threadsafe(hangs.wait)
    try:
        assert get(exposition, "/health") == (503, "the broker does not answer\n")
        assert get(exposition, "/ready") == (503, "the broker does not answer\n")
    finally:
        hangs.set()


def test_a_port_in_use_is_told(served):
    broker, exposition = served
    with pytest.raises(AddressInUse, match=rf"cannot listen on 127\.0\.0\.1:{exposition.endpoint.port}"):
        Exposition(broker._server, exposition.endpoint)


def test_an_address_of_another_machine_is_told_as_such(served):
    broker, _ = served
    with pytest.raises(AddressUnusable, match=r"cannot listen on 192\.0\.2\.1:9100"):
        Exposition(broker._server, Endpoint("192.0.2.1", 9100))


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_the_numbers_can_be_had_over_ipv6(served):
    broker, _ = served
    exposition = Exposition(broker._server, Endpoint("::1", 0))
    try:
        assert get(exposition, "/health") == (200, "healthy\n")
    finally:
        exposition.close()


def test_the_port_is_free_when_it_was_closed(served):
    broker, _ = served
    exposition = Exposition(broker._server, LOOPBACK)
    exposition.close()
    again = Exposition(broker._server, exposition.endpoint)
    again.close()
