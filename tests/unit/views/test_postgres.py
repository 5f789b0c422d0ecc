"""How the store in a PostgreSQL connects; what it does there, tests/contract/views tries with a real one."""

import psycopg
import pytest

from runnel.libpq import LIVENESS
from runnel.views.errors import StoreUnreachable
from runnel.views.postgres import PostgresStore


@pytest.fixture
def given(monkeypatch):
    """What psycopg was given last."""
    last = {}

    def connect(*_, **options):
        last.update(options)
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(psycopg, "connect", connect)
    return last


def test_a_server_that_falls_silent_is_noticed_unless_the_address_says_otherwise(given):
    with pytest.raises(StoreUnreachable):
        PostgresStore("postgresql://host/shop").names()
    assert {name: given[name] for name in given if "keepalives" in name or "tcp" in name} == LIVENESS
    with pytest.raises(StoreUnreachable):
        PostgresStore("postgresql://host/shop?keepalives_idle=5&tcp_user_timeout=0").names()
    assert (given["keepalives_idle"], given["tcp_user_timeout"], given["keepalives_count"]) == ("5", "0", 3)
