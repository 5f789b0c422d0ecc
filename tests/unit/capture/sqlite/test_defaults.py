"""A new column's default, however it is written: the rows that have it are not told once more."""

import pytest

DEFAULTS = [
    "active",
    "name",  # which is a column's, too
    "Straße",
    "[x y]",
    '"say ""x"""',
    "`b``c`",
    "abort",  # a word of SQLite's own that may be a name
    '"true"',
    "NULL",
    "True",
    "FALSE",
    "-5",
    "+1.5e3",
    "'it''s'",
    "x'00ff'",
    "('a')",
    "(1)",
]


@pytest.fixture
def orders(captured):
    captured.write("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO orders VALUES (1, 'a')")
    captured.prepare()
    return captured


def add_column(orders, default):
    """Row 4 has a value that is true, and not the default."""
    orders.write(
        f"ALTER TABLE orders ADD COLUMN city DEFAULT {default}",
        "INSERT INTO orders (id, name) VALUES (2, 'b')",
        "INSERT INTO orders VALUES (3, 'c', 'Graz')",
        "INSERT INTO orders VALUES (4, 'd', 7)",
    )


def rows_once_more(orders):
    return [after for _, _, after in orders.told() if after is not None and len(after) == 3]


@pytest.mark.parametrize("default", DEFAULTS)
def test_a_column_with_a_default_is_followed_and_only_other_values_are_told(orders, default):
    add_column(orders, default)
    assert rows_once_more(orders) == [(3, "c", "Graz"), (4, "d", 7)]


@pytest.mark.parametrize("default", DEFAULTS)
def test_a_start_takes_up_a_column_that_came_while_nothing_ran(orders, default):
    add_column(orders, default)
    orders.source().prepare()
    assert rows_once_more(orders) == [(3, "c", "Graz"), (4, "d", 7)]


def test_a_default_that_is_a_time_is_none_that_a_row_has(orders):
    """It can be added to a table without rows only."""
    orders.write("DELETE FROM orders", "ALTER TABLE orders ADD COLUMN at DEFAULT current_timestamp")
    orders.write("INSERT INTO orders (id, at) VALUES (2, '2001-01-01 00:00:00')")
    assert rows_once_more(orders) == [(2, None, "2001-01-01 00:00:00")]
