"""A database that an app captures while it runs, and its tables as inputs of the app.

    shop = app.capture("shop", "postgresql://runnel@db.example.org/shop", tables=["customers", "orders"])
    customers = shop.table("customers", key="id", schema="id long, name string, born date")

Declaring starts nothing: the database is looked for when the app runs. No text of it has the address's password.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from runnel.app.declared_columns import ColumnWarnings, check_columns
from runnel.app.time_units import check_time_units
from runnel.capture.errors import TableMissing
from runnel.capture.names import check_name
from runnel.capture.outgoing import topic_of_table
from runnel.capture.selection import (
    Hashed,
    Hiding,
    Masked,
    RowFilter,
    Selection,
    column_expression,
    table_expression,
)
from runnel.capture.source import Source
from runnel.capture.tables import Table as SourceTable
from runnel.capture.tables import TableId
from runnel.errors import Permanent, RunnelError
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.formats import Debezium
from runnel.graph.stream import Stream
from runnel.graph.table import Table
from runnel.views.addresses import shown

if TYPE_CHECKING:
    from runnel.app.app import App

Input = TypeVar("Input", Table, Stream)

SQLITE = "sqlite"
SCHEMAS = {SQLITE: "main", "postgresql": "public", "postgres": "public"}
MAPPED = {
    "hash": '{"customers.email": "pepper"}, columns with their salts',
    "where": '{"customers": function}, functions of a row by table',
    "key": '{"customers": "email"}, columns by table',
}
OF_DATABASE = ("mariadb", "mysql")  # a schema is what others call a database


class RowFilterFailed(Permanent):
    """What a function of `where` raised is the cause."""

    def __init__(self, table: str, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        super().__init__(
            f"the row filter of {table} raised {type(error).__name__}: {error}",
            hint=f"see {frame.filename}, line {frame.lineno}: it gets a dict of the values as the database tells them",
        )
        self.table = table


class TellingFilter:
    """A row filter that says whose it is when it fails. `columns` are those that it needs, if it tells."""

    def __init__(self, table: str, passes: RowFilter) -> None:
        self._table = table
        self._passes = passes
        self.columns: Iterable[str] = getattr(passes, "columns", ())

    def __call__(self, row: Mapping[str, Any]) -> bool:
        try:
            return self._passes(row)
        except RunnelError:
            raise
        except Exception as error:
            raise RowFilterFailed(self._table, error) from error


def check_given(where: str, *, lists: Mapping[str, object], mappings: Mapping[str, object]) -> None:
    """A text is a sequence to Python: each of its letters would be a name."""
    for argument, given in lists.items():
        if isinstance(given, str):
            hint = f"give a list: {argument}=[{given!r}]"
            raise InvalidDeclaration(where, argument, f"is the text {given!r} and no list", hint=hint)
    for argument, given in mappings.items():
        if given is not None and not isinstance(given, Mapping):
            what = f"is a {type(given).__name__} and no mapping"
            raise InvalidDeclaration(where, argument, what, hint=f"write {argument}={MAPPED[argument]}")


def selection_of(
    tables: Iterable[str],
    columns: Iterable[str],
    mask: Iterable[str],
    hash: Mapping[str, str],
    where: Mapping[str, RowFilter],
    key: Mapping[str, str | Sequence[str]],
) -> Selection:
    """Tables by name or by an expression for `schema.table`; columns as TABLE.COLUMN, or with the schema before."""
    hidden: dict[str, Hiding] = {column_expression(each): Masked() for each in mask}
    hidden |= {column_expression(each): Hashed(salt) for each, salt in hash.items()}
    return Selection(
        tables=[table_expression(each) for each in tables],
        columns=[column_expression(each) for each in columns],
        hidden=hidden,
        keys={
            table_expression(each): [names] if isinstance(names, str) else list(names) for each, names in key.items()
        },
        rows={table_expression(each): TellingFilter(each, passes) for each, passes in where.items()},
    )


class Captured:
    """`topics` are those of its tables that the app reads."""

    def __init__(self, app: App, name: str, url: str, selection: Selection, prefix: str | None) -> None:
        self.where = f'capture "{name}"'
        check_name("name", name)
        check_name("prefix", prefix or name)
        if not isinstance(url, str) or not url:
            hint = "give an address such as sqlite:shop.sqlite or postgresql://USER@HOST/DATABASE"
            raise InvalidDeclaration(self.where, "url", f"is {type(url).__name__} and no address", hint=hint)
        self.name = name
        self.url = url
        self.prefix = prefix or name
        self.selection = selection
        self._app = app
        self._inputs: list[tuple[TableId, Table | Stream]] = []  # that the app reads
        self._warnings = ColumnWarnings()

    def table(self, name: str, *, key: str | list[str], schema: object, **how: Any) -> Table:
        """A table of the database as a table of the app. `name` is the table's, or `schema.table`; the rest is as of
        `app.table`.
        """
        found = self._found(name)
        topic = topic_of_table(self.prefix, found)
        return self._read(found, self._app.table(topic, key=key, schema=self._format(schema), **how))

    def stream(self, name: str, *, schema: object, **how: Any) -> Stream:
        """Its changes as a stream of the app. The rest is as of `app.stream`; `time="_source_time"` is when a change
        was committed.
        """
        found = self._found(name)
        topic = topic_of_table(self.prefix, found)
        return self._read(found, self._app.stream(topic, schema=self._format(schema), **how))

    @property
    def topics(self) -> set[str]:
        return {each.topic for _, each in self._inputs}

    def check(self, source: Source) -> None:
        """That every table is there that the app reads, else its topic would stay empty without a word; that it has
        the columns, and that its times are of the unit that is declared.
        """
        there = {topic_of_table(self.prefix, table): table for table in source.tables()}
        for table, declared in self._inputs:
            found = there.get(declared.topic)
            if found is None:
                raise TableMissing(str(table), source.database, [str(each) for each in there.values()])
            selected = self.selection.of(source.table(found))
            check_columns(str(declared), declared.columns, selected)
            check_time_units(str(declared), declared.columns, selected)

    def see(self, table: SourceTable) -> None:
        """A table is another one from here on: warn of columns that the app reads and that it does not have."""
        topic = topic_of_table(self.prefix, table.id)
        for _, declared in self._inputs:
            if declared.topic == topic:
                self._warnings.see(str(declared), declared.columns, self.selection.of(table))

    @property
    def address(self) -> str:
        """For people."""
        return shown(self.url)

    def __repr__(self) -> str:
        return f"{self.where} of {self.address}"

    def _found(self, name: str) -> TableId:
        schema, _, table = name.rpartition(".")
        found = TableId(schema or self._schema(), table)
        if not self.selection.has(found):
            hint = f"name it in tables=[...], which has {', '.join(self.selection.tables)}"
            raise InvalidDeclaration(self.where, "table", f"{name!r} is none that it captures", hint=hint)
        return found

    def _read(self, table: TableId, declared: Input) -> Input:
        self._inputs.append((table, declared))
        return declared

    def _schema(self) -> str:
        if self._scheme in OF_DATABASE:
            return urlsplit(self.url).path.strip("/")
        return SCHEMAS.get(self._scheme, SCHEMAS[SQLITE])

    @property
    def _scheme(self) -> str:
        return self.url.partition(":")[0]

    def _format(self, schema: object) -> object:
        """As the captures write values: SQLite's as they are, the others' as Debezium does."""
        if not isinstance(schema, str):
            return schema
        if self._scheme in OF_DATABASE:
            return Debezium(schema, time_unit="ms")
        is_plain = self._scheme not in SCHEMAS or self._scheme == SQLITE
        return Debezium(schema, decimals="string" if is_plain else "precise")
