"""What can happen to a file of SQLite's that is captured.

Transient
└── FileReplaced    another file has its path: what is there is looked at
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
