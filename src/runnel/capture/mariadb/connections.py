"""Connections to a captured MariaDB: what they are set to, and what goes wrong with them in our words.

Values come as the server's text, times in UTC, so that the snapshot and the log give the same.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql  # type: ignore[import-untyped]

from runnel.capture.mariadb.errors import DatabaseRefused, DatabaseUnreachable, SnapshotOutdated
from runnel.errors import RunnelError

Connection: TypeAlias = Any  # PyMySQL has no types
Record: TypeAlias = tuple[Any, ...]

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 300
PORT: Final = 3306
LOCKED: Final = 1205  # who waited for a table has waited for long enough
# A server that loses power says nothing, and who reads its log asks nothing: he would wait for hours.
LIVENESS: Final = {
    "TCP_KEEPIDLE": 30,  # seconds
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 60_000,  # milliseconds
}
PASSWORD_VARIABLE: Final = "MYSQL_PWD"
SETTINGS: Final = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', wait_timeout = 28800, net_write_timeout = 600,"
    " tx_isolation = 'REPEATABLE-READ', max_statement_time = 0"
)
# What passes: it is away, or has too much to do; somebody kept a lock, or has killed a statement.
AWAY: Final = frozenset(
    {1040, 1053, 1077, 1080, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1317, 1927, 2003, 2006, 2013}
)
# Why a user may not log in, and what mends it: not from this host, an old password, a way we do not know, a lock.
LOGGING_IN: Final = {
    1130: "run CREATE USER {user} IDENTIFIED BY '...'; or one for this host, or see to the address",
    1820: "run ALTER USER {user} IDENTIFIED BY '...'; with another password",
    1862: "run ALTER USER {user} IDENTIFIED BY '...'; with another password",
    2059: "run ALTER USER {user} IDENTIFIED VIA mysql_native_password USING PASSWORD('...');",
    4151: "run ALTER USER {user} ACCOUNT UNLOCK;",
}
PACKAGE: Final = "package is required"
REFUSING: Final = frozenset({1044, 1045, 1049, 1698, *LOGGING_IN})
# No such column, no such table; it was altered since; its file is away, as before another one is put in its place.
OUTDATED: Final = frozenset({1054, 1146, 1412, 1814})
FILES: Final = ("ssl_ca", "ssl_cert", "ssl_key")
OPTIONS: Final = frozenset({*FILES, "ssl_verify"})
NO_TLS: Final = 2026
EXPECTED: Final = (
    "expected mariadb://USER@HOST:PORT/DATABASE; in a password, write %40 for @ and %2F for /; for TLS add "
    "?ssl_ca=FILE, and ssl_verify=no where the server's name is not in its certificate"
)


class Address:
    """Where a database is. It is shown without its password."""

    def __init__(self, url: str, name: str) -> None:
        self.application = f"runnel capture {name}"
        try:
            parts = urlsplit(url)
            host, port, user = parts.hostname, parts.port, unquote(parts.username or "")
            options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        except ValueError:  # it tells of parts of the address, which may be the password
            raise _no_address("it is no address") from None
        self.database = unquote(parts.path.removeprefix("/"))
        if not host or not self.database or "/" in self.database:
            raise _no_address("it names no host or no database")
        if unknown := options.keys() - OPTIONS:
            raise _no_address(f"{', '.join(sorted(unknown))} is no setting of it")
        self.user = user
        self.shown = f"mariadb://{f'{user}@' if user else ''}{host}{f':{port}' if port else ''}/{self.database}"
        password = unquote(parts.password) if parts.password is not None else os.environ.get(PASSWORD_VARIABLE, "")
        self._given = {"host": host, "port": port or PORT, "user": user or None, "password": password}
        self._tls = options

    def connect(self, *, anywhere: bool = False) -> Connection:
        """`anywhere` is without the database, which may be gone when the log tells of its tables."""
        secured = self._secured()
        try:
            connection = pymysql.connect(
                **self._given,
                **secured,
                database=None if anywhere else self.database,
                charset="utf8mb4",
                autocommit=True,
                conv={},
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                program_name=self.application,
            )
            _watch(connection._sock)
            self._check_kind(connection)
            ask(connection, SETTINGS)
        except (pymysql.MySQLError, OSError) as error:
            raise self._told_of_connecting(error) from error
        except RuntimeError as error:  # PyMySQL has some ways to log in only with a further package
            if PACKAGE not in str(error):
                raise
            raise DatabaseRefused(
                self.shown,
                reason_of(error),
                hint="install it with pip where Runnel is, or " + LOGGING_IN[2059].format(user=account(self.user)),
            ) from error
        return connection

    def _check_kind(self, connection: Connection) -> None:
        """Before anything is set that only a MariaDB knows. What greets us may be something between us and it, which
        gives a version of its own.
        """
        if is_mariadb(connection.get_server_info()):
            return
        (version,) = ask_one(connection, "SELECT VERSION()")
        if not is_mariadb(version):
            connection._force_close()
            raise DatabaseRefused(
                self.shown, f"it is no MariaDB, but {version}", hint="MySQL was not tried, and is not captured"
            )

    def _secured(self) -> dict[str, Any]:
        """Where TLS is not asked for, it is used if the server has it, and nobody looks at whose it is."""
        if not self._tls:
            return {}
        try:
            return {"ssl": _context(self._tls)}
        except OSError as error:
            given = ", ".join(f"{name}={self._tls[name]}" for name in FILES if name in self._tls)
            raise DatabaseRefused(
                self.shown, f"no TLS is possible with {given}: {error}", hint="see to these files"
            ) from error

    @contextmanager
    def telling(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.MySQLError, OSError) as error:
            raise self.told(error) from error

    def told(self, error: Exception) -> RunnelError:
        number, reason = number_of(error), reason_of(error)
        if number in AWAY or isinstance(error, OSError | pymysql.err.InterfaceError):
            return DatabaseUnreachable(self.shown, reason)
        if number in OUTDATED:
            return SnapshotOutdated(self.shown, reason)
        return DatabaseRefused(self.shown, reason, hint=self._hint(number))

    def _hint(self, number: int) -> str:
        user = account(self.user)
        if number == 1227:
            return f"run GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {user};"
        if number in (1044, 1142):
            return f"run GRANT SELECT ON {identifier(self.database)}.* TO {user};"
        if number == 1049:
            return "see to the database's name in the address"
        if number in (1045, 1698):
            return f"see to the user and the password; {PASSWORD_VARIABLE} keeps it out of the address"
        if number in LOGGING_IN:
            return LOGGING_IN[number].format(user=user)
        if number == 1064:
            return "see to the condition that was given"
        return "this is unexpected: please report it"

    def _told_of_connecting(self, error: Exception) -> RunnelError:
        if number_of(error) in REFUSING:
            return DatabaseRefused(self.shown, reason_of(error), hint=self._hint(number_of(error)))
        if number_of(error) == NO_TLS:
            hint = "write ssl_cert and ssl_key under [mariadbd] in its my.cnf, or leave out ssl_... in the address"
            return DatabaseRefused(self.shown, reason_of(error), hint=hint)
        if "certificate" in str(error).lower():
            return DatabaseRefused(
                self.shown,
                reason_of(error),
                hint="give the host by a name that is in the server's certificate, and the one who vouches for that as "
                "ssl_ca; ssl_verify=no believes any server",
            )
        return DatabaseUnreachable(self.shown, reason_of(error))


def _watch(connected: socket.socket) -> None:
    """By what the system has of it. PyMySQL asks for it without a time, which is two hours then."""
    for name, value in LIVENESS.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _no_address(reason: str) -> DatabaseRefused:
    return DatabaseRefused("(an address that cannot be read)", reason, hint=EXPECTED)


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca"))
    # Certificates that a server made for itself lack what Python 3.13 asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if options.get("ssl_verify", "yes").lower() in ("no", "false", "0", "none"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "ssl_cert" in options:
        context.load_cert_chain(options["ssl_cert"], options.get("ssl_key"))
    return context


def is_mariadb(version: str) -> bool:
    return "mariadb" in version.lower()


def number_of(error: Exception) -> int:
    """The server's, or the client's own; 0 if there is none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def reason_of(error: Exception) -> str:
    said = error.args[1] if len(error.args) > 1 and isinstance(error, pymysql.MySQLError) else error
    return " ".join(str(said).split()) or type(error).__name__


def ask(connection: Connection, query: str) -> list[Record]:
    """All rows of an answer; values are texts, bytes and None."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def ask_one(connection: Connection, query: str) -> Record:
    (found,) = ask(connection, query)
    return found


def identifier(*names: str) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def account(user: str) -> str:
    return f"'{user}'@'%'"


def literal(value: str | bytes) -> str:
    """In hexadecimal, so that no setting of the server changes what it means."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"_utf8mb4 x'{value.encode().hex()}'"
