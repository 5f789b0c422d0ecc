"""Views in a PostgreSQL: tables in the first schema of the connection's search path.

A batch goes in by COPY, and everything else is done by the database, in one transaction. A writer holds its view's row
in `runnel_views` while it writes, so that a claim comes before or after a batch, never into it. A writer that hangs in
the middle of a transaction is ended by the one that comes after it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import repeat
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import TextLoader
from pyarrow import types

from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.errors import RunnelError
from runnel.libpq import FATAL, LIVENESS, PASSWORD, lets_nobody_in, may_pass, what_mends
from runnel.views.batch import Batch
from runnel.views.errors import (
    InvalidDeclaration,
    InvalidStore,
    StoreCutOff,
    StoreFull,
    StoreLocked,
    StoreRefused,
    StoreUnreachable,
)
from runnel.views.layout import Layout
from runnel.views.postgres_grants import hand_on
from runnel.views.postgres_values import copied, from_postgres, type_of
from runnel.views.sql_store import SqlStore
from runnel.views.statements import BATCH, Dialect, Statements, quoted
from runnel.views.store import Keep
from runnel.views.values import NotOfType

PATIENCE = 10.0
CONNECT_SECONDS = 10
MAKING = 0x52756E6E656C  # the number of our advisory lock
ROWS_TO_ANALYZE = 10_000  # a batch's plan wants its statistics only if it is large
SETTINGS = (
    # Whatever a role or a database is set to.
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; "
    "SET extra_float_digits = 3; "  # text that reads as the same number
    "SET default_transaction_isolation = 'read committed'; "  # who has waited for a lock sees what was done meanwhile
    "SET synchronous_commit = on"
)
TIMEOUTS = ("statement_timeout", "transaction_timeout", "idle_session_timeout")  # a server may not know the last ones
NOT_CUT_OFF = "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = ANY ($1)"
READING = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
LIKE = """
WITH ours AS (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())
SELECT relname FROM pg_catalog.pg_class JOIN ours ON relnamespace = ours.oid WHERE relname = $1
UNION ALL
SELECT typname FROM pg_catalog.pg_type JOIN ours ON typnamespace = ours.oid WHERE typname = $1 AND typcategory <> 'A'
"""
QUOTED = re.compile(r'"(.*)"', re.DOTALL)  # from the first quote to the last: what is between may have some, too


class PostgresStore(SqlStore):
    """The views in one database. Opening it does nothing; InvalidStore if the URL is none."""

    def __init__(
        self, url: str, *, keep: Keep | None = None, patience: float = PATIENCE, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(keep, clock)
        self.url = url
        self._shown = shown(url)
        self._patience = patience

    def _connect(self, view: str) -> Callable[[], PostgresDatabase]:
        return partial(PostgresDatabase, self.url, self._shown, self._patience, view=view)

    def _read(self) -> PostgresDatabase:
        return PostgresDatabase(self.url, self._shown, self._patience)


class PostgresDatabase:
    bytes_type = "bytea"
    is_current = is_there = True  # a server that goes takes the connection with it
    is_let_go = False

    def __init__(self, url: str, store: str, patience: float, *, view: str | None = None) -> None:
        self.store = store
        self._patience = patience
        self._is_reader = view is None
        self._connection = _open(url, store, application(view, "") if view is not None else "runnel reader")
        try:
            self.schema, self.identity = self._set_up(view)
        except BaseException:
            self._connection.close()
            raise

    def dialect(self, layout: Layout) -> Dialect:
        for name in layout.columns:
            if name in SYSTEM_COLUMNS:
                raise InvalidDeclaration(
                    layout.name, f"PostgreSQL has a column {name!r} of its own in every table", hint="rename it"
                )
        return Dialect(
            type_of=lambda name: type_of(layout.schema.field(name).type),
            schema=self.schema,
            temporary="pg_temp.",
            differs="IS DISTINCT FROM",
            emptied=" ON COMMIT DELETE ROWS",
        )

    @contextmanager
    def making(self) -> Iterator[None]:
        with self._transaction("BEGIN"):
            self.run("SELECT pg_advisory_xact_lock($1)", MAKING)
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def staged(self, layout: Layout, statements: Statements, batch: Batch) -> Iterator[None]:
        with self._transaction("BEGIN"):
            into = f"COPY {statements.batch_columns()} FROM STDIN"
            with self._telling(), self._connection.cursor() as cursor, cursor.copy(into.encode()) as copy:
                for lines in copied(layout.name, batch):
                    copy.write(lines)
            if batch.table.num_rows >= ROWS_TO_ANALYZE:
                self.run(f"ANALYZE pg_temp.{BATCH}")
            yield

    @contextmanager
    def reading(self, view: str | None = None) -> Iterator[None]:
        """The names of tables are not those of the moment in PostgreSQL: so the table is held before the moment is."""
        is_begun = view is not None and self._has_held(view)
        with self._transaction("" if is_begun else READING):
            yield

    def _has_held(self, view: str) -> bool:
        """Whether a transaction has begun, and holds the table; not, if there is no such table, or an index."""
        with self._telling():
            try:
                self._connection.execute(
                    f"{READING}; LOCK TABLE {self.schema}{quoted(view)} IN ACCESS SHARE MODE".encode()
                )
            except (psycopg.errors.UndefinedTable, psycopg.errors.WrongObjectType):
                self._connection.execute("ROLLBACK")
                return False
            except psycopg.Error:
                with suppress(psycopg.Error):
                    self._connection.execute("ROLLBACK")
                raise
        return True

    def commit(self) -> None:
        self.run("COMMIT")

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._telling():
            cursor = self._connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def place(self, number: int) -> str:
        return f"${number}"

    def held(self, statement: str) -> str:
        return f"{statement} FOR UPDATE"

    def table_like(self, name: str) -> str | None:
        rows = self.run(LIKE, name)  # a table is a type of its name, too; those of arrays make way by themselves
        return str(rows[0][0]) if rows else None

    def drop_table(self, name: str) -> str:
        with self._telling():
            self._connection.execute(b"SAVEPOINT dropping")
            try:
                self._connection.execute(f"DROP TABLE {self.schema}{quoted(name)}".encode())
            except psycopg.errors.DependentObjectsStillExist as error:
                self._connection.execute(b"ROLLBACK TO SAVEPOINT dropping")
                return "; ".join((error.diag.message_detail or "it is not said what").splitlines())
        return ""

    def hand_on(self, old: str, new: str) -> None:
        hand_on(self.run, self.schema + quoted(old), self.schema + quoted(new))

    def make_way(self, layout: Layout) -> bool:
        ended = self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE application_name = $1 "
            "AND datname = current_database() AND pid <> pg_backend_pid()",
            application(layout.name, self.schema),
        )
        return bool(ended)

    def table(self, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
        columns = zip(*rows, strict=True) if rows else repeat((), len(schema))
        arrays = [from_postgres(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.table(arrays, schema=schema)

    def value(self, value: pa.Scalar) -> object:
        found = value.as_py()
        if isinstance(found, str) and "\0" in found:  # no text of PostgreSQL's has one
            raise NotOfType(found)
        return found

    def ordered(self, column: str, kind: pa.DataType) -> str:
        return f'{column} COLLATE "C"' if types.is_string(kind) else column  # not by the server's language

    def close(self) -> None:
        self._connection.close()

    def _set_up(self, view: str | None) -> tuple[str, str]:
        self._connection.adapters.register_loader("jsonb", TextLoader)
        with self._telling():
            self._connection.execute(f"{SETTINGS}; SET lock_timeout = {round(self._patience * 1_000)}")
        ((schema, backend),) = self.run("SELECT current_schema(), pg_backend_pid()")
        if schema is None:
            raise StoreRefused(
                self.store,
                "no schema of the connection's search path is there",
                hint="create one, or name another with ?options=-csearch_path%3Dpublic",
            )
        if view is not None:
            self.run(NOT_CUT_OFF, list(TIMEOUTS))
            self.run("SELECT set_config('application_name', $1, false)", application(view, quoted(schema) + "."))
        return quoted(schema) + ".", f"backend {backend}"

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        if begin:
            self.run(begin)
        try:
            yield
        finally:
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                # A connection that is lost has lost its transaction, too.
                with suppress(psycopg.Error):
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise told(self.store, self._patience, error, reads=self._is_reader) from error


def application(view: str, schema: str) -> str:
    """What a writer's connection is called, for people and for its successor."""
    digest = hashlib.sha256(f"{schema}{view}".encode()).hexdigest()[:12]
    return f"runnel view {view[:20].encode('ascii', 'replace').decode()} {digest}"


