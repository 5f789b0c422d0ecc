"""What a PostgreSQL needs before it can be captured: what is missing is told with the SQL that mends it.

A publication and a slot are made if they are not there. Whoever may not make them uses what an administrator made: the
rights that are needed then are REPLICATION, and SELECT on the tables.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

import psycopg

from runnel.capture.errors import PositionLost
from runnel.capture.postgres.catalog import CatalogTable, ListedTable
from runnel.capture.postgres.connections import PLUGIN, Address, Connection, identifier, literal
from runnel.capture.postgres.errors import DatabaseRefused, NotReady, SlotInUse, SlotWaits, TableLocked, TableMoved
from runnel.capture.postgres.replication import IN_USE_SECONDS, lsn_number
from runnel.capture.tables import TableId
from runnel.durable import durable

logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 300
FULL: Final = "f"  # of a table's replica identity
FAILOVER: Final = 17_00_00  # the version from which on a slot can follow to a standby, and says why it is lost
OPENS_TABLES: Final = 16_00_00  # the version from which on a look at a publication opens its tables
LOCK_SECONDS: Final = 1
PUBLISH_SECONDS: Final = 2  # longer than the server lets a vacuum keep others waiting
GENERATED: Final = 18_00_00  # the version from which on the log can tell generated columns

USER: Final = """
SELECT current_user::text, rolsuper OR rolreplication OR EXISTS (
    SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(r.oid, 'MEMBER')),
    has_database_privilege(current_database(), 'CREATE'), current_database()::text,
    current_setting('wal_level'), pg_is_in_recovery()
FROM pg_roles WHERE rolname = current_user
"""
PLACES: Final = """
SELECT current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication),
       current_setting('max_replication_slots')::int, current_setting('max_wal_senders')::int
"""
PUBLICATION: Final = """
SELECT pg_has_role(pubowner, 'USAGE'), puballtables, pubupdate OR pubdelete, pubviaroot
FROM pg_publication WHERE pubname = %s
"""
SLOT: Final = """
SELECT plugin::text, slot_type, database::text, wal_status,
       coalesce(confirmed_flush_lsn, restart_lsn)::text, restart_lsn::text, {reason}
FROM pg_replication_slots WHERE slot_name = %s
"""
READER: Final = """
SELECT slot.active_pid, reader.application_name FROM pg_replication_slots AS slot
LEFT JOIN pg_stat_activity AS reader ON reader.pid = slot.active_pid WHERE slot.slot_name = %s AND slot.active
"""
# Rows of a partition are written by its own identity, which does not follow its table's. An identity by an index that
# was dropped since is none.
KEYLESS: Final = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.oid IN (
    SELECT unnest(%(tables)s::oid[]) UNION
    SELECT p.relid FROM unnest(%(tables)s::oid[]) AS t, pg_partition_tree(t) AS p WHERE p.isleaf AND %(is_new)s
) AND (c.relreplident = 'n' OR c.relreplident IN ('d', 'i') AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid
    AND CASE c.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END))
ORDER BY c.relkind = 'r', n.nspname, c.relname
"""
# Partitions that tell less of their old rows than their table. The log has nulls for the rest, and says that such a row
# is whole, because the table's are.
NARROWER: Final = """
SELECT n.nspname::text, c.relname::text
FROM pg_class t CROSS JOIN LATERAL pg_partition_tree(t.oid) AS p
JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.oid = ANY(%s) AND t.relreplident = 'f' AND p.isleaf AND c.relkind = 'r' AND c.relreplident <> 'f'
ORDER BY n.nspname, c.relname
"""
COMPUTED: Final = """
SELECT c.oid::int8 FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE c.oid = ANY(%s) AND a.attgenerated <> ''
  AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident)
"""
MOVED: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedObject,  # it is not in the publication: another one that has its name is not
)
# By a capture that was killed: the server finishes its statement, and only then it is seen. Once is enough, it is one.
PUBLISHED_MEANWHILE: Final = (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject)
WAL_REMOVED: Final = 'the server removed log that slot "{slot}" still needed, by its max_slot_wal_keep_size'
LOST: Final = {
    None: WAL_REMOVED,
    "wal_removed": WAL_REMOVED,
    "idle_timeout": 'the server gave up slot "{slot}", which nobody read for its idle_replication_slot_timeout',
}

