"""A table of SQLite's as it is: its columns, its key, and all that must be unique in it.

What was found is kept with the log as JSON, because a change is told by the columns that its table had at that time.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from runnel.capture.errors import CannotCapture, TableMissing
from runnel.capture.forms import DOUBLE, INT64, STRING, Binary, binary, floating, quoted
from runnel.capture.sqlite.names import PREFIX, quoted_name, quoted_text
from runnel.capture.tables import Column, Form, Table, TableId

SCHEMA = "main"
MOST_COLUMNS = 1_990  # SQLite's limit is 2,000, and the log needs some for itself
ROWIDS = ("rowid", "_rowid_", "oid")
GENERATED = (2, 3)  # what PRAGMA table_xinfo calls hidden
NAME = re.compile(
    r"""[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]* | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\]""",
    re.ASCII | re.VERBOSE,
)
COMMENT = re.compile(
    r"""(?P<quoted>"[^"]*" | '[^']*' | `[^`]*` | \[[^\]]*\]) | --[^\n]* | /\*.*?(?:\*/|\Z)""", re.DOTALL | re.VERBOSE
)
VALUES = {  # words that are no names; to ask whether something IS TRUE is not to ask whether it is 1
    "TRUE": "1",
    "FALSE": "0",
    **{word: word for word in ("NULL", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP")},
}


@dataclass(frozen=True)
class ColumnShape:
    name: str
    type: str
    not_null: bool
    default: str | None
    is_generated: bool = False

    @property
    def default_value(self) -> str:
        """As it can stand in an expression: SQLite takes a name for text where a default is declared."""
        written = _without_comments(self.default or "NULL").strip()
        if written.upper() in VALUES:
            return VALUES[written.upper()]
        return quoted_text(_plain(written)) if NAME.fullmatch(written) else written

    @property
    def affinity(self) -> str:
        """By SQLite's own five rules, in their order."""
        kind = self.type.upper()
        if "INT" in kind:
            return "INTEGER"
        if any(each in kind for each in ("CHAR", "CLOB", "TEXT")):
            return "TEXT"
        if "BLOB" in kind or not kind or kind == "ANY":
            return "BLOB"
        return "REAL" if any(each in kind for each in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


@dataclass(frozen=True)
class Term:
    """A part of what must be unique: a column, by its place, or an expression."""

    place: int | None
    expression: str
    collation: str


@dataclass(frozen=True)
class Shape:
    """`rowid` is a name by which the row's number can be asked for, "" in a table without one."""

    table: str
    columns: tuple[ColumnShape, ...]
    key: tuple[int, ...]
    rowid: str
    unique: tuple[tuple[Term, ...], ...]

    @property
    def key_names(self) -> list[str]:
        return [self.columns[place].name for place in self.key]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Shape:
        told = json.loads(text)
        columns = tuple(ColumnShape(**each) for each in told["columns"])
        unique = tuple(tuple(Term(**term) for term in terms) for terms in told["unique"])
        return cls(told["table"], columns, tuple(told["key"]), told["rowid"], unique)

    def to_table(self, mode: Binary) -> Table:
        columns = tuple(
            Column(each.name, _form(each, mode), not self._is_filled(place), each.type)
            for place, each in enumerate(self.columns)
        )
        return Table(TableId(SCHEMA, self.table), columns, self.key)

    def _is_filled(self, place: int) -> bool:
        """A column that is never null: declared so, or the row's own number, or the key of a table without those."""
        column = self.columns[place]
        is_number = self.key == (place,) and column.type.upper() == "INTEGER" and bool(self.rowid)
        return column.not_null or is_number or (not self.rowid and place in self.key)


def tables_of(connection: sqlite3.Connection) -> list[TableId]:
    """All tables of people's, by name; those that belong to virtual tables are not theirs."""
    found = connection.execute(
        "SELECT m.name FROM sqlite_master AS m JOIN pragma_table_list AS l ON l.name = m.name AND l.schema = 'main' "
        "WHERE m.type = 'table' AND l.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.name"
    )
    return [TableId(SCHEMA, name) for (name,) in found if not name.startswith(PREFIX)]


def shape_of(connection: sqlite3.Connection, table: str) -> Shape:
    """Inside of a transaction: it is asked for bit by bit."""
    name = quoted_name(table)
    listed = connection.execute("SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", [table])
    found = listed.fetchone()
    if found is None:
        raise _missing(connection, table)
    told = connection.execute(f"PRAGMA main.table_xinfo({name})").fetchall()
    if len(told) > MOST_COLUMNS:
        hint = "split the table, or leave it out"
        raise CannotCapture(table, f"it has {len(told):,} columns, more than {MOST_COLUMNS:,}", hint=hint)
    columns = tuple(
        ColumnShape(name, kind, bool(not_null), default, hidden in GENERATED)
        for _, name, kind, not_null, default, _, hidden in told
    )
    numbered = sorted((each[5], place) for place, each in enumerate(told) if each[5])
    (without_rowid,) = found
    rowid = "" if without_rowid else _rowid(table, columns)
    unique = tuple(_unique(connection, table, columns))
    return Shape(table, columns, tuple(place for _, place in numbered), rowid, unique)


def _plain(name: str) -> str:
    """Without its quotes."""
    quote = name[0]
    if quote == "[":
        return name[1:-1]
    return name[1:-1].replace(quote * 2, quote) if quote in '"`' else name


def _missing(connection: sqlite3.Connection, table: str) -> TableMissing:
    (path,) = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
    return TableMissing(str(TableId(SCHEMA, table)), path, [str(each) for each in tables_of(connection)])


def _rowid(table: str, columns: tuple[ColumnShape, ...]) -> str:
    taken = {column.name.lower() for column in columns}
    for name in ROWIDS:
        if name not in taken:
            return name
    hint = f"rename one of its columns {', '.join(ROWIDS)}"
    raise CannotCapture(table, "its columns hide the number of a row", hint=hint)


def _unique(connection: sqlite3.Connection, table: str, columns: tuple[ColumnShape, ...]) -> Iterator[tuple[Term, ...]]:
    places = {column.name: place for place, column in enumerate(columns)}
    indexes = connection.execute('SELECT name FROM pragma_index_list(?) WHERE "unique"', [table]).fetchall()
    for (index,) in sorted(indexes):
        parts = connection.execute("SELECT cid, name, coll FROM pragma_index_xinfo(?) WHERE key", [index]).fetchall()
        written = _expressions(connection, index) if any(cid < -1 for cid, _, _ in parts) else [""] * len(parts)
        yield tuple(
            Term(places[name] if cid >= 0 else None, "" if cid >= 0 else text, collation)
            for (cid, name, collation), text in zip(parts, written, strict=True)
        )


def _expressions(connection: sqlite3.Connection, index: str) -> list[str]:
    """The terms of an index as they were written, without what follows their expression."""
    (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?", [index]).fetchone()
    return [_without_order(term) for term in _terms(_without_comments(text))]


def _without_comments(text: str) -> str:
    """SQLite keeps a statement as it was written. In a trigger a comment would hide what comes behind it."""
    return COMMENT.sub(lambda found: found["quoted"] or " ", text)


def _terms(text: str) -> Iterator[str]:
    """What stands between the first parentheses, cut at the commas that are in no others and in no quotes."""
    depth, start, place = 0, 0, 0
    while place < len(text):
        each = text[place]
        if each in "\"'`[":
            place = text.index("]" if each == "[" else each, place + 1)
        elif each == "(":
            depth += 1
            start = place + 1 if depth == 1 else start
        elif each == ")":
            depth -= 1
            if not depth:
                yield text[start:place]
                return
        elif each == "," and depth == 1:
            yield text[start:place]
            start = place + 1
        place += 1


def _without_order(term: str) -> str:
    words = term.split()
    if words and words[-1].upper() in ("ASC", "DESC"):
        term = term.rstrip()[: -len(words[-1])]
        words.pop()
    if len(words) > 2 and words[-2].upper() == "COLLATE":
        term = term[: term.upper().rindex("COLLATE")]
    return term.strip()


# --- values in JSON


def _form(column: ColumnShape, mode: Binary) -> Form:
    """Any column can hold any value: each is written as what it is, and the schema says what is to be expected."""
    blob = binary(mode)
    writers: dict[type, Any] = {int: str, float: floating, str: quoted, bytes: blob.write}
    expected = {"INTEGER": INT64, "REAL": DOUBLE, "TEXT": STRING, "BLOB": blob, "NUMERIC": _number(column)}
    return expected[column.affinity]._replace(write=lambda value: writers[type(value)](value))


def _number(column: ColumnShape) -> Form:
    """What SQLite calls NUMERIC are dates and times, too, which people keep as text."""
    kind = column.type.upper()
    if "DATE" in kind or "TIME" in kind:
        return STRING
    return INT64 if "BOOL" in kind else DOUBLE
