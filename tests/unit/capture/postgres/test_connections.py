"""Addresses are shown without their passwords, and connections are made by what they say."""

import psycopg
import pytest

from runnel.capture.postgres.connections import Address, identifier, literal
from runnel.capture.postgres.errors import DatabaseRefused


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
    "url", ["postgresql://me:s3cret@host:port with space/%zz", "host=a s3cret", "postgresql://[s3cret"]
)
def test_an_address_that_is_none_is_told_without_its_password(url):
    with pytest.raises(DatabaseRefused, match="it is no address") as raised:
        Address(url, "shop")
    assert "s3cret" not in str(raised.value)


def test_names_and_texts_are_quoted():
    assert identifier('a"b', "c") == '"a""b"."c"'
    assert literal("it's \\") == "'it''s \\'"


@pytest.mark.parametrize("replication", [False, True])
def test_a_server_that_falls_silent_is_noticed_unless_the_address_says_otherwise(monkeypatch, replication):
    given = {}
    monkeypatch.setattr(psycopg, "connect", lambda *_, **options: given.update(options))
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
