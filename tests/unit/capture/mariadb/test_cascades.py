"""Foreign keys that do something to rows, by the SQL of a table."""

from runnel.capture.mariadb.cascades import cascades_of

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
