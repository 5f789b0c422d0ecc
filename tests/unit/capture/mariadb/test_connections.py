"""Addresses are shown without their passwords."""

import pytest

from runnel.capture.mariadb.connections import Address, identifier, literal
from runnel.capture.mariadb.errors import DatabaseRefused
from runnel.capture.mariadb.source import bytes_between, server_id_of


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mariadb://me:s3cret@host:3307/shop?ssl_ca=/ca.pem", "mariadb://me@host:3307/shop"),
        ("mariadb://me:s%40cret@host/shop", "mariadb://me@host/shop"),
        ("mysql://host/shop", "mariadb://host/shop"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    assert Address(url, "shop").shown == shown


@pytest.mark.parametrize(
    "url",
    [
        "mariadb://me:s3cret@host:port/shop",
        "mariadb://me:s3cret@host",
        "mariadb://me:s3cret@host/a/b",
        "mariadb://me:s3cret@[host/shop",
        "mariadb://me:s3cret@host/shop?sslmode=on",
    ],
)
def test_an_address_that_is_none_is_told_without_its_password(url):
    with pytest.raises(DatabaseRefused, match="an address that cannot be read") as raised:
        Address(url, "shop")
    assert "s3cret" not in str(raised.value)


def test_names_and_texts_are_quoted():
    assert identifier("a`b", "c") == "`a``b`.`c`"
    assert literal("it's") == "_utf8mb4 x'69742773'"
    assert literal(b"\x00") == "x'00'"


def test_each_capture_has_a_number_of_its_own_among_replicas():
    assert server_id_of("shop") == server_id_of("shop") != server_id_of("other")
    assert 0 < server_id_of("shop") < 2**32


def test_bytes_are_counted_across_files():
    sizes = {"bin.1": 100, "bin.2": 50, "bin.3": 30}
    assert bytes_between(sizes, ("bin.3", 10), ("bin.3", 30)) == 20
    assert bytes_between(sizes, ("bin.1", 90), ("bin.3", 30)) == 90
    assert bytes_between(sizes, ("bin.0", 90), ("bin.3", 30)) == 180
