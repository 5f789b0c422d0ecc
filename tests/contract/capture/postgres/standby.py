"""A standby of a real PostgreSQL, which can take over from it.

    with standby_of(primary) as standby:
        synchronize(primary, standby, "shop")
        promote(primary, standby)

It follows by a slot of its own, and copies those slots of the primary that are to be there after it has taken over.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from tests.contract.capture.captured_postgres import wait_for
from tests.contract.views.postgres_server import (
    DATABASE,
    HOST,
    SERVER_USER,
    USER,
    Postgres,
    run_as_server,
)
from tests.ports import free_port

SLOT: Final = "standby"
COPIED: Final = "SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND synced AND NOT temporary"


@contextmanager
def standby_of(primary: Postgres) -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="runnel-standby-", dir="/tmp") as name:
        directory = Path(name)
        standby = Postgres(free_port(), directory, primary.programs)
        if os.geteuid() == 0:
            shutil.chown(directory, SERVER_USER, SERVER_USER)
        _copy(primary, standby)
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()
            wait_for(lambda: _let_go(primary))


def synchronize(primary: Postgres, standby: Postgres, slot: str) -> None:
    """Have the standby take over a slot as it is now. It can when the primary has let go of what the standby lacks."""
    with psycopg.connect(standby.url, autocommit=True) as connection:

        def is_copied() -> bool:
            primary.run("SELECT pg_log_standby_snapshot()")
            connection.execute("SELECT pg_sync_replication_slots()")
            return bool(connection.execute(COPIED.format(slot=slot).encode()).fetchall())

        wait_for(is_copied)


def promote(primary: Postgres, standby: Postgres) -> None:
    """With all that the primary has written so far."""
    with psycopg.connect(primary.url, autocommit=True) as connection:
        found = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert found is not None
    with psycopg.connect(standby.url, autocommit=True) as connection:
        follows = "SELECT WHERE pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_for(lambda: connection.execute(follows, found).fetchall())
        connection.execute("SELECT pg_promote()")


def _let_go(primary: Postgres) -> bool:
    with psycopg.connect(primary.url, autocommit=True) as connection:
        dropped = (
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        )
        return bool(connection.execute(dropped, [SLOT]).fetchall())


def _copy(primary: Postgres, standby: Postgres) -> None:
    data = standby.directory / "data"
    origin = f"host={HOST} port={primary.port} user={USER} dbname={DATABASE}"
    options = ["--checkpoint=fast", "--no-sync", "--create-slot", f"--slot={SLOT}", f"--dbname={origin}"]
    run_as_server([str(standby.programs / "pg_basebackup"), f"--pgdata={data}", *options])
    settings = {
        "port": str(standby.port),
        "unix_socket_directories": f"'{standby.directory}'",
        "primary_conninfo": f"'{origin}'",
        "primary_slot_name": SLOT,
        "hot_standby_feedback": "on",
    }
    with open(data / "postgresql.conf", "a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    (data / "standby.signal").touch()
    if os.geteuid() == 0:
        shutil.chown(data / "standby.signal", SERVER_USER, SERVER_USER)
