"""What can be wrong with a PostgreSQL that is captured. No text here has a password in it.

Transient
├── CommitHidden          a transaction is in the log, and others do not see it yet
├── DatabaseUnreachable   it does not answer, or ended the connection
├── PiecesNotKept         a large transaction does not fit on the disk
├── SlotInUse             another process reads from the slot
├── SlotWaits             a transaction that is still open keeps the slot from being made
├── SnapshotOutdated      a table was truncated, rewritten or redefined before it was read
├── TableLocked           somebody keeps a table that is to be published, or no more, locked
├── TableMoved            a table was altered, renamed or dropped while it was looked at or published
├── TableReplaced         another table has the name of one that is captured
└── TablesUnpublished     somebody took tables out of the publication, and nothing reads them anew
Permanent
├── DatabaseRefused       it answers, and says no
└── NotReady              something is missing in it; `statements` is the SQL that mends it
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.capture.server_errors import DatabaseRefused, DatabaseUnreachable, NotReady
from runnel.errors import Transient

__all__ = [
    "CommitHidden",
    "DatabaseRefused",
    "DatabaseUnreachable",
    "NotReady",
    "PiecesNotKept",
    "SlotInUse",
    "SlotWaits",
    "SnapshotOutdated",
    "TableLocked",
    "TableMoved",
    "TableReplaced",
    "TablesUnpublished",
]


class CommitHidden(Transient):
    def __init__(self, database: str, seconds: float) -> None:
        super().__init__(
            f"database {database} has committed a transaction, and shows it to nobody after {seconds:g} s",
            hint="it waits for a standby: start that, or take it out of synchronous_standby_names",
        )
        self.database = database


class PiecesNotKept(Transient):
    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(
            f"a large transaction cannot be kept in {directory} until it is committed: {reason}",
            hint="make room there, or name another directory: in_progress=DIRECTORY; the capture goes on where it was",
        )
        self.directory = directory
        self.reason = reason


class SlotInUse(Transient):
    def __init__(self, database: str, slot: str, reason: str) -> None:
        super().__init__(
            f'slot "{slot}" of {database} is in use: {reason}',
            hint="stop the other reader, or give this capture another name; one that has just died is let go of soon",
        )
        self.slot = slot


class SlotWaits(Transient):
    def __init__(self, database: str, seconds: float) -> None:
        super().__init__(
            f"database {database} could not make a slot within {seconds:g} s: it waits for transactions that are open",
            hint="end the oldest: SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start;",
        )
        self.database = database


class SnapshotOutdated(Transient):
    """PostgreSQL empties and rewrites tables for everybody, also for those who look at them as they were before."""

    def __init__(self, database: str, table: str) -> None:
        super().__init__(
            f'table "{table}" of {database} was truncated, rewritten or redefined since the snapshot was taken',
            hint="the capture takes another one, and goes on where it was",
        )
        self.table = table


class TableLocked(Transient):
    def __init__(self, database: str, statement: str, seconds: float) -> None:
        super().__init__(
            f"database {database} keeps a table locked, for more than {seconds:g} s: {statement}",
            hint="it is tried again; somebody builds an index or alters the table, as pg_stat_activity tells",
        )
        self.database = database
        self.statement = statement


class TableMoved(Transient):
    def __init__(self, database: str, reason: str) -> None:
        super().__init__(
            f"a table of {database} is altered, renamed or dropped by somebody else meanwhile: {reason}",
            hint="the capture looks at what is there, and goes on",
        )
        self.reason = reason


class TableReplaced(Transient):
    def __init__(self, database: str, table: str) -> None:
        super().__init__(
            f'table "{table}" of {database} is another one than before: it was made again, or renamed',
            hint="the capture reads it from its beginning",
        )
        self.table = table


class TablesUnpublished(Transient):
    def __init__(self, database: str, tables: Sequence[str]) -> None:
        super().__init__(
            f"database {database} does not tell of {', '.join(tables)}: somebody took that out of the publication",
            hint="it is published again; what changed meanwhile is not told",
        )
        self.tables = tables
