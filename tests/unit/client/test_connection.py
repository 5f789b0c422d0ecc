"""Addresses, and what is told of a broker that is not there or is none."""

from __future__ import annotations

import logging
import socket

import pytest
from confluent_kafka import KafkaError

from runnel.client import Admin, InvalidAddress, Producer, TimedOut, Unreachable
from runnel.client.connection import LOGGER, Connection, Faults
from runnel.errors import RunnelError


@pytest.fixture
def silent():
    """Something listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("here:9093", [("here", 9093)]),
        ("here", [("here", 9092)]),
        ("a:1, b.example.com:2", [("a", 1), ("b.example.com", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("127.0.0.1:65535", [("127.0.0.1", 65535)]),
    ],
)
def test_addresses_are_read(text, addresses):
    assert Connection(text).addresses == addresses


@pytest.mark.parametrize(
    "text",
    ["", "a:b:c", "here:", "here:0", "here:65536", "here:x", ":9092", "a:1,,b:2", "a b:1", 9092, b"a:1", ["a:1"]],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidAddress, match="is no address of a broker"):
        Connection(text)


def test_where_nothing_listens_the_reason_is_told():
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1: connection refused"):
        Connection("127.0.0.1:1").reach()


def test_one_address_of_several_is_enough(silent):
    Connection(f"127.0.0.1:1,{silent}").reach()


def test_a_listener_that_is_no_broker_is_told(silent):
    with Admin(silent, timeout=0.3) as admin, pytest.raises(RunnelError) as caught:
        admin.topics()
    assert isinstance(caught.value, TimedOut | Unreachable)
    assert silent in str(caught.value)


def test_librdkafka_says_nothing_on_stderr(silent, capfd):
    with Admin(silent, settings={"socket.connection.setup.timeout.ms": 1_000}, timeout=0.3) as admin:
        for ask in (admin.topics, admin.cluster):
            with pytest.raises(RunnelError):
                ask()
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in LOGGER.handlers)


def test_a_producer_of_a_listener_that_is_no_broker_is_told(silent, monkeypatch):
    monkeypatch.setattr("runnel.client.producer.Connection", lambda *given: Connection(*given, timeout=0.3))
    with pytest.raises(RunnelError) as caught:
        Producer(silent)
    assert isinstance(caught.value, TimedOut | Unreachable)


def test_settings_of_the_user_win():
    settings = {"client.id": "mine", "security.protocol": "SASL_SSL"}
    connection = Connection("here", settings)
    configuration = connection.configuration({"client.id": "ours", "linger.ms": 1}, Faults())
    assert (configuration["client.id"], configuration["linger.ms"]) == ("mine", 1)
    assert not connection.is_plain
    assert Connection("here").is_plain


def test_only_faults_of_the_connection_are_remembered():
    faults = Faults()
    faults(KafkaError(KafkaError._AUTHENTICATION, "no"))
    assert faults.down is None
    faults(KafkaError(KafkaError._TRANSPORT, "gone"))
    assert faults.down == "gone"
    faults.forget()
    assert faults.down is None
