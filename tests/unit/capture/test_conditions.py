"""Conditions on rows, as people type them."""

from decimal import Decimal

import pytest

from runnel.capture.conditions import DEEPEST, parse
from runnel.capture.errors import InvalidChoice, InvalidCondition
from runnel.capture.selection import Selection
from runnel.capture.tables import UNCHANGED
from tests.unit.capture.customers import CUSTOMERS

ROW = {"city": "Graz", "total": 120, "note": None, "paid": 0, "kind": "it's", "Big Name": "x", "rate": 1.5}
ROW |= {"data": b"ab"}


@pytest.mark.parametrize(
    "text",
    [
        "city = Graz",
        "city = 'Graz'",
        "total >= 100",
        "total = 120.0",
        "rate < 2",
        "rate > -1e3",
        "total <> 7 and city != 'Wien'",
        "city = Wien or total = 120",
        "not city = Wien",
        "not (city = Graz and total = 1)",
        "note is null",
        "city IS NOT NULL",
        "kind = 'it''s'",
        '"Big Name" = x',
        "city in (Wien, 'Graz')",
        "total not in (1, 2)",
        "not paid",
        "paid = false",
        "data = ab",
        "city > 'Gr'",
        "city = Wien and city = Linz or total = 120",  # and binds more than or
    ],
)
def test_a_row_that_fits_passes(text):
    assert parse(text)(ROW) is True


@pytest.mark.parametrize(
    "text",
    [
        "city = Wien",
        "total < 120",
        "note = x",
        "not note = x",  # null is neither
        "note != x",
        "note in (x)",
        "note not in (x)",
        "paid",
        "city = 7",
        "city < 7",
        "(city = Graz or total = 1) and total = 1",
    ],
)
def test_a_row_that_does_not_fit_stays(text):
    assert parse(text)(ROW) is False


@pytest.mark.parametrize("value", [12, "12", "12.0", Decimal(12), 12.0])
def test_a_number_is_one_however_the_database_tells_it(value):
    row = {"n": value}
    assert parse("n = 12")(row)
    assert parse("n > 9")(row)
    assert not parse("n < 9")(row)


@pytest.mark.parametrize(("value", "is_true"), [("t", True), ("f", False), (1, True), (0, False), (True, True)])
def test_yes_and_no_are_told_in_the_databases_own_way(value, is_true):
    assert parse("b")({"b": value}) is is_true
    assert parse("b = false")({"b": value}) is not is_true


def test_what_is_no_number_is_neither_more_nor_less():
    for text in ("n < 1", "n > 1", "n = 1"):
        assert not parse(text)({"n": "NaN"})
    assert parse("n != 1")({"n": "abc"})


def test_a_row_of_which_the_value_is_not_told_leaves():
    assert parse("note = x")({"note": UNCHANGED})
    assert parse("not note = x")({"note": UNCHANGED})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a column before its end"),
        ("city =", "expected a number, 'text', true or false before its end"),
        ("= 3", 'expected a column before "="'),
        ("city = Graz total", 'expected and, or, or the end before "total"'),
        ("city = 2024-01-01", 'expected and, or, or the end before "-01"'),
        ("(city = Graz", "expected ) before its end"),
        ("city in Graz", 'expected ( before "Graz"'),
        ("city in (Graz", "expected ) before its end"),
        ("city is 3", 'expected null before "3"'),
        ("city not 3", 'expected in before "3"'),
        ("city = 'Graz", '"\'Graz" is nothing that can stand there'),
        ("a; DROP TABLE b", '"; DROP TABLE b" is nothing that can stand there'),
        ("not " * DEEPEST + "x", f"more than {DEEPEST} things stand inside of each other"),
    ],
)
def test_what_is_no_condition_is_told(text, reason):
    with pytest.raises(InvalidCondition) as raised:
        parse(text)
    assert raised.value.what == f'condition "{text}" cannot be used: {reason}'


def test_a_column_that_is_not_there_is_told_with_those_that_are():
    selection = Selection(rows={r"public\.customers": parse("town = Graz")})
    with pytest.raises(InvalidChoice, match=r'"town" cannot be used: table public.customers has id, first_name, email'):
        selection.of(CUSTOMERS)
