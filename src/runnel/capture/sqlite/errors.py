"""What can happen to a file of SQLite's that is captured.

Transient
├── FileReplaced    another file has its path: what is there is looked at
└── TableAltered    a table was altered before it was read: it is looked at again
"""

from __future__ import annotations

from runnel.errors import Transient


class FileReplaced(Transient):
    def __init__(self, database: str) -> None:
        super().__init__(
            f"database {database} is another file than the one that was read: it was replaced",
            hint="the capture looks at what is there, and goes on if it has the change log as it was read",
        )
        self.database = database


class TableAltered(Transient):
    def __init__(self, database: str, table: str) -> None:
        super().__init__(
            f"table {table} of database {database} was altered before it was read",
            hint="the capture looks at it again, and reads it",
        )
        self.database = database
        self.table = table
