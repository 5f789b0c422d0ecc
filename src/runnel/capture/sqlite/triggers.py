"""The triggers of a captured table. Their SQL runs in the writers' SQLite, whatever its age: it is plain, and calls no
function but `julianday`.

A row's image is kept as its values are, in columns without a type: nothing is converted, and nothing grows.

REPLACE deletes rows without a word, unless the writer has set `recursive_triggers`. So the rows that a new one is in
conflict with are noted before it comes. When it is there, those of them that are not any more were replaced, and are
told as deleted. A delete that is told by its own trigger, and an update, take the note away: a note is always of a row
as it is. What an ignored insert leaves behind is wiped off when the log is trimmed.

A trigger of somebody else's may change the row again before ours is called. So the row is logged as it is found in its
table, and not as it was to be: the last thing that is told of a key is how it is.

No statement here can be in conflict with anything, because a writer's OR FAIL or OR ROLLBACK holds inside of its
triggers, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from runnel.capture.sqlite.names import Names, quoted_name
from runnel.capture.sqlite.shapes import Shape, Term

CALL = re.compile(r"""^ (?:[^'] | '[^']*')* [(]""", re.VERBOSE)  # a parenthesis that is not in a text


class Entry(IntEnum):
    """What a line of the log is."""

    BEGIN = 0  # the log's own first one
    CREATE = 1
    BEFORE = 2  # of an update; `AFTER` follows, unless the row is gone by then
    AFTER = 3
    DELETE = 4
    AS_IT_IS = 5  # a row that may have changed unseen, as when its table got a column
    EMPTIED = 6  # what was told of the table's rows does not hold any more
    GONE = 7  # the table is not there any more
    MADE = 8  # it is, with these columns, whether it has rows or not


def log_columns(count: int) -> str:
    return ", ".join(["shape", "op", "time", *(f"c{place}" for place in range(count))])


class Triggers:
    def __init__(self, names: Names, number: int, shape: Shape) -> None:
        self._names = names
        self._number = number
        self._shape = shape
        self._table = quoted_name(shape.table)
        self._noted = names.noted(number)
        self._columns = [quoted_name(column.name) for column in shape.columns]
        self._has_expressions = any(term.place is None for terms in shape.unique for term in terms)

    def create(self) -> Iterator[str]:
        yield from self._create_noted()
        on = f"ON {self._table} FOR EACH ROW"
        before_insert = "\n".join(self._note(terms) for terms in self._constraints())
        yield self._trigger("insert_before", f"BEFORE INSERT {on}", before_insert)
        yield self._trigger("insert", f"AFTER INSERT {on}", f"{self._replaced()}\n{self._log_row(Entry.CREATE)}")
        own = f" AND NOT ({self._same('o', 'OLD')})"
        before_update = "\n".join(self._note(terms, own) for terms in self._constraints())
        yield self._trigger("update_before", f"BEFORE UPDATE {on} WHEN {self._is_moved()}", before_update)
        yield self._trigger("update", f"AFTER UPDATE {on}", "\n".join(self._update()))
        yield self._trigger("delete", f"AFTER DELETE {on}", "\n".join(self._delete()))

    def drop(self) -> Iterator[str]:
        for what in ("insert_before", "insert", "update_before", "update", "delete"):
            yield f"DROP TRIGGER IF EXISTS {self._names.trigger(self._number, what)}"
        yield f"DROP TABLE IF EXISTS {self._noted}"

    @property
    def names(self) -> list[str]:
        """As they stand in sqlite_master."""
        whats = ("insert_before", "insert", "update_before", "update", "delete")
        return [f"{self._names.prefix}{self._number}_{what}" for what in whats]

    def log_all(self, entry: Entry, where: str = "1") -> str:
        """Log the rows that are there."""
        return f"{self._insert()} SELECT {self._values(entry, 'o')} FROM {self._table} AS o WHERE {where}"

    def log_mark(self, entry: Entry) -> str:
        return (
            f"INSERT INTO {self._names.log} ({log_columns(0)}) VALUES ({self._number}, {int(entry)}, julianday('now'))"
        )

    # --- the bodies

    def _update(self) -> Iterator[str]:
        yield f"DELETE FROM {self._noted} WHERE {self._same_noted('OLD')};"
        yield self._replaced()
        yield f"{self._insert()} VALUES ({self._values(Entry.BEFORE, 'OLD')});"
        yield self._log_row(Entry.AFTER)

    def _delete(self) -> Iterator[str]:
        yield f"DELETE FROM {self._noted} WHERE {self._same_noted('OLD')};"
        yield f"{self._insert()} VALUES ({self._values(Entry.DELETE, 'OLD')});"
        # One that came in its place before we were called was told of already, and would be taken for deleted.
        key = self._same_key() or self._same("o", "OLD")
        yield f"{self.log_all(Entry.CREATE, key)};"

    def _replaced(self) -> str:
        """Tell of those that were noted and are not there any more; NEW is."""
        is_other = f"{self._same('o', 'n')} AND NOT ({self._same('o', 'NEW')})"
        is_gone = f"NOT EXISTS (SELECT 1 FROM {self._table} AS o WHERE {is_other})"
        conflict = " OR ".join(f"({self._conflict_of_noted(terms)})" for terms in self._constraints())
        columns = ", ".join(f"n.c{place}" for place in range(len(self._columns)))
        told = f"{self._number}, {int(Entry.DELETE)}, julianday('now'), {columns}"
        found = f"{self._noted} AS n WHERE ({conflict}) AND {is_gone}"
        return (
            f"{self._insert()} SELECT {told} FROM {found};\n"
            f"DELETE FROM {self._noted} WHERE rowid IN (SELECT n.rowid FROM {found});"
        )

    def _log_row(self, entry: Entry) -> str:
        return f"{self.log_all(entry, self._same('o', 'NEW'))};"

    def _note(self, terms: tuple[Term, ...] | None, also: str = "") -> str:
        is_noted = f"EXISTS (SELECT 1 FROM {self._noted} AS n WHERE {self._same('n', 'o')})"
        columns = ", ".join(f"c{place}" for place in range(len(self._columns)))
        values = ", ".join(f"o.{column}" for column in self._columns)
        if self._shape.rowid:
            columns, values = f"r, {columns}", f"o.{self._shape.rowid}, {values}"
        condition = f"{self._conflict(terms)}{also} AND NOT {is_noted}"
        return f"INSERT INTO {self._noted} ({columns}) SELECT {values} FROM {self._table} AS o WHERE {condition};"

    def _create_noted(self) -> Iterator[str]:
        columns = [f"c{place} {column.affinity}" for place, column in enumerate(self._shape.columns)]
        if self._shape.rowid:
            columns.insert(0, "r INTEGER")
        yield f"CREATE TABLE {self._noted} ({', '.join(columns)})"
        wanted = [", ".join(f"c{term.place} COLLATE {quoted_name(term.collation)}" for term in terms)
                  for terms in self._shape.unique if all(term.place is not None for term in terms)]  # fmt: skip
        if self._shape.rowid:
            wanted.append("r")
        for number, each in enumerate(wanted):
            yield f"CREATE INDEX {self._names.noted_index(self._number, number)} ON {self._noted} ({each})"

    # --- conditions

    def _constraints(self) -> list[tuple[Term, ...] | None]:
        """What rows can be in conflict by; None is the row's number."""
        return [*([None] if self._shape.rowid else []), *self._shape.unique]

    def _conflict(self, terms: tuple[Term, ...] | None) -> str:
        """Of a row `o` of the table with NEW. That an index is for some rows only does not matter here: one that is
        noted and stays is not told of.
        """
        if terms is None:
            return self._same("o", "NEW")
        return " AND ".join(self._equal(term, f"o.{self._column(term)}", self._of_row(term, "o")) for term in terms)

    def _conflict_of_noted(self, terms: tuple[Term, ...] | None) -> str:
        if terms is None:
            return self._same("n", "NEW")
        return " AND ".join(self._equal(term, f"n.c{term.place}", self._of_noted(term)) for term in terms)

    def _equal(self, term: Term, column: str, expression: str) -> str:
        collation = f"COLLATE {quoted_name(term.collation)}"
        if term.place is not None:
            return f"{column} {collation} = {self._new_value(term.place)}"
        return f"{expression} {collation} = {self._of_row(term, 'NEW')}"

    def _of_row(self, term: Term, row: str) -> str:
        """An index's expression for another row: its columns stand in it by their plain names."""
        values = (
            self._new_value(place) if row == "NEW" else f"{row}.{column}" for place, column in enumerate(self._columns)
        )
        columns = ", ".join(f"{value} AS {column}" for value, column in zip(values, self._columns, strict=True))
        return f"(SELECT {term.expression} FROM (SELECT {columns}) AS {self._table})"

    def _new_value(self, place: int) -> str:
        """REPLACE puts the default in the place of a null that must not be one after the triggers before are called.
        A default that calls a function is left alone: not every writer may have that.
        """
        column = self._shape.columns[place]
        value = f"NEW.{self._columns[place]}"
        if not column.not_null or column.default is None or CALL.search(column.default_value):
            return value
        return f"CASE WHEN {value} IS NULL THEN ({column.default_value}) ELSE {value} END"

    def _of_noted(self, term: Term) -> str:
        columns = ", ".join(f"n.c{place} AS {column}" for place, column in enumerate(self._columns))
        return f"(SELECT {term.expression} FROM (SELECT {columns}) AS {self._table})"

    def _same(self, one: str, other: str) -> str:
        """That two are the same row: `o` of the table, `n` noted, OLD or NEW."""
        if self._shape.rowid:
            return f"{self._number_of(one)} = {self._number_of(other)}"
        pairs = ((self._value_of(one, place), self._value_of(other, place)) for place in self._shape.key)
        return " AND ".join(f"{mine} = {yours}" for mine, yours in pairs)

    def _same_noted(self, row: str) -> str:
        """For a statement that changes the noted rows, which have no other name there."""
        if self._shape.rowid:
            return f"r = {row}.{self._shape.rowid}"
        return " AND ".join(f"c{place} = {row}.{self._columns[place]}" for place in self._shape.key)

    def _same_key(self) -> str:
        return " AND ".join(f"o.{self._columns[place]} = OLD.{self._columns[place]}" for place in self._shape.key)

    def _is_moved(self) -> str:
        """Whether anything changes that must be unique."""
        places = {term.place for terms in self._shape.unique for term in terms if term.place is not None}
        changed = [f"OLD.{self._columns[place]} IS NOT NEW.{self._columns[place]}" for place in sorted(places)]
        if self._shape.rowid:
            changed.append(f"OLD.{self._shape.rowid} IS NOT NEW.{self._shape.rowid}")
        return "1" if self._has_expressions or not changed else " OR ".join(changed)

    def _number_of(self, row: str) -> str:
        return "n.r" if row == "n" else f"{row}.{self._shape.rowid}"

    def _value_of(self, row: str, place: int) -> str:
        return f"n.c{place}" if row == "n" else f"{row}.{self._columns[place]}"

    def _column(self, term: Term) -> str:
        return "" if term.place is None else self._columns[term.place]

    # --- pieces of SQL

    def _trigger(self, what: str, when: str, body: str) -> str:
        return f"CREATE TRIGGER {self._names.trigger(self._number, what)} {when}\nBEGIN\n{body}\nEND"

    def _insert(self) -> str:
        return f"INSERT INTO {self._names.log} ({log_columns(len(self._columns))})"

    def _values(self, entry: Entry, row: str) -> str:
        values = ", ".join(f"{row}.{column}" for column in self._columns)
        return f"{self._number}, {int(entry)}, julianday('now'), {values}"
