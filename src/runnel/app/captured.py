"""A database that an app captures while it runs, and its tables as inputs of the app.

    shop = app.capture("shop", "postgresql://runnel@db.example.org/shop", tables=["customers", "orders"])
    customers = shop.table("customers", key="id", schema="id long, name string, born date")

Declaring starts nothing: the database is looked for when the app runs. No text of it has the address's password.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from runnel.app.declared_columns import ColumnWarnings, check_columns
from runnel.app.time_units import check_time_units
from runnel.capture.conditions import parse
from runnel.capture.errors import InvalidCondition, TableMissing
from runnel.capture.opening import kind_of
from runnel.capture.options import Options
from runnel.capture.outbox import Router
from runnel.capture.outgoing import topic_of_table
from runnel.capture.selection import (
    Hashed,
    Hiding,
    RowFilter,
    Selection,
    column_expression,
    masked,
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
MILLISECONDS = "connect"  # the way to write times in which all are
MAPPED = {
    "hash": '{"customers.email": "pepper"}, columns with their salts',
    "where": '{"customers": "id > 10"}, conditions or functions of a row by table',
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


def check_given(where: str, url: object, *, lists: Mapping[str, object], mappings: Mapping[str, object]) -> None:
    """A text is a sequence to Python: each of its letters would be a name."""
    if not isinstance(url, str) or not url:
        hint = "give an address such as sqlite:shop.sqlite or postgresql://USER@HOST/DATABASE"
        raise InvalidDeclaration(where, "url", f"is {type(url).__name__} and no address", hint=hint)
    for argument, given in lists.items():
        if isinstance(given, str):
            hint = f"give a list: {argument}=[{given!r}]"
            raise InvalidDeclaration(where, argument, f"is the text {given!r} and no list", hint=hint)
    for argument, given in mappings.items():
        if given is not None and not isinstance(given, Mapping):
            what = f"is a {type(given).__name__} and no mapping"
            raise InvalidDeclaration(where, argument, what, hint=f"write {argument}={MAPPED[argument]}")


def selection_of(
    lists: Mapping[str, Iterable[str]],
    hash: Mapping[str, str],
    rows: Mapping[str, RowFilter],
    key: Mapping[str, str | Sequence[str]],
) -> Selection:
    """Tables by name or by an expression for `schema.table`; columns as TABLE.COLUMN, or with the schema before."""
    hidden: dict[str, Hiding] = dict(map(masked, lists["mask"]))
    hidden |= {column_expression(each): Hashed(salt) for each, salt in hash.items()}
    return Selection(
        tables=[table_expression(each) for each in lists["tables"]],
        without_tables=[table_expression(each) for each in lists["without_tables"]],
        columns=[column_expression(each) for each in lists["columns"]],
        without_columns=[column_expression(each) for each in lists["without_columns"]],
        hidden=hidden,
        keys={
            table_expression(each): [names] if isinstance(names, str) else list(names) for each, names in key.items()
        },
        rows={table_expression(each): TellingFilter(each, passes) for each, passes in rows.items()},
    )


def row_filters(where: str, given: Mapping[str, str | RowFilter]) -> dict[str, RowFilter]:
    """By table: a condition as `runnel capture run --where` has them, or a function."""
    return {table: _row_filter(where, table, passes) for table, passes in given.items()}


def _row_filter(where: str, table: str, given: object) -> RowFilter:
    if isinstance(given, str):
        try:
            return parse(given)
        except InvalidCondition as error:
            raise InvalidDeclaration(where, "where", f"of {table}: {error.what}", hint=error.hint) from None
    if not callable(given):
        hint = f"write where={MAPPED['where']}"
        raise InvalidDeclaration(where, "where", f"of {table} is {given!r}, which says nothing of a row", hint=hint)
    return cast(RowFilter, given)


class Captured:
    """`topics` are those of its tables that the app reads."""

    def __init__(self, app: App, where: str, options: Options) -> None:
        """`where` is how an error calls it."""
        self.where = where
        self.options = options
        self.name = options.name
        self.url = options.url
        self.prefix = options.topic_prefix
        self.selection = options.selection
        self._outbox = None if options.outbox is None else Router(options.outbox)
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
            given = {"tables": self.selection.tables, "without_tables": self.selection.without_tables}
            told = " and ".join(f"{argument}=[{', '.join(each)}]" for argument, each in given.items() if each)
            hint = f"choose it, or leave it out here: the capture has {told}"
            raise InvalidDeclaration(self.where, "table", f"{name!r} is none that it captures", hint=hint)
        if self._outbox is not None and self._outbox.has(found):
            hint = f'read the topics that they are sent to: app.stream("{self._outbox.outbox.topic}", ...)'
            raise InvalidDeclaration(self.where, "table", f"{name!r} is its outbox: its rows are events", hint=hint)
        return found

    def _read(self, table: TableId, declared: Input) -> Input:
        self._inputs.append((table, declared))
        return declared

    def _schema(self) -> str:
        if kind_of(self.url) in OF_DATABASE:
            return urlsplit(self.url).path.strip("/")
        return SCHEMAS[kind_of(self.url)]

    def _format(self, schema: object) -> object:
        """As the capture writes values: SQLite's as they are, the others' as Debezium does in the ways that are asked
        for.
        """
        if not isinstance(schema, str):
            return schema
        kind, own = kind_of(self.url), self.options.own
        is_millis = kind in OF_DATABASE or own.get("times") == MILLISECONDS
        return Debezium(
            schema,
            time_unit="ms" if is_millis else "us",
            decimals=own.get("decimals", "string" if kind == SQLITE else "precise"),
            binary=self.options.binary.value,
        )