def shown(url: str) -> str:
    """The URL without its password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise InvalidStore(url, _without_credentials(str(error).strip(), url)) from None
    except UnicodeError:
        raise InvalidStore(url, "it is no UTF-8, as it is or behind its percent signs") from None
    if "@" in url.partition("://")[2].partition("/")[2].partition("?")[0]:
        # A password with a slash in it would be taken for a port and the database's name, which are shown.
        raise InvalidStore(url, "there is an @ behind its first slash; in a password, write %2F for / and %40 for @")
    user, host, port = (parts.get(name) for name in ("user", "host", "port"))
    place = f"{f'{user}@' if user else ''}{host or 'localhost'}{f':{port}' if port else ''}"
    return f"postgresql://{place}/{parts.get('dbname', '')}"


def _without_credentials(said: str, url: str) -> str:
    """libpq quotes what it cannot read of an address, and that may be the password."""
    found = QUOTED.search(said)
    credentials = url.rpartition("@")[0]
    if found is None or ("@" not in found[1] and found[1] not in credentials):
        return said
    return said[: found.start()] + '"***"' + said[found.end() :]


def _open(url: str, store: str, name: str) -> psycopg.Connection[tuple[Any, ...]]:
    given: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **LIVENESS, **conninfo_to_dict(url)}
    given |= {"client_encoding": "utf8", "application_name": name}
    try:
        return psycopg.connect(
            "",
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            prepare_threshold=None,  # a plan for a small batch is none for a large one
            **given,
        )
    except (psycopg.Error, UnicodeError) as error:  # the latter for a host's name that can be none
        told = told_of_connecting(store, error)
        if isinstance(told, StoreRefused) and FATAL in told.reason and lets_nobody_in(url, CONNECT_SECONDS):
            told = StoreUnreachable(store, told.reason)
        raise told from error


def told_of_connecting(store: str, error: psycopg.Error | UnicodeError) -> RunnelError:
    reason = " ".join(str(error).split())
    if may_pass(reason):
        return StoreUnreachable(store, reason)
    if mended_by := what_mends(reason):
        hint = mended_by
    elif "password" in reason or "authentication" in reason:
        hint = PASSWORD
    else:
        hint = "see to the user and the database's name, or ask whoever runs the server"
    return StoreRefused(store, reason, hint=hint)


def told(store: str, patience: float, error: psycopg.Error, *, reads: bool = False) -> RunnelError:
    state = error.sqlstate or ""
    reason = " ".join(str(error).split())
    if state in ("55P03", "40P01", "40001"):
        return StoreLocked(store, patience)
    if state in ("53100", "53200", "53400"):
        return StoreFull(store, reason)
    if state == MAY_NOT and reads:
        return StoreRefused(store, reason, hint=TO_READ)
    if state in HINTS:
        return StoreRefused(store, reason, hint=HINTS[state])
    if state in CUT_OFF_BY:
        return StoreCutOff(store, reason, CUT_OFF_BY[state] if "timeout" in reason else None)
    if state[:2] in ("08", "53", "57") or (not state and isinstance(error, psycopg.OperationalError)):
        return StoreUnreachable(store, reason)
    return StoreRefused(store, reason, hint="this is unexpected: please report it")


CUT_OFF_BY = {  # a setting, if not by a person
    "57014": "statement_timeout",
    "57P05": "idle_session_timeout",
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
}
MAY_NOT = "42501"
TO_READ = (
    "grant this user the right to read the view and Runnel's own tables: GRANT USAGE ON SCHEMA ... TO ...; "
    "GRANT SELECT ON ALL TABLES IN SCHEMA ... TO ..."
)
HINTS = {
    MAY_NOT: "grant this user the right to make and write tables: GRANT CREATE, USAGE ON SCHEMA ... TO ...; "
    "GRANT TEMPORARY ON DATABASE ... TO ...",
    "25006": "the server only reads, as a standby does: name the one that writes",
    "3F000": "create the schema, or name another with ?options=-csearch_path%3Dpublic",
    "54000": "an index takes keys of some 2,700 bytes: shorten them in the view's function, as by F.sha2; and a row "
    "has 8,160, where long text counts little: put some of many columns into a struct",
    "54011": "a key has 32 columns at most: put some of them together into a text",
    "22P05": "keep views in a database of the encoding UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
}
