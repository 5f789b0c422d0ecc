"""Several captures of one database: none of them undoes what another one does, and none removes what is another's."""

import pytest

from runnel.capture.errors import DatabaseUnusable
from runnel.capture.events import Change, Position
from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource

ROUNDS = 5


class Reader:
    """A capture that is running: its changes stay open."""

    def __init__(self, path, name):
        self.name = name
        self.source = SqliteSource(path, name, Selection().has)
        self.changes = self.source.changes(self.source.prepare())
        self.rows = []

    def read(self):
        while events := self.changes.read(0):
            self.rows += [each.after for each in events if isinstance(each, Change)]
            self.source.confirm(Position(events[-1].at))


@pytest.fixture
def orders(captured):
    captured.write("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
    return captured


@pytest.fixture
def reader(orders):
    """Makes one of a name."""
    made = []

    def make(name):
        made.append(Reader(orders.path, name))
        return made[-1]

    yield make
    for each in made:
        each.source.close()


def shapes(orders, name):
    """How often the tables were captured anew."""
    return orders.writer.execute(f"SELECT count(*) FROM _runnel_{name}_shapes WHERE id > 0").fetchone()[0]


def test_two_captures_that_run_at_the_same_time_settle_and_get_all_changes(orders, reader):
    both = [reader("shop"), reader("other")]
    made = orders.trace()
    for number in range(ROUNDS):
        orders.write(f"INSERT INTO orders VALUES ({number}, 'a')")
        for each in both:
            each.read()
    assert orders.trace() == made
    assert [shapes(orders, each.name) for each in both] == [1, 1]
    assert [each.rows for each in both] == [[(number, "a") for number in range(ROUNDS)]] * 2


def test_two_captures_have_the_first_word_before_a_trigger_that_comes_later(orders, reader):
    both = [reader("shop"), reader("other")]
    orders.write(
        "CREATE TRIGGER shout AFTER INSERT ON orders BEGIN UPDATE orders SET name = 'A' WHERE id = NEW.id; END"
    )
    for number in range(ROUNDS):
        for each in both:
            each.read()
        orders.write(f"INSERT INTO orders VALUES ({number}, 'a')")
    for each in both:
        each.read()
    assert [shapes(orders, each.name) for each in both] == [2, 2]
    assert [each.rows for each in both] == [[(number, name) for number in range(ROUNDS) for name in "aA"]] * 2


@pytest.mark.parametrize(
    "other", ["shop_app", "shop_2", "shop_log", "shop_noted", "shop_noted_1", "shop_1_insert", "shop_"]
)
def test_to_remove_a_capture_leaves_one_whose_name_begins_with_its_own(orders, reader, other):
    before = orders.trace()
    beside = reader(other)
    with_other = orders.trace()
    shop = reader("shop")
    orders.write("INSERT INTO orders VALUES (1, 'a')")
    shop.source.remove()
    assert orders.trace() == with_other
    orders.write("INSERT INTO orders VALUES (2, 'b')")
    beside.read()
    assert beside.rows == [(1, "a"), (2, "b")]
    shop.source.prepare()
    beside.source.remove()
    orders.write("INSERT INTO orders VALUES (3, 'c')")
    shop.source.remove()
    assert orders.trace() == before


def test_a_table_of_peoples_is_not_removed_whatever_its_name_begins_with(orders, reader):
    orders.write("CREATE TABLE _runnel_shop_notes (id)")
    before = orders.trace()
    reader("shop").source.remove()
    assert orders.trace() == before


def test_a_name_that_differs_from_another_captures_by_its_capital_letters_alone_is_refused(orders, reader):
    reader("shop")
    before = orders.trace()
    with pytest.raises(
        DatabaseUnusable, match=r'is captured as "shop", and the tables of a capture "Shop" would have'
    ) as told:
        reader("Shop")
    assert "runnel capture remove shop " in str(told.value)
    assert orders.trace() == before
