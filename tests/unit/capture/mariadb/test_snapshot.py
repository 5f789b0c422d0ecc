"""Where in the log a transaction looks at the tables."""

from contextlib import nullcontext

from runnel.capture.mariadb.snapshot import taken_at


class Answering:
    """A connection, and its cursor, that has one answer to all."""

    def __init__(self, *answer):
        self._answer = answer

    def cursor(self):
        return nullcontext(self)

    def execute(self, query): ...

    def fetchall(self):
        return [self._answer]


def test_a_place_is_written_in_one_way_in_whatever_order_the_server_has_its_domains():
    assert taken_at(Answering("7-1-3,0-2-12,3-1-1", "1"), "bin.000001", 4, "here").gtid == "0-2-12,3-1-1,7-1-3"
