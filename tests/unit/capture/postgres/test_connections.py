"""Addresses are shown without their passwords."""

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
