import socket

import pytest

from runnel.broker.configs.listeners import Listener
from runnel.broker.endpoints import Endpoint, advertised, parse_endpoint
from runnel.errors import InvalidSetting


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "[::1]:9092", "broker.example:0"])
def test_an_endpoint_reads_as_it_is_written(text):
    assert str(parse_endpoint("metrics", text)) == text


@pytest.mark.parametrize("text", ["9092", "host", "host:", "host:99999", "host:port", "::1:9092", ""])
def test_what_is_no_address_is_refused(text):
    with pytest.raises((InvalidSetting, IndexError)) as told:
        parse_endpoint("metrics", text)
    assert isinstance(told.value, InvalidSetting)


def test_clients_are_told_where_the_broker_listens():
    assert advertised([Listener("PLAINTEXT", "127.0.0.1", 9092)], []) == {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_a_listener_on_every_interface_is_advertised_by_the_name_of_the_machine(host):
    assert advertised([Listener("A", host, 9092)], []) == {"A": Endpoint(socket.gethostname(), 9092)}


def test_each_listener_is_advertised_as_asked():
    bound = [Listener("INSIDE", "0.0.0.0", 9092), Listener("OUTSIDE", "0.0.0.0", 9093)]
    asked = [Listener("OUTSIDE", "broker.example", 19093), Listener("INSIDE", "10.0.0.5", 0)]
    assert advertised(bound, asked) == {
        "INSIDE": Endpoint("10.0.0.5", 9092),  # a port of 0 means the one that was taken
        "OUTSIDE": Endpoint("broker.example", 19093),
    }
