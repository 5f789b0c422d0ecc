"""Foreign keys that do something to rows, by the SQL of a table."""

from contextlib import contextmanager

import pymysql
import pytest

from runnel.capture.mariadb.cascades import Cascades, cascades_of
from runnel.capture.tables import TableId

SQL = """CREATE TABLE `items` (
  `id` int(11) NOT NULL COMMENT 'CONSTRAINT `no` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE',
  PRIMARY KEY (`id`),
  CONSTRAINT `checked` CHECK (`id` > 0),
  CONSTRAINT `kept` FOREIGN KEY (`a`) REFERENCES `orders` (`id`),
  CONSTRAINT `both` FOREIGN KEY (`a`, `b`) REFERENCES `other`.`orders` (`x`, `y`) ON DELETE CASCADE ON UPDATE SET NULL,
  CONSTRAINT `half` FOREIGN KEY (`a (b)`) REFERENCES `orders` (`id`) ON DELETE NO ACTION ON UPDATE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""


def test_foreign_keys_that_do_something_to_rows_are_found():
    assert cascades_of(SQL) == [
        ("both", "other.orders", "ON DELETE CASCADE ON UPDATE SET NULL"),
        ("half", "orders", "ON UPDATE CASCADE"),
    ]


class Refusing:
    """A connection on which every statement ends with an error."""

    def __init__(self, number: int) -> None:
        self._number = number

    @contextmanager
    def cursor(self):
        yield self

    def execute(self, query):
        raise pymysql.OperationalError(self._number, "no")


@pytest.mark.parametrize("number", [1142, 1146, 1932])
def test_a_table_that_is_not_shown_has_none_that_are_said(caplog, number):
    Cascades().say(Refusing(number), TableId("s", "t"))
    assert not caplog.messages


def test_a_server_that_is_away_is_told():
    with pytest.raises(pymysql.OperationalError):
        Cascades().say(Refusing(2013), TableId("s", "t"))
