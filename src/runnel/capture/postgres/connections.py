"""Connections to a captured PostgreSQL: what they are set to, and what goes wrong with them in our words.

The server writes values as text by its settings. They are the same for every connection of ours, so that the snapshot
and the log write a value alike, and one form reads both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import TextLoader

from runnel.capture.postgres.errors import DatabaseRefused, DatabaseUnreachable
from runnel.errors import RunnelError
from runnel.libpq import FATAL, LIVENESS, PASSWORD, lets_nobody_in, may_pass, what_mends

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

CONNECT_SECONDS: Final = 10
SETTINGS: Final = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",  # the shortest text that reads as the same number
    "lc_monetary": "C",
    "row_security": "off",  # rather an error than rows that a policy hides
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    # Who is busy elsewhere, or waits for a lock, is not to be cut off, whatever a role or a database is set to.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
TRANSACTION_TIMEOUT: Final = 17_00_00  # the version from which on there is one for whole transactions, too
OLDEST: Final = 15_00_00  # the first version whose publications say which columns and rows they have
# Classes of errors: connections, resources, somebody in between; and what is to be tried again, as after a deadlock.
PASSING: Final = ("08", "53", "57", "40")
UNDEFINED: Final = "42704"
PLUGIN: Final = "pgoutput"
# Until 17. A newer server goes on, and sends nothing.
UNPUBLISHED: Final = (
    "the publication was dropped, and the server cannot send what changed until there was one again: "
    "`runnel capture remove`, and begin anew"
)
HINTS: Final = {
    "42501": "give this user the right: it needs REPLICATION, and SELECT on the tables",
    "55006": "another capture or subscription reads from the slot: stop it, or give this one a slot of its own",
    "22021": "a value is no UTF-8, which a database of the encoding SQL_ASCII allows: mend it, if it is LATIN1 by "
    "UPDATE t SET c = convert_from(convert(convert_to(c, 'SQL_ASCII'), 'LATIN1', 'UTF8'), 'SQL_ASCII');",
    "25006": "the server only reads, as a standby does: name the one that writes",
}


class Address:
    """Where a database is. It is shown without its password."""

    def __init__(self, url: str, name: str) -> None:
        try:
            self._parts = conninfo_to_dict(url)
        except (psycopg.Error, UnicodeError):  # it tells of parts of the address, which may be the password
            raise _unreadable() from None
        if _is_misread(url):
            raise _unreadable()
        self.application = f"runnel capture {name}"  # as the server knows our connections
        user, host, port = (self._parts.get(part) for part in ("user", "host", "port"))
        place = f"{f'{user}@' if user else ''}{host or 'localhost'}{f':{port}' if port else ''}"
        self.database = str(self._parts.get("dbname") or user or "")
        self.shown = f"postgresql://{place}/{self.database}"

    def connect(self, *, replication: bool = False, adapters: AdaptersMap | None = None) -> Connection:
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        given: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            **LIVENESS,
            **self._parts,
            "options": f"{self._parts.get('options') or ''} {options}".strip(),
            "client_encoding": "utf8",
            "application_name": self.application,
        }
        if replication:
            given["replication"] = "database"
        try:
            connection = psycopg.connect("", autocommit=True, prepare_threshold=None, context=adapters, **given)
        except (psycopg.Error, UnicodeError) as error:  # the latter for a host's name that can be none
            raise self._told_of_connecting(error, given) from error
        self._check_version(connection)
        if connection.info.server_version >= TRANSACTION_TIMEOUT:
            with self.telling():
                connection.execute("SET transaction_timeout = 0")
        return connection

    @contextmanager
    def telling(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self.told(error) from error

    def told(self, error: psycopg.Error) -> RunnelError:
        state = error.sqlstate or ""
        reason = " ".join(str(error).split())
        if state[:2] in PASSING or (not state and isinstance(error, psycopg.OperationalError)):
            return DatabaseUnreachable(self.shown, reason)
        # A fault of servers up to now, which comes with `streaming` only; from 16 on they call it filenumber.
        if "could not map file" in reason:
            hint = "the server cannot send this transaction before its commit: go on without --in-progress"
            return DatabaseRefused(self.shown, reason, hint=hint)
        if state == UNDEFINED and PLUGIN in reason:
            return DatabaseRefused(self.shown, reason, hint=UNPUBLISHED)
        return DatabaseRefused(self.shown, reason, hint=HINTS.get(state, "this is unexpected: please report it"))

    def _check_version(self, connection: Connection) -> None:
        found = connection.info.server_version
        if found < OLDEST:
            connection.close()
            reason = f"it is PostgreSQL {found // 10_000}; {OLDEST // 10_000} or newer is needed"
            raise DatabaseRefused(self.shown, reason, hint="upgrade the server, or capture another one")

    def _told_of_connecting(self, error: psycopg.Error | UnicodeError, given: Mapping[str, Any]) -> RunnelError:
        reason = " ".join(str(error).split())
        if may_pass(reason) or (FATAL in reason and lets_nobody_in(make_conninfo(**given), CONNECT_SECONDS)):
            return DatabaseUnreachable(self.shown, reason)
        if hint := what_mends(reason):
            return DatabaseRefused(self.shown, reason, hint=hint)
        if "permission denied to start WAL sender" in reason or "must be superuser or replication role" in reason:
            user = self._parts.get("user")
            return DatabaseRefused(self.shown, reason, hint=f'run ALTER ROLE "{user}" REPLICATION;')
        if "password" in reason or "authentication" in reason:
            hint = PASSWORD
        elif "pg_hba.conf" in reason:
            hint = "let this user in: a line for the database in pg_hba.conf, then SELECT pg_reload_conf();"
        else:
            hint = "see to the user and the database's name, or ask whoever runs the server"
        return DatabaseRefused(self.shown, reason, hint=hint)


def _is_misread(url: str) -> bool:
    """A password with a slash in it would be taken for a port and the database's name, which are shown."""
    return "@" in url.partition("://")[2].partition("/")[2].partition("?")[0]


def _unreadable() -> DatabaseRefused:
    hint = "expected postgresql://USER@HOST:PORT/DATABASE; in a password, write %40 for @ and %2F for /"
    return DatabaseRefused("(an address that cannot be read)", "it is no address", hint=hint)


def identifier(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def texts() -> AdaptersMap:
    """Every value as the text that the server writes, whatever its type."""
    adapters = AdaptersMap()
    adapters.register_loader(0, TextLoader)
    return adapters
