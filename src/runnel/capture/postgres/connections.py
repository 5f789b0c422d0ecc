"""Connections to a captured PostgreSQL: what they are set to, and what goes wrong with them in our words.

The server writes values as text by its settings. They are the same for every connection of ours, so that the snapshot
and the log write a value alike, and one form reads both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import TextLoader

from runnel.capture.postgres.errors import DatabaseRefused, DatabaseUnreachable
from runnel.errors import RunnelError

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

CONNECT_SECONDS: Final = 10
# A server that loses power says nothing: whoever waits for it would wait for hours. An address may say other values.
LIVENESS: Final = {
    "keepalives": 1,
    "keepalives_idle": 30,  # seconds
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
}
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
STARTING_OR_BUSY: Final = (
    "starting up",
    "shutting down",
    "too many",
    "remaining connection slots",
    "exceeds max_wal_senders",
    "recovery mode",
)
PASSWORD: Final = "see to the user and the password; PGPASSWORD or ~/.pgpass keep it out of the URL"
AUTHORITY: Final = (
    "name the certificate of the authority that vouches for the server: sslrootcert=FILE, or sslrootcert=system; "
    "sslmode=require without sslrootcert believes any server"
)
HOST_NAME: Final = (
    "give the host by a name that is in the server's certificate; sslmode=verify-ca does not look at the name"
)
SERVER_TLS: Final = "set ssl = on there, with ssl_cert_file and ssl_key_file, or leave sslmode out of the address"
CLIENT_FILES: Final = "see to the files that sslcert and sslkey name"
SETTINGS_OF_ADDRESS: Final = "see to the settings behind the question mark of the address"
# What libpq finds by itself and no waiting mends, with what does.
UNMET: Final = {
    "no password supplied": PASSWORD,
    "weak sslmode": SETTINGS_OF_ADDRESS,
    "certificate verify failed": AUTHORITY,
    "root certificate": AUTHORITY,
    "does not match host name": HOST_NAME,
    "host name must be specified": HOST_NAME,
    "host name from server certificate": HOST_NAME,
    "server does not support SSL": SERVER_TLS,
    "private key file": CLIENT_FILES,
    "certificate file": CLIENT_FILES,
    "alert unknown ca": CLIENT_FILES,
    "alert bad certificate": CLIENT_FILES,
    "alert certificate": CLIENT_FILES,
    "SSL protocol version": SETTINGS_OF_ADDRESS,
    "channel binding": SETTINGS_OF_ADDRESS,
    "authentication method": SETTINGS_OF_ADDRESS,
    "GSSAPI encryption required": SETTINGS_OF_ADDRESS,
    " value: ": SETTINGS_OF_ADDRESS,
}
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
        except psycopg.Error:  # it tells of parts of the address, which may be the password
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
        except psycopg.Error as error:
            raise self._told_of_connecting(error) from error
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
        return DatabaseRefused(self.shown, reason, hint=HINTS.get(state, "this is unexpected: please report it"))

    def _check_version(self, connection: Connection) -> None:
        found = connection.info.server_version
        if found < OLDEST:
            connection.close()
            reason = f"it is PostgreSQL {found // 10_000}; {OLDEST // 10_000} or newer is needed"
            raise DatabaseRefused(self.shown, reason, hint="upgrade the server, or capture another one")

    def _told_of_connecting(self, error: psycopg.Error) -> RunnelError:
        """A server that answers says FATAL; libpq alone never does."""
        reason = " ".join(str(error).split())
        if any(phrase in reason for phrase in STARTING_OR_BUSY):
            return DatabaseUnreachable(self.shown, reason)
        if "FATAL" not in reason:
            return self._told_by_libpq(reason)
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

    def _told_by_libpq(self, reason: str) -> RunnelError:
        for phrase, hint in UNMET.items():
            if phrase in reason:
                return DatabaseRefused(self.shown, reason, hint=hint)
        return DatabaseUnreachable(self.shown, reason)


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