# The columns of each table, and the condition for its rows.
Published: TypeAlias = dict[TableId, tuple[frozenset[str], str | None]]


class Slot(NamedTuple):
    confirmed: int  # what is before it is gone for us
    restart: int  # what is before it is gone from the disk


class Readiness:
    """Checks and makes, over one connection. Names that were `given` are an administrator's: they must be there."""

    def __init__(
        self,
        address: Address,
        connection: Connection,
        *,
        publication: str,
        slot: str,
        given_publication: bool,
        given_slot: bool,
    ) -> None:
        self._address = address
        self._connection = connection
        self._publication = publication
        self._slot = slot
        self._given_publication = given_publication
        self._given_slot = given_slot

    def check_server(self) -> None:
        found = self._connection.execute(USER).fetchone()
        assert found is not None
        user, replicates, _, _, wal_level, is_standby = found
        if wal_level != "logical":
            raise self._missing(
                f"wal_level is {wal_level}", ["ALTER SYSTEM SET wal_level = logical;"], then="and restart the server"
            )
        if is_standby:
            raise DatabaseRefused(
                self._address.shown, "it is a standby, which only reads", hint="name the server that writes"
            )
        if not replicates:
            raise self._missing(
                f'user "{user}" may not replicate',
                [f"ALTER ROLE {identifier(user)} REPLICATION;"],
                then="as a superuser",
            )

    def check_tables(self, tables: Sequence[ListedTable], *, is_new: bool) -> None:
        """`is_new` says that they are not published yet: what their partitions lack keeps nobody from writing so far.
        Later it is no reason to end, as when somebody has made another partition.
        """
        for fault in self._faults(tables, is_new=is_new):
            raise fault  # the first one

    def check_key(self, table: CatalogTable, columns: Sequence[str]) -> None:
        """Of a row that is deleted, or that an update has changed, the log tells the columns of the identity."""
        untold = [column for column in columns if column not in table.key]
        if untold and table.identity != FULL and self._publishes_old_rows():
            raise self._missing(
                f"the key of {table.id} shall have {', '.join(untold)}, which the log does not tell of a row that goes",
                [f"ALTER TABLE {identifier(*table.id)} REPLICA IDENTITY FULL;"],
            )

        narrower = self.narrower([table.oid])
        if untold and narrower and self._publishes_old_rows():
            raise self._missing(
                f"the key of {table.id} shall have {', '.join(untold)}, which the log does not tell of a row that goes "
                f"from {_shown(narrower)}",
                _full(narrower),
            )

    def narrower(self, tables: Sequence[int]) -> list[TableId]:
        """Partitions that tell less of their old rows than their tables, whose identity they do not follow."""
        return [TableId(*each) for each in self._connection.execute(NARROWER, [list(tables)]).fetchall()]

    def say_narrower(self, tables: Sequence[ListedTable]) -> None:
        """Of tables that are published: it is no reason to end."""
        found = self.narrower([table.oid for table in tables])
        if found and self._publishes_old_rows():
            logger.warning("%s; %s", _untold(found), " ".join(_full(found[:10])))

    def unfit(self, tables: Sequence[ListedTable]) -> dict[ListedTable, NotReady]:
        """Those that cannot be captured, each with what it lacks."""
        if next(self._faults(tables), None) is None:
            return {}
        return {table: fault for table in tables for fault in itertools.islice(self._faults([table]), 1)}

    def _faults(self, tables: Sequence[ListedTable], *, is_new: bool = True) -> Iterator[NotReady]:
        user = self._connection.execute("SELECT current_user::text").fetchone()
        assert user is not None
        hidden = [table for table in tables if not table.is_readable]
        if hidden:
            schemas = sorted({table.id.schema for table in hidden})
            yield self._missing(
                f'user "{user[0]}" may not read {_listed(hidden)}',
                [
                    f"GRANT USAGE ON SCHEMA {', '.join(map(identifier, schemas))} TO {identifier(user[0])};",
                    f"GRANT SELECT ON {_names(hidden)} TO {identifier(user[0])};",
                ],
            )
        asked = {"tables": [table.oid for table in tables], "is_new": is_new}
        found = self._connection.execute(KEYLESS, asked).fetchall()
        nameless = [TableId(*each) for each in found]
        if nameless and self._publishes_old_rows():
            yield self._missing(
                f"{_shown(nameless)} has no primary key: its updates and deletes would fail once it is published",
                _full(nameless),
                then="or give it a primary key",
            )
        narrower = self.narrower([table.oid for table in tables]) if is_new else []
        if narrower and self._publishes_old_rows():
            yield self._missing(_untold(narrower), _full(narrower))
        computed = self._with_computed_keys(tables)
        if computed:
            yield self._missing(
                f"{_listed(computed)} has a generated column in its key, which PostgreSQL before 18 does not tell",
                _full([table.id for table in computed]),
                then="then its records have no key",
            )

    def make_publication(
        self, tables: Sequence[ListedTable], kept: Container[TableId] | None, left: Container[TableId] = ()
    ) -> None:
        """Of the tables; `kept` are others that stay in it, None: whatever is in it. `left` are not put in."""
        try:
            self._make_publication(tables, kept, left)
        except PUBLISHED_MEANWHILE:
            self._make_publication(tables, kept, left)

    def _make_publication(
        self, tables: Sequence[ListedTable], kept: Container[TableId] | None, left: Container[TableId]
    ) -> None:
        to_have = [table for table in tables if table.id not in left]
        found = self._connection.execute(PUBLICATION, [self._publication]).fetchone()
        if found is None:
            self._create_publication(to_have)
            return
        is_owned, _, _, is_via_root = found
        published = self.published()
        missing = [table for table in to_have if table.id not in published]
        name = identifier(self._publication)
        if missing and any(table.kind == "p" for table in missing) and not is_via_root:
            self._alter([f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true);"], missing, is_owned)
            published = self.published()
            missing = [table for table in to_have if table.id not in published]
        if missing:
            self._alter([f"ALTER PUBLICATION {name} ADD TABLE {_only(missing)};"], missing, is_owned)
        if kept is None or any(table.id in left and table.id not in published for table in tables):
            return  # without those, what is published may be partitions of theirs
        wanted = {table.id for table in tables}
        unwanted = [identity for identity in published if identity not in wanted and identity not in kept]
        if unwanted and is_owned and not self._given_publication:
            dropped = ", ".join(identifier(*identity) for identity in unwanted)
            try:
                with durable("capture.postgres.alter"):
                    self._publish(f"ALTER PUBLICATION {name} DROP TABLE {dropped}")
            except TableLocked as error:  # its changes are passed over, as of one in an administrator's publication
                logger.warning("it stays published until the next start of the capture: %s", error)

    def published(self) -> Published:
        """The tables of the publication, with the columns and the filter of their rows. TableMoved while somebody
        alters or drops one, where the server looks at them: he may wait for us, who must not wait for him.
        """
        query = (
            "SELECT schemaname::text, tablename::text, attnames::text[], rowfilter FROM pg_publication_tables "
            "WHERE pubname = %s"
        )
        with self._not_waiting():
            found = self._connection.execute(query, [self._publication]).fetchall()
        return {
            TableId(schema, name): (frozenset(columns or ()), row_filter) for schema, name, columns, row_filter in found
        }

    @contextmanager
    def _not_waiting(self) -> Iterator[None]:
        if self._connection.info.server_version < OPENS_TABLES:
            yield
            return
        self._connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'".encode())
        try:
            yield
        except (psycopg.errors.LockNotAvailable, psycopg.errors.InternalError_) as error:
            if isinstance(error, psycopg.errors.InternalError_) and "could not open relation" not in str(error):
                raise
            raise TableMoved(self._address.shown, " ".join(str(error).split())) from None
        finally:
            if not self._connection.closed:
                self._connection.execute("RESET lock_timeout")

    def check_reader(self) -> None:
        """SlotInUse, if somebody reads from the slot. One that has just ended is let go of soon."""
        deadline = time.monotonic() + IN_USE_SECONDS
        while found := self._connection.execute(READER, [self._slot]).fetchone():
            if time.monotonic() > deadline:
                who = f'"{found[1]}", PID {found[0]}' if found[1] else f"PID {found[0]}"
                raise SlotInUse(self._address.shown, self._slot, f"it is read by {who}, and nothing of it by us before")
            time.sleep(0.05)

    def make_slot(self) -> Slot:
        found = self.slot()
        if found is not None:
            return found
        failover = ", failover => true" if self._connection.info.server_version >= FAILOVER else ""
        statement = f"SELECT pg_create_logical_replication_slot({literal(self._slot)}, '{PLUGIN}'{failover});"
        if self._given_slot:
            raise self._missing(f'there is no slot "{self._slot}"', [statement])
        self._check_places()
        try:
            self._connection.execute(f"SET statement_timeout = {PATIENCE_SECONDS * 1000}".encode())
            with durable("capture.postgres.slot"):
                self._connection.execute(statement.encode())
        except psycopg.errors.QueryCanceled:
            raise SlotWaits(self._address.shown, PATIENCE_SECONDS) from None
        finally:
            if not self._connection.closed:
                self._connection.execute("SET statement_timeout = 0")
        made = self.slot()
        assert made is not None
        return made

    def slot(self) -> Slot | None:
        reason = "invalidation_reason" if self._connection.info.server_version >= FAILOVER else "NULL"
        found = self._connection.execute(SLOT.format(reason=reason).encode(), [self._slot]).fetchone()
        if found is None:
            return None
        plugin, kind, database, status, confirmed, restart, why = found
        ours = self._connection.info.dbname
        if kind != "logical" or plugin != PLUGIN or database != ours:
            what = (
                f"is a {kind} one" if kind != "logical" else f'is of the plugin {plugin} and the database "{database}"'
            )
            raise DatabaseRefused(
                self._address.shown,
                f'slot "{self._slot}" is foreign: it {what}',
                hint=f"take another name, or drop it: SELECT pg_drop_replication_slot({literal(self._slot)});",
            )
        if status == "lost" or restart is None:
            what = LOST.get(why, f'the server gave up slot "{{slot}}": {why}').format(slot=self._slot)
            raise PositionLost(
                self._address.shown,
                f"{what}; SELECT pg_drop_replication_slot({literal(self._slot)}); drops what is left of it",
            )
        return Slot(lsn_number(confirmed), lsn_number(restart))

    def remove(self) -> bool:
        """The slot and the publication, unless an administrator made them. False if there was neither."""
        was_there = False
        if not self._given_slot:
            with durable("capture.postgres.remove"):
                dropped = self._connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                    [self._slot],
                )
            was_there = dropped.rowcount > 0
        found = self._connection.execute(PUBLICATION, [self._publication]).fetchone()
        if found is not None and found[0] and not self._given_publication:
            with durable("capture.postgres.remove"):
                self._connection.execute(f"DROP PUBLICATION {identifier(self._publication)}".encode())
            was_there = True
        return was_there

    def _create_publication(self, tables: Sequence[ListedTable]) -> None:
        # In a key, a generated column that is not published would make updates fail.
        has_them = self._connection.info.server_version >= GENERATED
        generated = ", publish_generated_columns = stored" if has_them else ""
        statement = (
            f"CREATE PUBLICATION {identifier(self._publication)}{f' FOR TABLE {_only(tables)}' if tables else ''} "
            f"WITH (publish_via_partition_root = true{generated});"
        )
        found = self._connection.execute(USER).fetchone()
        assert found is not None
        user, _, may_create, database, _, _ = found
        strangers = [table for table in tables if not table.is_owned]
        if self._given_publication:
            raise self._missing(
                f'there is no publication "{self._publication}"', [statement], then="as the tables' owner"
            )
        if strangers:
            raise self._missing(
                f'there is no publication "{self._publication}", and user "{user}" may not make it: '
                f"it does not own {_listed(strangers)}",
                [statement],
                then="as the tables' owner",
            )
        if not may_create:
            raise self._missing(
                f'user "{user}" may not make a publication',
                [f"GRANT CREATE ON DATABASE {identifier(database)} TO {identifier(user)};"],
            )
        with durable("capture.postgres.publication"):
            self._publish(statement)

    def _alter(self, statements: Sequence[str], missing: Sequence[ListedTable], is_owned: bool) -> None:
        if self._given_publication or not is_owned or not all(table.is_owned for table in missing):
            raise self._missing(
                f'publication "{self._publication}" does not have {_listed(missing)}', statements, then="as its owner"
            )
        for statement in statements:
            with durable("capture.postgres.alter"):
                self._publish(statement)

    def _publish(self, statement: str) -> None:
        """Of tables that were there when they were listed. TableLocked, if somebody keeps one: all of the capture would
        wait for him.
        """
        self._connection.execute(f"SET lock_timeout = '{PUBLISH_SECONDS}s'".encode())
        try:
            self._connection.execute(statement.encode())
        except psycopg.errors.LockNotAvailable:
            raise TableLocked(self._address.shown, statement, PUBLISH_SECONDS) from None
        except MOVED as error:
            raise TableMoved(self._address.shown, " ".join(str(error).split())) from None
        finally:
            if not self._connection.closed:
                self._connection.execute("RESET lock_timeout")

    def _publishes_old_rows(self) -> bool:
        found = self._connection.execute(PUBLICATION, [self._publication]).fetchone()
        return found is None or bool(found[2])

    def _with_computed_keys(self, tables: Sequence[ListedTable]) -> list[ListedTable]:
        """Where the log does not tell all of a key, other rows would have the same."""
        if self._connection.info.server_version >= GENERATED:
            return []
        found = {oid for (oid,) in self._connection.execute(COMPUTED, [[table.oid for table in tables]]).fetchall()}
        return [table for table in tables if table.oid in found]

    def _check_places(self) -> None:
        """One slot for the changes, and another for a moment, for the snapshot."""
        found = self._connection.execute(PLACES).fetchone()
        assert found is not None
        free_slots, free_senders, slots, senders = found
        for free, name, value, other in (
            (free_slots, "max_replication_slots", slots, "drop a slot that nobody reads"),
            (free_senders, "max_wal_senders", senders, "end one of those in pg_stat_replication"),
        ):
            if free < 2:
                raise self._missing(
                    f"it has {max(free, 0)} free of {name} = {value}, and needs 2",
                    [f"ALTER SYSTEM SET {name} = {value + 10};"],
                    then=f"and restart the server, or {other}",
                )

    def _missing(self, what: str, statements: Sequence[str], *, then: str = "") -> NotReady:
        return NotReady(self._address.shown, what, statements, then=then)


def _listed(tables: Sequence[ListedTable]) -> str:
    return _shown([table.id for table in tables])


def _shown(tables: Sequence[TableId]) -> str:
    shown = ", ".join(map(str, tables[:10]))
    return shown + (f" and {len(tables) - 10} more" if len(tables) > 10 else "")


def _untold(partitions: Sequence[TableId]) -> str:
    return (
        f"{_shown(partitions)} has not got the REPLICA IDENTITY FULL of its table: of its old rows the log would tell "
        "nulls for all but the key"
    )


def _full(tables: Sequence[TableId]) -> list[str]:
    return [f"ALTER TABLE {identifier(*table)} REPLICA IDENTITY FULL;" for table in tables]


def _names(tables: Sequence[ListedTable]) -> str:
    return ", ".join(identifier(*table.id) for table in tables)


def _only(tables: Sequence[ListedTable]) -> str:
    """ONLY: who inherits from a table is a table of its own. Partitions are part of theirs all the same."""
    return ", ".join(f"ONLY {identifier(*table.id)}" for table in tables)
