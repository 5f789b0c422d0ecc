"""What can be wrong with any database that is a server. No text here has a password in it.

Transient
└── DatabaseUnreachable   it does not answer, or ended the connection
Permanent
├── DatabaseRefused       it answers, and says no
└── NotReady              something is missing in it; `statements` is what mends it
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.errors import Permanent, Transient


class DatabaseUnreachable(Transient):
    def __init__(self, database: str, reason: str) -> None:
        super().__init__(
            f"database {database} cannot be reached: {reason}",
            hint="start it or see to the address; the capture goes on where it was",
        )
        self.database = database
        self.reason = reason


class DatabaseRefused(Permanent):
    def __init__(self, database: str, reason: str, *, hint: str) -> None:
        super().__init__(f"database {database} refused: {reason}", hint=hint)
        self.database = database
        self.reason = reason


class NotReady(Permanent):
    """`verb` is what is to be done with the statements."""

    def __init__(
        self, database: str, missing: str, statements: Sequence[str], *, verb: str = "run", then: str = ""
    ) -> None:
        super().__init__(
            f"database {database} cannot be captured: {missing}",
            hint=f"{verb} {' '.join(statements)}{f' {then}' if then else ''}",
        )
        self.database = database
        self.missing = missing
        self.statements = tuple(statements)
