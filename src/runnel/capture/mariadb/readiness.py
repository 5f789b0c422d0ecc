"""What a MariaDB needs before it can be captured: what is missing is told with the SQL or the setting that mends it.

Nothing is made in it. The rights that are needed are REPLICATION SLAVE and BINLOG MONITOR, and SELECT on the tables.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import pymysql  # type: ignore[import-untyped]

from runnel.capture.errors import CannotCapture
from runnel.capture.mariadb import catalog
from runnel.capture.mariadb.catalog import ListedTable
from runnel.capture.mariadb.connections import LOCKED, Address, Connection, ask, ask_one, identifier, number_of
from runnel.capture.mariadb.errors import DatabaseRefused, NotReady
from runnel.capture.mariadb.spelling import Letters

LOGGER: Final = logging.getLogger(__name__)
OLDEST: Final = (10, 5)  # the first whose log can tell the names of columns
WANTED: Final = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
DENIED: Final = frozenset({1142, 1143, 1227})


class Readiness:
    def __init__(self, address: Address, connection: Connection) -> None:
        self._address = address
        self._connection = connection

    def check_server(self) -> None:
        (version,) = ask_one(self._connection, "SELECT VERSION()")
        if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < OLDEST:
            raise DatabaseRefused(
                self._address.shown, f"it is MariaDB {version}", hint="10.5 or newer tells the names of columns"
            )
        self._check_settings()
        self._check_replica()
        self._check_rights()
        self._check_databases()

    def check_tables(self, tables: Sequence[ListedTable]) -> None:
        for table in tables:
            if table.is_versioned:
                raise CannotCapture(
                    str(table.id), "it keeps its own history", hint="leave it out, or drop its system versioning"
                )
            if columns := catalog.old_times(self._connection, table.id):
                reason = f"{', '.join(columns)}: parts of a second are kept as before MariaDB 10.1, which no log tells"
                hint = f"run ALTER TABLE {identifier(*table.id)} FORCE; with mysql56_temporal_format = ON"
                raise CannotCapture(str(table.id), reason, hint=hint)
        hidden = [table for table in tables if not self._is_readable(table)]
        if hidden:
            raise self._missing(
                f"user {self._account()} may not read {_listed(hidden)}",
                [f"GRANT SELECT ON {identifier(*table.id)} TO {self._account()};" for table in hidden],
            )
        strange = [table for table in tables if table.engine != "InnoDB"]
        if strange:
            LOGGER.warning(
                "%s: of another engine than InnoDB; what changes while they are first read may be told twice",
                _listed(strange),
            )

    def _check_settings(self) -> None:
        (has_log,) = ask_one(self._connection, "SELECT @@GLOBAL.log_bin")
        if has_log != "1":
            raise self._missing(
                "it keeps no binary log",
                ["log_bin = mariadb-bin", "server_id = 1"],
                verb="write",
                then="under [mariadbd] in my.cnf, and restart the server",
            )
        settings = ", ".join(f"@@GLOBAL.{name}" for name in WANTED)
        found = zip(WANTED.items(), ask_one(self._connection, f"SELECT {settings}"), strict=True)
        wrong = [(name, wanted, value) for (name, wanted), value in found if value != wanted]
        if wrong:
            raise self._missing(
                ", ".join(f"{name} is {value}" for name, _, value in wrong),
                [f"SET GLOBAL {name} = '{wanted}';" for name, wanted, _ in wrong],
                then="and let the writers connect again; the same belongs into my.cnf",
            )

    def _check_replica(self) -> None:
        """One that was promoted has no replication that runs. One that is written to as well has its own changes."""
        (_, running) = ask_one(self._connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        is_logged, is_read_only = ask_one(self._connection, "SELECT @@GLOBAL.log_slave_updates, @@GLOBAL.read_only")
        if not int(running) or is_logged == "1":
            return
        missing = self._missing(
            "it is a replica, and its log does not have what it replicates",
            ["log_slave_updates = ON"],
            verb="write",
            then="under [mariadbd] in my.cnf, and restart the server",
        )
        if is_read_only == "1":
            raise missing
        LOGGER.warning("%s", missing)

    def _check_databases(self) -> None:
        """Those that the log has, or has not; it is the server's own word, which takes a right of its own."""
        _, _, only, without, *_ = ask_one(self._connection, "SHOW MASTER STATUS")
        letters = catalog.letters(self._connection)
        found = left_out(self._address.database, only, without, letters)
        if found is not None:
            setting, verb, then = found
            raise self._missing(
                f"its log leaves out database {self._address.database}",
                [f"{setting} = {self._address.database}"],
                verb=verb,
                then=f"{then} my.cnf, and restart the server",
            )

    def _check_rights(self) -> None:
        granted = " ".join(str(grant) for (grant,) in ask(self._connection, "SHOW GRANTS"))
        rights = [
            right
            for right, other in (("REPLICATION SLAVE", "REPLICATION REPLICA"), ("BINLOG MONITOR", "REPLICATION CLIENT"))
            if right not in granted and other not in granted and "ALL PRIVILEGES ON *.*" not in granted
        ]
        if rights:
            raise self._missing(
                f"user {self._account()} may not read the log",
                [f"GRANT {', '.join(rights)} ON *.* TO {self._account()};"],
            )

    def _is_readable(self, table: ListedTable) -> bool:
        """The server looks at rights first. A table that is locked is not waited for, with all others behind it."""
        query = f"SET STATEMENT lock_wait_timeout = 0 FOR SELECT * FROM {identifier(*table.id)} LIMIT 0"
        try:
            ask(self._connection, query)
        except pymysql.MySQLError as error:
            if number_of(error) in DENIED:
                return False
            if number_of(error) != LOCKED:
                raise
        return True

    def _account(self) -> str:
        (found,) = ask_one(self._connection, "SELECT CURRENT_USER()")
        user, _, host = found.rpartition("@")
        return f"'{user}'@'{host}'"

    def _missing(self, what: str, statements: Sequence[str], *, verb: str = "run", then: str = "") -> NotReady:
        return NotReady(self._address.shown, what, statements, verb=verb, then=then)


def left_out(database: str, only: str, without: str, letters: Letters) -> tuple[str, str, str] | None:
    """The setting by which the log leaves out a database, and what is to be done with it. `only` are the databases that
    it has, if there are any, or else `without` those that it has not; each with commas between them.
    """

    name = database.lower() if letters is Letters.LOWERED else database  # the settings' own letters count

    def has(names: str) -> bool:
        return name in {each.strip() for each in names.split(",")}

    if only:
        return None if has(only) else ("binlog_do_db", "write", "as well under [mariadbd] in")
    return ("binlog_ignore_db", "take", "out of") if has(without) else None


def _listed(tables: Sequence[ListedTable]) -> str:
    shown = ", ".join(str(table.id) for table in tables[:10])
    return shown + (f" and {len(tables) - 10} more" if len(tables) > 10 else "")
