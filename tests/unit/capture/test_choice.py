"""Which tables a capture has: as it was started, and as was asked for since."""

from runnel.capture.choice import Asked, Choice, as_data, asked_since, shown
from runnel.capture.selection import Selection
from runnel.capture.tables import TableId

ORDERS, ITEMS = TableId("main", "orders"), TableId("main", "items")


def test_the_last_word_that_fits_a_table_counts_and_without_one_the_selection():
    choice = Choice(Selection(tables=[r"main\.orders"]))
    assert (choice.has(ORDERS), choice.has(ITEMS)) == (True, False)
    choice.ask([Asked(r"main\..*", False), Asked(r"MAIN\.items", True)])
    assert (choice.has(ORDERS), choice.has(ITEMS)) == (False, True)
    choice.ask([Asked(r"main\.items", True), Asked(r"main\..*", False)])
    assert (choice.has(ORDERS), choice.has(ITEMS)) == (False, False)
    choice.ask([])
    assert (choice.has(ORDERS), choice.has(ITEMS)) == (True, False)


def test_what_is_asked_for_again_takes_the_place_of_what_was_asked_for_before():
    asked = asked_since((), [Asked("a", True), Asked("b", True)])
    asked = asked_since(asked, [Asked("a", False)])
    assert asked == (Asked("b", True), Asked("a", False))
    assert shown(asked) == "added b; removed a"
    assert shown(asked[1:]) == "removed a"


def test_words_are_shown_in_their_order_which_decides():
    removed, added, last = Asked("orders", False), Asked(".*", True), Asked("items", True)
    assert shown((removed, added, last)) == "removed orders; added .*, items"
    assert shown((added, removed, last)) == "added .*; removed orders; added items"
    assert as_data((removed, added)) == [{"tables": "orders", "added": False}, {"tables": ".*", "added": True}]
