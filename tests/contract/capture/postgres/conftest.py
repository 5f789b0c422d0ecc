"""A schema of one's own in a PostgreSQL that tells its changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.contract.capture.captured_postgres import Database
from tests.contract.views.postgres_server import Postgres


@pytest.fixture
def database(server: Postgres) -> Iterator[Database]:
    with ExitStack() as stack:
        database = Database(server, stack)
        yield database
        database.close()
