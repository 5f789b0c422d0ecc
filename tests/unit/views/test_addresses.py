import pytest

from runnel.views.addresses import shown
from runnel.views.errors import InvalidStore
from runnel.views.opening import open_store


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (".runnel", ".runnel"),
        ("sqlite:/data/views.sqlite", "sqlite:/data/views.sqlite"),
        ("postgresql://shop@db/shop", "postgresql://shop@db/shop"),
        ("postgresql://shop:secret@db/shop", "postgresql://shop@db/shop"),
        ("postgresql://shop:se@cr:et@db/shop", "postgresql://shop@db/shop"),
        ("postgresql://db/shop?user=me&password=secret&x=1", "postgresql://db/shop?user=me&password=***&x=1"),
        ("postgresql://me@db/shop?password=se@cret", "postgresql://me@db/shop?password=***"),
        ("postgresql://me:se?cr@et@db/shop", "postgresql://me@db/shop"),
        ("me:secret@db/shop", "me:***@db/shop"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, expected: str) -> None:
    assert shown(address) == expected


@pytest.mark.parametrize(
    "address", ["postgresql+psycopg://me:secret@h/db", "postgresql://h/db?password=secret&nonsense=1"]
)
def test_an_address_that_is_none_is_told_without_its_password(address: str) -> None:
    with pytest.raises(InvalidStore) as told:
        open_store(address).names()
    assert "secret" not in f"{told.value} {told.value.url}"
