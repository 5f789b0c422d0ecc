"""A server is believed when an authority vouches for it, by the name that it is called by."""

from __future__ import annotations

from contextlib import closing

import pytest

from runnel.capture.mariadb.errors import DatabaseRefused
from tests.contract.capture.captured_mariadb import MariadbDatabase, changes_of, events_of

pytestmark = pytest.mark.servers


@pytest.fixture
def database(alone):
    database = MariadbDatabase(alone)
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(3000))")
    yield database
    database.close()


@pytest.fixture
def address(database):
    """With a host, and what follows the question mark."""

    def made(host, settings):
        return f"{database.url.replace('127.0.0.1', host)}?{settings}"

    return made


def refused(database, url):
    with pytest.raises(DatabaseRefused) as raised:
        database.source(url=url).prepare()
    return raised.value


def test_the_log_of_a_server_that_is_vouched_for_is_read_over_tls(database, address, certificates):
    database.run("CREATE USER IF NOT EXISTS careful@'%' IDENTIFIED BY 's3cret' REQUIRE SSL")
    database.run("GRANT ALL ON *.* TO careful@'%'")
    url = address("localhost", f"ssl_ca={certificates / 'ca.pem'}").replace("runnel:", "careful:")
    source = database.source(url=url)
    start = source.prepare()
    database.run("INSERT INTO t SELECT seq, repeat('x', 3000) FROM seq_1_to_2000")  # more than one record of TLS
    assert len(changes_of(events_of(database, source, start))) == 2_000
    with closing(source._address.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert cursor.fetchone()[1]


def test_a_server_of_another_name_than_its_certificate_has_is_refused(database, address, certificates):
    error = refused(database, address("127.0.0.1", f"ssl_ca={certificates / 'ca.pem'}"))
    assert "certificate is not valid for '127.0.0.1'" in error.reason
    assert "give the host by a name that is in the server's certificate" in error.hint
    assert "s3cret" not in str(error)
    database.source(url=address("127.0.0.1", f"ssl_ca={certificates / 'ca.pem'}&ssl_verify=no")).prepare()


def test_a_server_for_which_a_stranger_vouches_is_refused(database, address, certificates):
    for settings in (f"ssl_ca={certificates / 'stranger.pem'}", "ssl_verify=yes"):
        error = refused(database, address("localhost", settings))
        assert "certificate verify failed" in error.reason
        assert "as ssl_ca" in error.hint


def test_files_that_are_not_there_are_told(database, address):
    error = refused(database, address("localhost", "ssl_ca=/nowhere/ca.pem"))
    assert "no TLS is possible with ssl_ca=/nowhere/ca.pem: " in error.reason


def test_a_server_without_tls_is_not_believed(mariadb, certificates):
    """Nobody is spoken to in the clear who was to be spoken to by TLS."""
    found = MariadbDatabase(mariadb)
    try:
        url = f"{found.url}?ssl_ca={certificates / 'ca.pem'}"
        assert "write ssl_cert and ssl_key under [mariadbd]" in refused(found, url).hint
    finally:
        found.close()
