"""Addresses are shown without their passwords, and connections are made by what they say."""

from types import SimpleNamespace

import psycopg
import pytest

from runnel.capture.postgres.connections import Address, identifier, literal
from runnel.capture.postgres.errors import DatabaseRefused, DatabaseUnreachable


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@host:5433/shop?sslmode=verify-full", "postgresql://me@host:5433/shop"),
        ("postgresql://host/shop?password=s3cret&user=me", "postgresql://me@host/shop"),
        ("host=host dbname=shop password=s3cret", "postgresql://host/shop"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    assert Address(url, "shop").shown == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@host:port with space/%zz",
        "host=a s3cret",
        "postgresql://[s3cret",
        "postgresql://me:s3cret%FF@host/shop",
        "postgresql://me:s3cret\udcff@host/shop",
        "postgresql://me:12/s3cret@host/shop",
    ],
)
def test_an_address_that_is_none_is_told_without_its_password(url):
    with pytest.raises(DatabaseRefused, match="it is no address") as raised:
        Address(url, "shop")
    assert "s3cret" not in str(raised.value)


def test_names_and_texts_are_quoted():
    assert identifier('a"b', "c") == '"a""b"."c"'
    assert literal("it's \\") == "'it''s \\'"


def connection_to(version):
    """A connection to a server of this version, as far as it matters."""
    return SimpleNamespace(info=SimpleNamespace(server_version=version), close=lambda: None)


@pytest.mark.parametrize("replication", [False, True])
def test_a_server_that_falls_silent_is_noticed_unless_the_address_says_otherwise(monkeypatch, replication):
    given = {}
    monkeypatch.setattr(psycopg, "connect", lambda *_, **options: given.update(options) or connection_to(15_00_00))
    Address("postgresql://host/shop", "shop").connect(replication=replication)
    assert {name: given[name] for name in given if "keepalives" in name or "tcp" in name} == {
        "keepalives": 1,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
    Address("postgresql://host/shop?keepalives_idle=5&tcp_user_timeout=0", "shop").connect(replication=replication)
    assert (given["keepalives_idle"], given["tcp_user_timeout"], given["keepalives_count"]) == ("5", "0", 3)


@pytest.mark.parametrize(("version", "shown"), [(14_00_19, "14"), (9_06_24, "9")])
def test_a_server_that_is_too_old_is_refused_and_let_go(monkeypatch, version, shown):
    connection, closed = connection_to(version), []
    connection.close = lambda: closed.append(True)
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: connection)
    with pytest.raises(DatabaseRefused) as raised:
        Address("postgresql://me:s3cret@host/shop", "shop").connect()
    assert str(raised.value) == (
        f"database postgresql://me@host/shop refused: it is PostgreSQL {shown}; 15 or newer is needed "
        "(upgrade the server, or capture another one)"
    )
    assert closed


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("sslmode=always", 'invalid sslmode value: "always"'),
        ("sslmode=require&sslrootcert=system", 'weak sslmode "require" may not be used with sslrootcert=system'),
        ("ssl_min_protocol_version=TLSv9", 'invalid "ssl_min_protocol_version" value: "TLSv9"'),
    ],
)
def test_a_setting_that_is_none_is_refused_and_not_waited_for(settings, reason):
    with pytest.raises(DatabaseRefused, match="see to the settings behind the question mark of the address") as raised:
        Address(f"postgresql://me:s3cret@127.0.0.1:1/shop?{settings}", "shop").connect()
    assert reason in raised.value.reason
    assert "s3cret" not in str(raised.value)


def test_a_host_whose_name_can_be_none_is_refused():
    with pytest.raises(DatabaseRefused, match="see to the host"):
        Address("postgresql://me@data..example/shop", "shop").connect()


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ('private key file "/k" has group or world access', "see to the files that sslcert and sslkey name"),
        ('could not open certificate file "/c": Permission denied', "see to the files that sslcert and sslkey name"),
        ("SSL error: tlsv1 alert unknown ca", "see to the files that sslcert and sslkey name"),
        ("channel binding required, but SSL not in use", "see to the settings behind the question mark of the address"),
        ('invalid port number: "99999"', "give a port from 1 to 65535, or none for 5432"),
    ],
)
def test_what_the_client_lacks_is_told_with_what_mends_it(monkeypatch, reason, hint):
    connecting(monkeypatch, reason)
    with pytest.raises(DatabaseRefused) as raised:
        Address("postgresql://host/shop", "shop").connect()
    assert raised.value.hint == hint


@pytest.mark.parametrize(
    "reason",
    [
        "Connection refused Is the server running on that host and accepting TCP/IP connections?",
        "FATAL: number of requested standby connections exceeds max_wal_senders (currently 1)",
        "SSL SYSCALL error: EOF detected",
        "SSL connection has been closed unexpectedly",
        'could not translate host name "host" to address: Temporary failure in name resolution',
        "server does not support SSL, but SSL was required connection to server failed: FATAL: the database system is "
        "starting up",
    ],
)
def test_a_server_that_may_come_back_is_waited_for(monkeypatch, reason):
    connecting(monkeypatch, reason)
    with pytest.raises(DatabaseUnreachable):
        Address("postgresql://host/shop", "shop").connect()


@pytest.mark.parametrize("error", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
def test_what_the_server_asks_to_try_again_is_tried_again(error):
    assert isinstance(
        Address("postgresql://host/shop", "shop").told(error("it was in another's way")), DatabaseUnreachable
    )


@pytest.mark.parametrize(("version", "expected"), [(16_00_00, []), (17_00_00, ["SET transaction_timeout = 0"])])
def test_a_long_transaction_is_not_cut_off_where_the_server_could(monkeypatch, version, expected):
    connection, executed = connection_to(version), []
    connection.execute = executed.append
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: connection)
    assert Address("postgresql://host/shop", "shop").connect() is connection
    assert executed == expected


def connecting(monkeypatch, reason):
    """Whoever connects is told this."""

    def connect(*_, **__):
        raise psycopg.OperationalError(f'connection to server at "host", port 5432 failed: {reason}')

    monkeypatch.setattr(psycopg, "connect", connect)
