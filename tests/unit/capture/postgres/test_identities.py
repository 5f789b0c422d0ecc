"""Which table the log tells of, when names and numbers go separate ways."""

import struct

import pytest

from runnel.capture.events import Began, Change, Ended, Gone, Passed, Position, Redefined
from runnel.capture.postgres.changes import PostgresChanges
from runnel.capture.postgres.errors import TableReplaced
from runnel.capture.postgres.identities import Identities, table_of
from runnel.capture.tables import Table, TableId

A, B, X = (TableId("public", name) for name in "abx")
CHOSEN = {A, B}


def sent(body):
    return b"w" + struct.pack(">QQq", 7, 7, 0) + body


def relation(number, name):
    return sent(b"R" + struct.pack(">I", number) + b"public\0" + name.encode() + b"\0d" + struct.pack(">H", 0))


def insert(number):
    return sent(b"I" + struct.pack(">I", number) + b"N" + struct.pack(">H", 0))


def truncate(number):
    return sent(b"T" + struct.pack(">IBI", 1, 0, number))


def transaction(lsn, *messages):
    begin = sent(b"B" + struct.pack(">QqI", lsn - 1, 0, lsn))
    return [begin, *messages, sent(b"C" + struct.pack(">BQQq", 0, lsn - 1, lsn, 0))]


class Fake:
    def __init__(self, readings):
        self._readings = list(readings)

    def read(self, seconds):
        return self._readings.pop(0) if self._readings else []

    def close(self): ...


def changes_of(readings, known, catalog, unseen=(), *, index=0):
    """`catalog` is what has the names now, of transactions that are not `unseen`. A table is told as another one when
    its number is.
    """
    defined = {}

    def define(found):
        before = defined.get(table_of(found))
        table = defined[table_of(found)] = Table(table_of(found), (), (), found.oid)
        return table, before is not None and before.number != table.number

    def is_there(found, transaction):
        return None if transaction in unseen else catalog.get(table_of(found)) == found.oid

    identities = Identities(known, CHOSEN.__contains__, is_there, "the shop")
    return PostgresChanges(Fake(readings), define, identities, lambda lsn: {"lsn": lsn}, Position({"lsn": 1}, index))


def shown(events):
    found = []
    for event in events:
        match event:
            case Change() | Redefined():
                found.append((type(event).__name__, event.table.id.name, event.table.number))
            case Gone():
                found.append(("Gone", event.table.name))
            case Ended() | Passed():
                found.append((type(event).__name__, event.at["lsn"]))
            case Began():
                found.append(("Began",))
    return found


def read(changes):
    return shown(changes.read(0))


def test_a_table_that_is_renamed_is_told_to_the_end_of_its_name_and_gone_there():
    messages = transaction(10, relation(1, "a"), insert(1), relation(1, "x"), insert(1))
    changes = changes_of([messages, transaction(20, insert(1))], {A: 1}, {})
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Gone", "a"), ("Ended", 10)]
    assert read(changes) == [("Passed", 20)]


def test_it_is_gone_though_nothing_else_is_told_of_the_transaction():
    changes = changes_of([transaction(10, relation(1, "x"), truncate(1))], {A: 1}, {})
    assert read(changes) == [("Gone", "a"), ("Passed", 10)]


def test_one_that_comes_back_to_its_name_is_read_anew_from_the_end_of_that_transaction():
    away, back = transaction(10, relation(1, "x"), insert(1)), transaction(20, relation(1, "a"), insert(1))
    changes = changes_of([[*away, *back, *transaction(30, insert(1))]], {A: 1}, {A: 1})
    assert read(changes) == [("Gone", "a"), ("Passed", 10), ("Gone", "a"), ("Passed", 20)]
    with pytest.raises(TableReplaced, match=r'table "public\.a" of the shop is another one than before'):
        changes.read(0)


def test_the_end_waits_for_the_end_of_the_transaction():
    began, *rest = transaction(20, relation(1, "a"), insert(1), relation(2, "b"), insert(2))
    changes = changes_of([[began, *rest[:3]], rest[3:]], {A: 9, B: 2}, {A: 1, B: 2})
    assert read(changes) == []
    assert read(changes) == [("Began",), ("Change", "b", 2), ("Gone", "a"), ("Ended", 20)]
    with pytest.raises(TableReplaced):
        changes.read(0)


def test_two_that_swap_their_names_are_both_gone():
    changes = changes_of([transaction(10, relation(2, "a"), insert(2))], {A: 1, B: 2}, {A: 2, B: 1})
    assert read(changes) == [("Gone", "b"), ("Gone", "a"), ("Passed", 10)]


def test_of_another_table_that_had_the_name_before_nothing_is_told():
    messages = transaction(10, relation(1, "a"), insert(1)), transaction(20, relation(2, "a"), insert(2))
    changes = changes_of(messages, {A: 2}, {A: 2})
    assert [read(changes), read(changes)] == [[("Passed", 10)], [("Began",), ("Change", "a", 2), ("Ended", 20)]]


def test_a_name_between_two_others_ends_nothing():
    """A table that had three names while nobody looked is read under the last."""
    changes = changes_of([transaction(10, relation(1, "b"), insert(1))], {A: 1}, {A: 1})
    assert read(changes) == [("Gone", "a"), ("Passed", 10)]
    assert read(changes) == []


