import socket

import pytest

from runnel.broker.configs.listeners import Listener
from runnel.broker.sockets import bind
from runnel.errors import AddressInUse, AddressUnusable


@pytest.fixture
def take():
    taken: list[socket.socket] = []

    def take(host: str, port: int = 0) -> tuple[Listener, list[socket.socket]]:
        bound, sockets = bind(Listener("PLAINTEXT", host, port), 5)
        taken.extend(sockets)
        return bound, sockets

    yield take
    for one in taken:
        one.close()


def can_connect(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 10).close()
    except OSError:
        return False
    return True


def test_port_0_takes_a_free_one_and_tells_it(take):
    bound, _ = take("127.0.0.1")
    assert bound.port > 0
    assert can_connect("127.0.0.1", bound.port)


def test_an_empty_host_listens_everywhere(take):
    bound, sockets = take("")
    assert len(sockets) == 1
    assert can_connect("127.0.0.1", bound.port)


def test_every_address_of_a_name_has_the_same_port(take):
    bound, sockets = take("localhost")
    assert {one.getsockname()[1] for one in sockets} == {bound.port}
    assert can_connect("localhost", bound.port)


def test_a_port_in_use_is_told(take):
    bound, _ = take("127.0.0.1")
    with pytest.raises(AddressInUse) as told:
        take("127.0.0.1", bound.port)
    address = f"127.0.0.1:{bound.port}"
    assert told.value.address == address
    assert str(told.value) == (
        f"cannot listen on {address}: another process does already "
        "(stop that process, or name another port; port 0 picks a free one)"
    )


def test_a_port_in_use_on_every_interface_is_told(take):
    bound, _ = take("")
    with pytest.raises(AddressInUse, match=rf"cannot listen on \*:{bound.port}:"):
        take("", bound.port)


def test_an_address_of_another_machine_is_told(take):
    with pytest.raises(AddressUnusable) as told:
        take("192.0.2.1", 9092)
    assert str(told.value) == (
        "cannot listen on 192.0.2.1:9092: Cannot assign requested address (name an address of this machine; "
        "0.0.0.0 stands for all of them, and ports below 1024 need rights)"
    )


def test_a_name_that_nobody_knows_is_told(take):
    with pytest.raises(AddressUnusable, match=r"cannot listen on no-such-host\.invalid:9092: "):
        take("no-such-host.invalid", 9092)


def test_an_ipv6_address_stands_in_brackets(take):
    with pytest.raises(AddressUnusable, match=r"cannot listen on \[2001:db8::1\]:9092: "):
        take("2001:db8::1", 9092)


def test_an_address_of_a_name_that_the_machine_has_not_is_left_out(monkeypatch, take):
    """As that of `localhost` where IPv6 is off."""
    there = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    absent = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [absent, there])
    bound, sockets = take("both")
    assert [one.getsockname() for one in sockets] == [("127.0.0.1", bound.port)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [absent])
    with pytest.raises(AddressUnusable):
        take("both")


def test_a_failure_leaves_no_socket_open(monkeypatch):
    made: list[socket.socket] = []
    original = socket.socket.listen

    def listen(one: socket.socket, backlog: int) -> None:
        made.append(one)
        if len(made) == 2:
            raise OSError(98, "in use")
        original(one, backlog)

    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    two.append((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: two)
    monkeypatch.setattr(socket.socket, "listen", listen)
    with pytest.raises(AddressInUse):
        bind(Listener("PLAINTEXT", "both", 0), 5)
    assert [one.fileno() for one in made] == [-1, -1]
