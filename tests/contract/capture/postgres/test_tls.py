"""A server is believed when an authority vouches for it, by the name that it is called by. What libpq finds wrong by
itself is told with what mends it, and is not waited for.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runnel.capture.postgres.errors import DatabaseRefused
from tests.contract.capture.captured_postgres import Database, events_of, skip_without, told, wait_for
from tests.contract.views.postgres_server import HOST, SERVER_USER, Postgres

pytestmark = pytest.mark.servers


@pytest.fixture
def secured(server: Postgres, certificates: Path) -> Iterator[Postgres]:
    """The server with a certificate, which is called localhost there."""
    if not shown(server, "ssl_library"):
        skip_without(server, "TLS")
    for name in ("server.pem", "server.key"):
        path = Path(shutil.copy(certificates / name, server.directory / "data"))
        path.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(path, SERVER_USER, SERVER_USER)
    set_tls(server, "ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", "ssl = on")
    yield server
    set_tls(server, "ssl = off")


def set_tls(server: Postgres, *settings: str) -> None:
    """The server takes a moment to heed it."""
    for setting in settings:
        server.run(f"ALTER SYSTEM SET {setting}")
    server.run("SELECT pg_reload_conf()")
    wanted = settings[-1].rpartition(" ")[2]
    wait_for(lambda: shown(server, "ssl") == wanted)


def shown(server: Postgres, setting: str) -> str:
    with psycopg.connect(server.url) as connection:
        found = connection.execute(f"SHOW {setting}".encode()).fetchone()
    assert found is not None
    return str(found[0])


def address(database: Database, host: str, settings: str) -> str:
    return f"{database.server.url.replace(HOST, host)}?{settings}"


def refused(database: Database, url: str) -> DatabaseRefused:
    with pytest.raises(DatabaseRefused) as raised:
        database.source(url=url).prepare()
    return raised.value


def test_the_log_of_a_server_that_is_vouched_for_is_read_over_tls(secured, database: Database, certificates: Path):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)")
    source = database.source(
        url=address(database, "localhost", f"sslmode=verify-full&sslrootcert={certificates / 'ca.pem'}")
    )
    start = source.prepare()
    database.run("INSERT INTO t SELECT i, repeat('x', 3000) FROM generate_series(1, 2000) i")  # many records of TLS
    changes = source.changes(start)
    ours = f"application_name = 'runnel capture {database.schema}'"
    found = database.ask(f"SELECT DISTINCT ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE {ours}")
    assert found == [(True,)]
    changes.close()
    assert len(told(events_of(source, start))) == 2_000


def test_a_server_of_another_name_than_its_certificate_has_is_refused(secured, database: Database, certificates: Path):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    authority = f"sslrootcert={certificates / 'ca.pem'}"
    error = refused(database, address(database, HOST, f"sslmode=verify-full&{authority}"))
    assert f'server certificate for "localhost" (and 1 other name) does not match host name "{HOST}"' in error.reason
    assert "give the host by a name that is in the server's certificate" in str(error.hint)
    database.source(url=address(database, HOST, f"sslmode=verify-ca&{authority}")).prepare()  # as the hint says


def test_a_server_for_which_a_stranger_vouches_is_refused(secured, database: Database, certificates: Path):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    stranger = f"sslmode=verify-full&sslrootcert={certificates / 'stranger.pem'}"
    for settings in (stranger, "sslmode=verify-full&sslrootcert=system"):
        error = refused(database, address(database, "localhost", settings))
        assert "certificate verify failed" in error.reason
        assert "name the certificate of the authority that vouches for the server: sslrootcert=FILE" in str(error.hint)
    database.source(url=address(database, "localhost", "sslmode=require")).prepare()  # as the hint says


def test_an_authority_that_is_not_there_is_told(secured, database: Database, tmp_path: Path):
    error = refused(database, address(database, "localhost", "sslmode=verify-full&sslrootcert=/nowhere/ca.pem"))
    assert 'root certificate file "/nowhere/ca.pem" does not exist' in error.reason
    assert "sslrootcert=FILE" in str(error.hint)
    (tmp_path / "no.pem").write_text("nothing")
    error = refused(database, address(database, "localhost", f"sslmode=verify-ca&sslrootcert={tmp_path / 'no.pem'}"))
    assert f'could not read root certificate file "{tmp_path / "no.pem"}"' in error.reason
    assert "sslrootcert=FILE" in str(error.hint)


def test_a_server_without_tls_is_not_believed(database: Database, certificates: Path):
    """Nobody is spoken to in the clear who was to be spoken to by TLS."""
    assert shown(database.server, "ssl") == "off"
    for settings in ("sslmode=require", f"sslmode=verify-full&sslrootcert={certificates / 'ca.pem'}"):
        error = refused(database, address(database, "localhost", settings))
        assert "server does not support SSL, but SSL was required" in error.reason
        assert "set ssl = on there" in str(error.hint)


def test_a_password_that_nobody_gave_is_asked_for(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", "/nowhere/pgpass")
    database.run("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN REPLICATION PASSWORD 'right'")
    error = refused(database, database.server.url_of("locked"))
    assert "no password supplied" in error.reason
    assert "PGPASSWORD or ~/.pgpass" in str(error.hint)
    monkeypatch.setenv("PGPASSWORD", "right")
    database.source(url=database.server.url_of("locked")).known()  # it is let in
