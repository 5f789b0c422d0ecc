"""What can be wrong with a MariaDB that is captured. No text here has a password in it.

Transient
├── DatabaseUnreachable   it does not answer, or ended the connection
└── SnapshotOutdated      a table was altered, truncated or dropped before it was read
Permanent
├── DatabaseRefused       it answers, and says no
├── NotReady              something is missing in it; `statements` is what mends it
├── StatementLogged       a session wrote a statement to the log instead of its rows
├── HistoryKept           a table has system versioning: the log has its former rows as new ones
├── PreparedLost          an XA transaction was committed whose rows the log does not have any more
└── LogUnreadable         the log holds what this version cannot read
"""

from __future__ import annotations

from runnel.capture.errors import CannotCapture
from runnel.capture.server_errors import DatabaseRefused, DatabaseUnreachable, NotReady
from runnel.errors import Permanent, Transient

__all__ = [
    "DatabaseRefused",
    "DatabaseUnreachable",
    "HistoryKept",
    "LogUnreadable",
    "NotReady",
    "SnapshotOutdated",
    "StatementLogged",
]


class SnapshotOutdated(Transient):
    """Whoever looks at a table as it was before cannot do so once it was altered or emptied."""

    def __init__(self, database: str, reason: str) -> None:
        super().__init__(
            f"a table of {database} is another one since the snapshot was taken: {reason}",
            hint="the capture takes another one, and goes on where it was",
        )
        self.database = database


class StatementLogged(Permanent):
    def __init__(self, database: str, gtid: str, statement: str) -> None:
        super().__init__(
            f"changes of {database} are lost: transaction {gtid} has a statement in the log instead of its rows: "
            f"{statement}",
            hint="a session has set its own binlog_format: let it be ROW for all; then `runnel capture remove`, and "
            "begin anew with a new snapshot",
        )
        self.gtid = gtid


class HistoryKept(CannotCapture):
    """With system versioning an update writes the former row as well, and a delete is an update of the row's end."""

    def __init__(self, table: str) -> None:
        super().__init__(
            table,
            "it keeps its own history",
            hint="leave it out; when it was left out, and its system versioning is dropped, it can be chosen again",
        )


class PreparedLost(Permanent):
    def __init__(self, database: str, gtid: str, name: str) -> None:
        super().__init__(
            f"changes of {database} are lost: transaction {gtid} is XA COMMIT {name}, and what it commits was prepared "
            "before all that the log still has",
            hint="see with XA RECOVER; which others are prepared, and XA COMMIT or XA ROLLBACK them; then "
            "`runnel capture remove`, and begin anew with a new snapshot",
        )
        self.gtid = gtid
        self.name = name


class LogUnreadable(Permanent):
    def __init__(self, database: str, place: str, reason: str, *, hint: str) -> None:
        super().__init__(f"the log of {database} cannot be read at {place}: {reason}", hint=hint)
        self.place = place
        self.reason = reason
