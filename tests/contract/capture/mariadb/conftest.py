"""A database of one's own in a MariaDB that tells its changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.capture.captured_mariadb import MariadbDatabase
from tests.contract.capture.mariadb_server import Mariadb, mariadb_server


@pytest.fixture(scope="session")
def alone(certificates: Path) -> Iterator[Mariadb]:
    """A server whose log may be purged and begun anew, which has a certificate, and takes Orders for orders."""
    files = {"ssl_cert": str(certificates / "server.pem"), "ssl_key": str(certificates / "server.key")}
    with mariadb_server({**files, "lower_case_table_names": "1"}) as server:
        yield server


@pytest.fixture
def database(mariadb: Mariadb) -> Iterator[MariadbDatabase]:
    database = MariadbDatabase(mariadb)
    yield database
    database.close()
