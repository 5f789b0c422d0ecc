"""Addresses are shown without their passwords."""

import socket
import sys
from contextlib import contextmanager

import pymysql
import pytest
from pymysql import _auth

from runnel.capture.mariadb.connections import Address, identifier, literal
from runnel.capture.mariadb.errors import DatabaseRefused, DatabaseUnreachable
from runnel.capture.mariadb.source import bytes_between, server_id_of


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mariadb://me:s3cret@host:3307/shop?ssl_ca=/ca.pem", "mariadb://me@host:3307/shop"),
        ("mariadb://me:s%40cret@host/shop", "mariadb://me@host/shop"),
        ("mysql://host/shop", "mariadb://host/shop"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    assert Address(url, "shop").shown == shown


@pytest.mark.parametrize(
    "url",
    [
        "mariadb://me:s3cret@host:port/shop",
        "mariadb://me:s3cret@host",
        "mariadb://me:s3cret@host/a/b",
        "mariadb://me:s3cret@[host/shop",
        "mariadb://me:s3cret@host/shop?sslmode=on",
    ],
)
def test_an_address_that_is_none_is_told_without_its_password(url):
    with pytest.raises(DatabaseRefused, match="an address that cannot be read") as raised:
        Address(url, "shop")
    assert "s3cret" not in str(raised.value)


class Answering:
    """A connection to a server that greets with a version, says another one when it is asked, and sets nothing."""

    def __init__(self, greeting: str, version: str) -> None:
        self._greeting = greeting
        self._version = version
        self._sock = socket.socket()

    def get_server_info(self):
        return self._greeting

    @contextmanager
    def cursor(self):
        yield self

    def execute(self, query):
        if "VERSION()" not in query:
            raise pymysql.OperationalError(1193, "Unknown system variable")

    def fetchall(self):
        return [(self._version,)]

    def _force_close(self):
        self._sock.close()


def connect(monkeypatch, found):
    def answer(**_):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(pymysql, "connect", answer)
    Address("mariadb://me:s3cret@host/shop", "shop").connect()


def test_another_server_than_mariadb_is_refused_before_anything_is_set(monkeypatch):
    with pytest.raises(DatabaseRefused, match=r"it is no MariaDB, but 8\.4\.3 \(MySQL was not tried") as raised:
        connect(monkeypatch, Answering("8.4.3", "8.4.3"))
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("greeting", ["5.5.5-10.11.6-MariaDB-log", "5.6.47.0"])  # the second is of a gateway before it
def test_a_mariadb_is_known_by_its_greeting_or_by_its_own_word(monkeypatch, greeting):
    with pytest.raises(DatabaseUnreachable, match="Unknown system variable"):
        connect(monkeypatch, Answering(greeting, "10.11.6-MariaDB"))


def test_a_server_that_falls_silent_is_noticed(monkeypatch):
    """Whoever reads the log sends nothing: the system alone can find that nobody is there."""
    found = Answering("5.5.5-10.11.6-MariaDB-log", "10.11.6-MariaDB")
    with pytest.raises(DatabaseUnreachable):
        connect(monkeypatch, found)
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    numbers = {name: getattr(socket, name) for name in names if hasattr(socket, name)}
    told = {name: found._sock.getsockopt(socket.IPPROTO_TCP, number) for name, number in numbers.items()}
    expected = dict(zip(names, (30, 10, 3, 60_000), strict=True))
    assert told == {name: expected[name] for name in numbers}


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (1130, "run CREATE USER 'me'@'%' IDENTIFIED BY '...'; or one for this host, or see to the address"),
        (1820, "run ALTER USER 'me'@'%' IDENTIFIED BY '...'; with another password"),
        (1862, "run ALTER USER 'me'@'%' IDENTIFIED BY '...'; with another password"),
        (2059, "run ALTER USER 'me'@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('...');"),
        (4151, "run ALTER USER 'me'@'%' ACCOUNT UNLOCK;"),
    ],
)
def test_one_who_may_not_log_in_is_told_what_to_do_and_not_waited_for(monkeypatch, number, hint):
    with pytest.raises(DatabaseRefused, match="no") as raised:
        connect(monkeypatch, pymysql.OperationalError(number, "no"))
    assert raised.value.hint == hint


@pytest.mark.parametrize(
    ("package", "log_in"),
    [
        ("pynacl", lambda: _auth.ed25519_password(b"s3cret", bytes(32))),
        ("cryptography", lambda: _auth.sha2_rsa_encrypt(b"s3cret", bytes(20), b"")),
    ],
)
def test_a_way_to_log_in_for_which_a_package_is_missing_is_told(monkeypatch, package, log_in):
    monkeypatch.setitem(sys.modules, "nacl", None)
    monkeypatch.setattr(_auth, "_nacl_bindings", False)
    monkeypatch.setattr(_auth, "_have_cryptography", False)
    monkeypatch.setattr(pymysql, "connect", lambda **_: log_in())
    with pytest.raises(DatabaseRefused, match=f"'{package}' package is required") as raised:
        Address("mariadb://me:s3cret@host/shop", "shop").connect()
    assert raised.value.hint == (
        "install it with pip where Runnel is, or run ALTER USER 'me'@'%' IDENTIFIED VIA mysql_native_password USING"
        " PASSWORD('...');"
    )


def test_names_and_texts_are_quoted():
    assert identifier("a`b", "c") == "`a``b`.`c`"
    assert literal("it's") == "_utf8mb4 x'69742773'"
    assert literal(b"\x00") == "x'00'"


def test_each_capture_has_a_number_of_its_own_among_replicas():
    assert server_id_of("shop") == server_id_of("shop") != server_id_of("other")
    assert 0 < server_id_of("shop") < 2**32


def test_bytes_are_counted_across_files():
    sizes = {"bin.1": 100, "bin.2": 50, "bin.3": 30}
    assert bytes_between(sizes, ("bin.3", 10), ("bin.3", 30)) == 20
    assert bytes_between(sizes, ("bin.1", 90), ("bin.3", 30)) == 90
    assert bytes_between(sizes, ("bin.0", 90), ("bin.3", 30)) == 180
