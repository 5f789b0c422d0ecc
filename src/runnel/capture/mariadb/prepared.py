"""XA transactions that were prepared before the place where reading began, found again in the log.

Whoever looks at the tables does not see them: they are not committed. When one is, its rows are told, and those are
where it was prepared. So the log is read backwards for it, twice as far each time, for as long as the server has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from runnel.capture.errors import PositionLost
from runnel.capture.events import Position
from runnel.capture.mariadb.changes import Catalog, MariadbChanges
from runnel.capture.mariadb.connections import Address, ask, ask_one, literal
from runnel.capture.mariadb.definitions import Shown
from runnel.capture.mariadb.dump import FIRST, Dump
from runnel.capture.mariadb.groups import Item
from runnel.capture.mariadb.gtids import Place, text_of
from runnel.capture.mariadb.table_maps import TableMap

WAIT_SECONDS: Final = 1.0


class Looking:
    """`server_id` is a number among replicas, and not that of the one who reads."""

    def __init__(self, address: Address, server_id: int) -> None:
        self._address = address
        self._server_id = server_id

    def find(self, name: bytes, file: str, before: Place) -> Sequence[Item] | None:
        """What the last one of this name did that was prepared before a place, which is in a file of the log."""
        files = [each for each in self._files() if each <= file]
        back = 1
        while files:
            found = self._from(files[-back:][0], name, before)
            if found is not None or back >= len(files):
                return found
            back *= 2
        return None

    def _files(self) -> list[str]:
        with self._address.telling(), closing(self._address.connect(anywhere=True)) as connection:
            return sorted(str(name) for name, *_ in ask(connection, "SHOW BINARY LOGS"))

    def _from(self, file: str, name: bytes, before: Place) -> Sequence[Item] | None:
        start = Position({"gtid": self._start_of(file), "file": file, "pos": FIRST, "server": 0})
        dump = Dump(self._address, self._server_id, file=file)
        known = Catalog(self._address.shown, _is_none_chosen, _undefined, _is_unknown, ())
        until: dict[str, Any] = {"gtid": text_of(before)}
        with closing(MariadbChanges(dump, known, 0, start, until, find=_nothing)) as changes:
            while not changes.is_done and not changes.is_at_end:
                changes.read(WAIT_SECONDS)
            return changes.prepared(name) if changes.is_done else None

    def _start_of(self, file: str) -> str:
        with self._address.telling(), closing(self._address.connect(anywhere=True)) as connection:
            (found,) = ask_one(connection, f"SELECT BINLOG_GTID_POS({literal(file)}, {FIRST})")
        if found is None:
            raise PositionLost(self._address.shown, f"its log does not have the file {file} any more")
        return str(found)


def _is_none_chosen(_: object) -> bool:
    return False


def _undefined(told: TableMap) -> Shown:
    raise AssertionError(f"nothing is chosen, and {told.schema}.{told.name} is asked for")


def _is_unknown(_: object) -> None:
    return None


def _nothing(name: bytes, file: str, before: Place) -> Sequence[Item]:  # noqa: ARG001
    """One that was prepared before what is looked through, and committed in it, is not the one that is looked for."""
    return ()
