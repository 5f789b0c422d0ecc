"""Names of tables are those that the server knows them by."""

import pytest

from runnel.capture.mariadb.spelling import Letters, Spelling
from runnel.capture.tables import TableId

ORDERS = TableId("Shop", "Orders")


@pytest.mark.parametrize(
    ("letters", "spelled"),
    [
        (Letters.AS_WRITTEN, TableId("SHOP", "ORDERS")),
        (Letters.LOWERED, TableId("shop", "orders")),
        (Letters.KEPT, ORDERS),
    ],
)
def test_a_name_is_spelled_as_the_server_keeps_it(letters, spelled):
    assert Spelling(letters, [ORDERS]).of(TableId("SHOP", "ORDERS")) == spelled


def test_a_table_that_is_made_is_called_as_it_was_written_then():
    spelling = Spelling(Letters.KEPT, [ORDERS])
    assert spelling.of(TableId("shop", "Items")) == TableId("Shop", "Items")
    assert spelling.of(TableId("shop", "items")) == TableId("Shop", "Items")
    spelling.forget(TableId("Shop", "Items"))
    assert spelling.of(TableId("shop", "ITEMS")) == TableId("Shop", "ITEMS")


def test_a_whole_database_has_no_table():
    assert Spelling(Letters.KEPT, [ORDERS]).of(TableId("SHOP", "")) == TableId("Shop", "")
    assert Spelling(Letters.LOWERED, []).of(TableId("SHOP", "")) == TableId("shop", "")
