"""Servers that are too old to be captured."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from runnel.capture.mariadb.errors import DatabaseRefused
from runnel.capture.mariadb.readiness import Readiness


def readiness_of(version):
    """Of a server that says nothing but what it is."""
    cursor = SimpleNamespace(execute=lambda query: None, fetchall=lambda: [(version,)])
    connection = SimpleNamespace(cursor=lambda: nullcontext(cursor))
    return Readiness(SimpleNamespace(shown="mariadb://me@db/shop", database="shop"), connection)


@pytest.mark.parametrize("version", ["10.4.34-MariaDB-log", "10.1.48-MariaDB", "5.5.68-MariaDB"])
def test_a_mariadb_that_does_not_tell_the_names_of_columns_is_refused(version):
    with pytest.raises(DatabaseRefused) as raised:
        readiness_of(version).check_server()
    assert str(raised.value) == (
        f"database mariadb://me@db/shop refused: it is MariaDB {version} (10.5 or newer tells the names of columns)"
    )
