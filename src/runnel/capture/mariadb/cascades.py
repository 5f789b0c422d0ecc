"""Foreign keys by which rows of a captured table go or change with those of another: each is said once.

InnoDB does that below the log, so no log has it. The topic keeps such rows as they were.
"""

from __future__ import annotations

import logging
import re
from typing import Final, NamedTuple

import pymysql  # type: ignore[import-untyped]

from runnel.capture.mariadb.connections import AWAY, Connection, ask_one, identifier, number_of
from runnel.capture.tables import TableId

LOGGER: Final = logging.getLogger(__name__)
_NAME: Final = r"`(?:[^`]|``)+`"
_KEY: Final = re.compile(
    rf"^\s*CONSTRAINT (?P<name>{_NAME}) FOREIGN KEY \(.*?\) REFERENCES (?P<parent>{_NAME}(?:\.{_NAME})?) "
    rf"\({_NAME}(?:, {_NAME})*\)(?P<rules>[A-Z ]*),?$",
    re.MULTILINE,
)
_RULE: Final = re.compile(r"ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)")


class Cascade(NamedTuple):
    name: str
    parent: str
    rules: str  # such as ON DELETE CASCADE


class Cascades:
    def __init__(self) -> None:
        self._said: set[tuple[TableId, Cascade]] = set()

    def say(self, connection: Connection, table: TableId) -> None:
        """Those of a table that were not said before."""
        new = [each for each in _found(connection, table) if (table, each) not in self._said]
        if new:
            LOGGER.warning(
                "table %s: what its foreign keys do to its rows is in no log, and not told: %s; delete or update such "
                "rows by statements of their own, before those that they refer to",
                table,
                ", ".join(f"{each.name} ({each.rules}, with {each.parent})" for each in new),
            )
        self._said.update((table, each) for each in new)


def _found(connection: Connection, table: TableId) -> list[Cascade]:
    """The catalog shows foreign keys to those who may write; a table's own SQL to all who may read."""
    try:
        _, sql, *_ = ask_one(connection, f"SHOW CREATE TABLE {identifier(*table)}")
    except pymysql.MySQLError as error:
        if number_of(error) in AWAY or isinstance(error, pymysql.err.InterfaceError):
            raise
        return []  # gone since, or not for us to see
    return cascades_of(sql)


def cascades_of(sql: str) -> list[Cascade]:
    """By the SQL that makes a table, as the server writes it."""
    return [
        Cascade(key["name"].strip("`"), key["parent"].replace("`", ""), rules)
        for key in _KEY.finditer(sql)
        if (rules := " ".join(_RULE.findall(key["rules"])))
    ]
