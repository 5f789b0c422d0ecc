import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from runnel import libpq
from runnel.capture.postgres.connections import Address
from runnel.errors import Permanent, RunnelError, Transient
from runnel.views.postgres import PostgresStore


@pytest.mark.parametrize(
    "reason",
    [
        "connection to server failed: Connection refused",
        "FATAL: the database system is starting up",
        "server does not support SSL connection failed: FATAL: the database system is starting up",
        "SSL SYSCALL error: EOF detected",
        "FATAL: the database system is not yet accepting connections",
        "FATAL: terminating connection due to administrator command",
        "FATAL: canceling authentication due to timeout",
    ],
)
def test_what_may_pass_is_told_from_what_somebody_has_to_mend(reason: str) -> None:
    assert libpq.may_pass(reason)


@pytest.mark.parametrize(
    "reason", ['FATAL: database "shop" does not exist', "SSL error: certificate verify failed", "no password supplied"]
)
def test_what_somebody_has_to_mend_does_not_pass(reason: str) -> None:
    assert not libpq.may_pass(reason)


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("postgresql://me@127.0.0.1:99999/shop", libpq.PORT),
        ("postgresql://me@127.0.0.1:five/shop", libpq.PORT),
        ("postgresql://me@localhost:five/shop", libpq.PORT),
        ("host=127.0.0.1,127.0.0.1 port=1,2,3 user=me dbname=shop", libpq.ONE_FOR_EACH),
        ("host=127.0.0.1,127.0.0.1 hostaddr=127.0.0.1 user=me dbname=shop", libpq.ONE_FOR_EACH),
        ("postgresql://me@data..example/shop", libpq.HOST_SPELLED),
        ("postgresql://me@127.0.0.1:1/shop?keepalives_idle=often", libpq.SETTINGS_OF_ADDRESS),
        ("postgresql://me@127.0.0.1:1/shop?sslmode=always", libpq.SETTINGS_OF_ADDRESS),
        ("postgresql://me@127.0.0.1:1/shop?connect_timeout=soon", libpq.SETTINGS_OF_ADDRESS),
        ("postgresql://me@127.0.0.1:1/shop?scram_client_key=x", libpq.SETTINGS_OF_ADDRESS),
        ("postgresql://me@127.0.0.1:1/shop?hostaddr=127.0.0.999", libpq.SETTINGS_OF_ADDRESS),
        ("postgresql://me@127.0.0.1:1/shop?service=none", libpq.SERVICE),
        ("postgresql://me@127.0.0.1:1/shop", None),
        ("host=127.0.0.1,127.0.0.1 port=99999,0 user=me dbname=shop", libpq.PORT),
    ],
)
def test_the_library_says_what_we_look_for(address: str, hint: str | None) -> None:
    with pytest.raises((psycopg.Error, UnicodeError)) as raised:
        psycopg.connect(address, **({} if "connect_timeout" in address else {"connect_timeout": 10}))
    assert libpq.what_mends(str(raised.value)) == hint
    assert libpq.may_pass(str(raised.value)) is (hint is None)


def test_of_several_hosts_one_that_may_come_back_is_enough() -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect("host=127.0.0.1,127.0.0.1 port=99999,1 user=me dbname=shop", connect_timeout=10)
    assert libpq.may_pass(" ".join(str(raised.value).split()))


REFUSED = 'connection failed: FATAL: password authentication failed for user "me"'
NOBODY = "connection failed: Connection refused Is the server running on that host?"


def failures(*each: tuple[str, str, str]) -> str:
    """As psycopg tells them: the host, its address, and what was said."""
    lines = [f"- host: {host}, port: '5432', hostaddr: '{address}': {said}" for host, address, said in each]
    return " ".join([each[-1][2], "Multiple connection attempts failed. All failures were:", *lines])


def test_a_host_that_refuses_us_at_one_of_its_addresses_does_not_come_back_by_itself() -> None:
    """As where a name has an address of IPv6, and the server listens at the other one."""
    assert not libpq.may_pass(failures(("'localhost'", "::1", NOBODY), ("'localhost'", "127.0.0.1", REFUSED)))
    assert not libpq.may_pass(failures(("'localhost'", "::1", REFUSED), ("'localhost'", "127.0.0.1", NOBODY)))
    assert libpq.may_pass(failures(("'localhost'", "::1", NOBODY), ("'localhost'", "127.0.0.1", NOBODY)))


def test_another_host_may_come_back_whether_it_has_a_name_or_an_address_alone() -> None:
    assert libpq.may_pass(failures(("'a'", "10.0.0.1", REFUSED), ("'b'", "10.0.0.2", NOBODY)))
    assert libpq.may_pass(failures(("None", "10.0.0.1", REFUSED), ("None", "10.0.0.2", NOBODY)))


def test_psycopg_tells_of_the_addresses_of_a_name_as_we_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(host: str, port: str, **how: Any) -> list[Any]:
        return [(family, 0, 0, "", (address, port)) for family, address in ((10, "::1"), (2, "127.0.0.1"))]

    monkeypatch.setattr("socket.getaddrinfo", resolved)
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect("postgresql://me@server:1/shop?connect_timeout=10")
    ((first, second),) = libpq._attempts(" ".join(str(raised.value).split()))
    assert "'::1'" in first
    assert "'127.0.0.1'" in second


@contextmanager
def refusing(code: str, said: str) -> Iterator[str]:
    """The address of a server that says no in its own language."""
    fields = f"SFATAL\0VFATAL\0C{code}\0M{said}\0\0".encode()
    answer = b"E" + (4 + len(fields)).to_bytes(4, "big") + fields
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.recv(10_000)
                client.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"postgresql://me@127.0.0.1:{listener.getsockname()[1]}/shop?sslmode=disable"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        ("57P03", "das Datenbanksystem startet", Transient),
        ("57P03", "das Datenbanksystem fährt herunter", Transient),
        ("53300", "tut mir leid, schon zu viele Verbindungen", Transient),
        ("3D000", "Datenbank »shop« existiert nicht", Permanent),
        ("28P01", "Passwort-Authentifizierung für Benutzer »me« fehlgeschlagen", Permanent),
    ],
)
def test_a_server_is_understood_in_whatever_language_it_refuses(
    code: str, said: str, expected: type[RunnelError]
) -> None:
    with refusing(code, said) as address:
        for connect in (Address(address, "shop").connect, PostgresStore(address).names):
            with pytest.raises(expected, match=said):
                connect()


def test_a_server_that_lets_nobody_in_is_told_from_one_that_is_not_there_any_more() -> None:
    with refusing("28P01", "nein") as address:
        assert not libpq.lets_nobody_in(address, 10)
    assert libpq.lets_nobody_in(address, 10)