def test_a_table_that_is_known_under_the_name_of_then_and_that_of_now_is_told_under_both():
    messages = transaction(10, relation(1, "a"), insert(1)), transaction(20, relation(1, "b"), insert(1))
    changes = changes_of(messages, {A: 1, B: 1}, {B: 1})
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Ended", 10)]
    assert read(changes) == [("Began",), ("Change", "b", 1), ("Ended", 20)]


def test_a_table_of_which_no_more_is_known_than_its_name_is_told():
    changes = changes_of([transaction(10, relation(1, "a"), insert(1))], {A: None}, {})
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Ended", 10)]


def test_one_that_is_not_known_at_all_is_told_when_the_changes_are_opened_again():
    """It is not in the state: if it counted, a life that begins inside of its transaction would count otherwise."""
    messages = transaction(10, relation(1, "a"), insert(1), relation(2, "b"), insert(2))
    changes = changes_of([[*messages, *transaction(20, insert(1))]], {B: 2}, {A: 1, B: 2})
    assert read(changes) == [("Began",), ("Change", "b", 2), ("Ended", 10)]
    with pytest.raises(TableReplaced):
        changes.read(0)


def test_one_that_is_not_known_and_not_there_is_not_taken_for_the_transaction_that_was_begun():
    """It went, came back and went again: who saw it go, told nothing of what it was when it was back."""
    back, ours = transaction(20, relation(1, "a"), insert(1)), transaction(30, relation(2, "b"), insert(2), insert(2))
    told = [("Began",), ("Change", "b", 2), ("Change", "b", 2), ("Ended", 30)]
    away = transaction(10, relation(1, "x"), insert(1))
    assert read(changes_of([[*away, *back, *ours]], {A: 1, B: 2}, {B: 2}))[2:] == told
    assert read(changes_of([[*back, *ours]], {B: 2}, {B: 2}, index=1)) == told


def test_a_name_that_a_known_table_takes_is_not_whatever_has_it():
    """It is not there when that is looked at first."""
    catalog = {}
    messages = transaction(10, relation(1, "b"), insert(1)), transaction(20, relation(1, "b"), insert(1))
    changes = changes_of(messages, {A: 1, B: None}, catalog)
    assert read(changes) == [("Gone", "a"), ("Passed", 10)]
    catalog[B] = 1
    assert read(changes) == [("Gone", "b"), ("Passed", 20)]
    with pytest.raises(TableReplaced):
        changes.read(0)


def test_a_partition_whose_changes_are_its_tables_is_never_told():
    first = transaction(10, relation(1, "a"), relation(2, "b"), insert(1))
    again = transaction(20, relation(1, "a"), relation(3, "b"), insert(1))
    changes = changes_of([first, again], {A: 1}, {A: 1})
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Ended", 10)]
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Ended", 20)]


def test_inside_of_a_transaction_what_is_gone_waits_for_its_end():
    before = transaction(10, relation(1, "x"), insert(1))
    changes = changes_of([[*before, *transaction(20, relation(2, "b"), insert(2))]], {A: 1, B: 2}, {}, index=1)
    assert read(changes) == [("Began",), ("Change", "b", 2), ("Gone", "a"), ("Ended", 20)]


def test_it_is_said_once_that_a_table_has_a_name_that_is_not_chosen(caplog):
    messages = transaction(10, relation(1, "x"), insert(1), relation(1, "x"), insert(1))
    changes_of([messages], {A: 1}, {}).read(0)
    assert caplog.messages == [
        'table "public.a" of the shop was renamed to "public.x", which is not chosen: its changes are not captured'
    ]


def test_one_that_others_do_not_see_yet_is_asked_for_again_until_they_do():
    """Nothing of it is told meanwhile; and nothing waits for it."""
    made = transaction(10, relation(2, "b"), insert(2), relation(1, "a"), insert(1))
    unseen = {10}
    changes = changes_of([made, transaction(20, insert(2)), transaction(30, insert(1))], {A: 1}, {A: 1, B: 2}, unseen)
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Ended", 10)]
    assert read(changes) == [("Passed", 20)]
    unseen.clear()
    assert read(changes) == [("Began",), ("Change", "a", 1), ("Ended", 30)]
    with pytest.raises(TableReplaced, match=r"public\.b"):
        changes.read(0)


def test_one_that_is_gone_when_others_see_it_is_not_asked_for_again():
    unseen, catalog = {10}, {}
    changes = changes_of([transaction(10, relation(2, "b"), insert(2))], {}, catalog, unseen)
    assert read(changes) == [("Passed", 10)]
    unseen.clear()
    assert read(changes) == []
    catalog[B] = 2  # the number comes back to the name, without a change: nothing that the log told
    assert [read(changes), read(changes)] == [[], []]


@pytest.mark.parametrize("given", [{10}, ()])
def test_one_that_comes_before_the_transaction_in_which_reading_goes_on_waits_for_its_end(given):
    """It is read when nothing is begun: the place inside of the transaction is counted without it."""
    before, inside = transaction(10, relation(2, "b"), insert(2)), transaction(20, relation(1, "a"), insert(1))
    unseen = set(given)
    changes = changes_of([before, inside[:-1], inside[-1:]], {A: 1}, {A: 1, B: 2}, unseen, index=1)
    assert [read(changes), read(changes)] == [[], [("Began",), ("Change", "a", 1)]]
    unseen.clear()
    assert read(changes) == [("Ended", 20)]
    with pytest.raises(TableReplaced):
        [changes.read(0) for _ in range(3)]
