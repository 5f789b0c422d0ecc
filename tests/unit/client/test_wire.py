"""One connection to one broker: versions, and what is told of brokers that answer late, nonsense, or not at all."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest

from runnel.client import NotServed, Refused, TimedOut, Unreachable
from runnel.client.errors import InsecureConnection
from runnel.client.wire import Wire, api_name
from runnel.protocol.own import OwnApi
from runnel.protocol.versions import Api
from tests.unit.client.scripted_broker import scripted_broker

NO_TRANSACTIONS = {"throttle_time": 0, "error_code": 0, "unknown_state_filters": [], "transaction_states": []}
ASKED = {"state_filters": ["Ongoing"], "producer_id_filters": []}


def test_it_asks_in_the_newest_version_that_both_know():
    for served, version in [((0, 1), 1), ((0, 99), 2), ((2, 2), 2)]:
        answers = {Api.LIST_TRANSACTIONS: [NO_TRANSACTIONS]}
        with (
            scripted_broker(answers, served={Api.LIST_TRANSACTIONS: served}) as broker,
            Wire(broker.address, 60) as wire,
        ):
            assert wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing")["transaction_states"] == []
            assert wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing")["error_code"] == 0
        assert [(key, asked) for key, asked, _ in broker.asked] == [
            (Api.API_VERSIONS, 0), (Api.LIST_TRANSACTIONS, version), (Api.LIST_TRANSACTIONS, version),
        ]  # fmt: skip
        assert broker.asked[1][2]["state_filters"] == ["Ongoing"]


@pytest.mark.parametrize("served", [{}, {Api.LIST_TRANSACTIONS: (3, 9)}])
def test_an_api_that_the_broker_does_not_serve_is_told(served):
    with scripted_broker({}, served=served) as broker, Wire(broker.address, 60) as wire:
        assert not wire.serves(Api.LIST_TRANSACTIONS)
        with pytest.raises(NotServed) as told:
            wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing the transactions")
    assert told.value.what == (
        f"listing the transactions failed: the broker at 127.0.0.1:{broker.address[1]} does not serve ListTransactions"
    )


def test_names_are_told_as_kafka_writes_them():
    assert api_name(Api.WRITE_TXN_MARKERS) == "WriteTxnMarkers"
    assert api_name(OwnApi.COMPACT_TOPIC) == "CompactTopic"


def test_a_broker_that_is_not_there_is_told():
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1: connection refused"):
        Wire(("127.0.0.1", 1), 60)


def test_a_broker_that_never_answers_is_told():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Wire(silent.getsockname(), 0.05) as wire,
        pytest.raises(TimedOut, match="asking what the broker serves timed out"),
    ):
        wire.serves(Api.METADATA)


def test_a_broker_that_drips_its_answer_is_not_waited_for_again_and_again():
    """The time-out is for the whole answer: every byte would begin another one."""
    stopped = threading.Event()

    def drip(server):
        connection, _ = server.accept()
        with suppress(ConnectionError), connection:
            connection.sendall((500).to_bytes(4, "big"))
            while not stopped.wait(0.01):
                connection.send(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=[server])
        thread.start()
        try:
            with Wire(server.getsockname(), 0.3) as wire, pytest.raises(TimedOut):
                wire.serves(Api.METADATA)
        finally:
            stopped.set()
            thread.join()


def test_a_broker_that_closes_the_connection_is_told():
    with (
        scripted_broker({Api.LIST_TRANSACTIONS: [b""]}) as broker,
        Wire(broker.address, 60) as wire,
        pytest.raises(Unreachable, match="the broker closed the connection"),
    ):
        wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\x00\x00\x00\x05\x00\x00\x00\x63\x00", "it answers request 99 instead of 2"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02\x00\x00", "it ends in the middle of a field"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x02", "the tagged fields of its header reach beyond"),
    ],
)
def test_an_answer_that_is_none_is_told(answer, reason):
    with (
        scripted_broker({Api.LIST_TRANSACTIONS: [answer]}) as broker,
        Wire(broker.address, 60) as wire,
        pytest.raises(Refused, match=f"listing failed: the answer of 127.0.0.1:.* cannot be read: {reason}"),
    ):
        wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing")


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"HTTP"])
def test_an_answer_of_a_size_that_cannot_be_is_told(size):
    with (
        scripted_broker({Api.LIST_TRANSACTIONS: [size + b"rest"]}) as broker,
        Wire(broker.address, 60) as wire,
        pytest.raises(Unreachable, match=r"an answer of -?[0-9,]+ bytes"),
    ):
        wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing")


def test_versions_can_be_limited():
    with scripted_broker({Api.LIST_TRANSACTIONS: [NO_TRANSACTIONS]}) as broker, Wire(broker.address, 60) as wire:
        wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing", most=1)
        with pytest.raises(NotServed):
            wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing", least=99)
    assert [version for key, version, _ in broker.asked if key == Api.LIST_TRANSACTIONS] == [1]


def test_requests_can_be_under_way_together():
    answers = [NO_TRANSACTIONS | {"error_code": code} for code in (1, 2, 3)]
    with scripted_broker({Api.LIST_TRANSACTIONS: answers}) as broker, Wire(broker.address, 60) as wire:
        sent = [wire.send(Api.LIST_TRANSACTIONS, ASKED, "listing") for _ in answers]
        assert [wire.receive(each, "listing")["error_code"] for each in sent] == [1, 2, 3]


def test_a_broker_that_asks_for_tls_is_told_with_the_setting():
    with (
        scripted_broker({Api.LIST_TRANSACTIONS: [b"\x15\x03\x03\x00\x02\x02\x50"]}) as broker,
        Wire(broker.address, 60) as wire,
        pytest.raises(InsecureConnection, match="it asks for TLS") as told,
    ):
        wire.ask(Api.LIST_TRANSACTIONS, ASKED, "listing")
    assert "security.protocol" in told.value.hint
