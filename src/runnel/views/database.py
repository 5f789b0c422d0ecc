"""What the writer and the reader of a view ask of a database: a connection that speaks SQL, and little else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from runnel.views.batch import Batch
from runnel.views.layout import Layout
from runnel.views.statements import Dialect, Statements


class Database(Protocol):
    """A connection. What it raises is of runnel.views.errors, and a failed transaction was rolled back."""

    @property
    def store(self) -> str:
        """What people call it."""
        ...

    @property
    def identity(self) -> str:
        """Who we are in the eyes of others; kept with a claim."""
        ...

    @property
    def schema(self) -> str:
        """Said before the name of a table, so that no other is meant."""
        ...

    @property
    def bytes_type(self) -> str: ...

    @property
    def is_current(self) -> bool:
        """Whether it is what is found at the address by now: a file may have been replaced or removed."""
        ...

    @property
    def is_there(self) -> bool:
        """Whether something was found at the address: to a reader, nothing there is as good as no views."""
        ...

    @property
    def is_let_go(self) -> bool:
        """Whether it was closed before a fork, outside of any `whole`. A transaction opens it again, without what was
        temporary.
        """
        ...

    def dialect(self, layout: Layout) -> Dialect:
        """InvalidDeclaration if this database, of all, cannot have such a table."""
        ...

    def making(self) -> AbstractContextManager[None]:
        """A transaction that makes tables, one at a time; rolled back unless `commit` is called in it."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """A transaction that writes; rolled back unless `commit` is called in it."""
        ...

    def staged(self, layout: Layout, statements: Statements, batch: Batch) -> AbstractContextManager[None]:
        """The same, with the batch in its temporary table."""
        ...

    def reading(self, view: str | None = None) -> AbstractContextManager[None]:
        """A transaction that sees the database at one moment; the table of the view stays the one that it is."""
        ...

    def commit(self) -> None: ...

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]: ...

    def place(self, number: int) -> str:
        """What stands in a statement for the value of that number; the first is 1."""
        ...

    def held(self, statement: str) -> str:
        """The query, such that nobody else changes the rows it finds until the transaction ends."""
        ...

    def table_like(self, name: str) -> str | None:
        """The table, or whatever else, that a table of this name would collide with."""
        ...

    def drop_table(self, name: str) -> str:
        """Empty; or what of others needs the table, which then is still there."""
        ...

    def hand_on(self, old: str, new: str) -> None:
        """What others may do with the old table, and what is said of it, to the new one, which will have its name."""
        ...

    def make_way(self, layout: Layout) -> bool:
        """End other writers of the view, which are in the way of a claim; False if that cannot be done from here."""
        ...

    def table(self, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
        """What was read, in the types that were written."""
        ...

    def value(self, value: pa.Scalar) -> object:
        """A value as the database compares it. NotOfType if it can have none such."""
        ...

    def ordered(self, column: str, kind: pa.DataType) -> str:
        """The column, such that the database orders it by value, and every database in the same way."""
        ...

    def close(self) -> None: ...
