"""A database of one's own in a MariaDB that tells its changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.capture.captured_mariadb import MariadbDatabase
from tests.contract.capture.mariadb_server import Mariadb


@pytest.fixture
def database(mariadb: Mariadb) -> Iterator[MariadbDatabase]:
    database = MariadbDatabase(mariadb)
    yield database
    database.close()
