"""Which captured table the log tells of: by its number, and not by its name alone.

The log has a table's number and its name before the first change that follows an alteration of it. A number that had
another name is a table that was renamed; a name that had another number is another table. Of such a one nothing is told
to the end of its transaction, so that a transaction is the same events whenever it is read again. There, names that
have lost their table are told as gone. Where the table is the one that has a chosen name now, the changes end: when
they are opened again it is published and read from its beginning. So it is with a table that comes back to its name,
whose rows may have changed under the other one, and with one whose name was not known before.

The server tells of a transaction before it shows it to others. Whether a table is there is asked again until it does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from runnel.capture.postgres.errors import TableReplaced
from runnel.capture.postgres.pgoutput import Relation
from runnel.capture.tables import NOT_THERE, TableId

logger = logging.getLogger(__name__)


class Identities:
    """`known` are the tables that were told of, by their numbers; None: whatever has the name. What is told of a
    transaction depends on them alone. `is_there` asks the catalog whether a table is the one that is captured under its
    name now; None: it does not show yet what a transaction did. `database` is for people.
    """

    def __init__(
        self,
        known: Mapping[TableId, int | None],
        chosen: Callable[[TableId], bool],
        is_there: Callable[[Relation, int], bool | None],
        database: str,
    ) -> None:
        self._numbers = dict(known)
        self._chosen = chosen
        self._is_there = is_there
        self._database = database
        self._gone: dict[TableId, None] = {}  # in this order
        self._came: TableId | None = None
        self._unseen: dict[TableId, tuple[Relation, int]] = {}  # to be asked for again

    def has(self, relation: Relation, transaction: int) -> bool:
        """Whether its changes are told."""
        table, number = table_of(relation), self._numbers.get(table_of(relation), NOT_THERE)
        former = [name for name, known in self._numbers.items() if known == relation.oid and name != table]
        if number == relation.oid or (number is None and not former):
            return self._take(table, relation.oid)
        for name in former:
            self._lose(name, table)
        if number is None:
            self._numbers[table] = NOT_THERE  # what comes to its name from another one is never whatever has it
        if self._chosen(table) and self._comes(table, relation, transaction) and table in self._numbers:
            self._gone[table] = None
        return False

    def look_again(self) -> None:
        """For what was not seen. To be called between transactions: it may be over then. The name that it has taken, if
        any, is found to be another table's when the changes are opened again.
        """
        for table, (relation, transaction) in list(self._unseen.items()):
            self._comes(table, relation, transaction)

    def gone(self) -> list[TableId]:
        """The names that have lost their table; each is said once, at the end of a transaction."""
        gone, self._gone = self._gone, {}
        return list(gone)

    @property
    def is_over(self) -> bool:
        """Whether the changes end, at the end of this transaction."""
        return self._came is not None

    def check(self) -> None:
        """Say why, when they have."""
        if self._came is not None:
            raise TableReplaced(self._database, str(self._came))

    # --- inside

    def _comes(self, table: TableId, relation: Relation, transaction: int) -> bool:
        is_there = self._is_there(relation, transaction)
        if is_there is None:
            self._unseen[table] = relation, transaction
        else:
            self._unseen.pop(table, None)
        if is_there:
            self._came = table
        return bool(is_there)

    def _take(self, table: TableId, number: int) -> bool:
        if not self._chosen(table):
            return False
        self._numbers[table] = number
        return True

    def _lose(self, name: TableId, table: TableId) -> None:
        self._numbers[name] = NOT_THERE
        self._gone[name] = None
        what = "" if self._chosen(table) else ", which is not chosen: its changes are not captured"
        logger.warning('table "%s" of %s was renamed to "%s"%s', name, self._database, table, what)


def table_of(relation: Relation) -> TableId:
    return TableId(relation.schema, relation.name)
