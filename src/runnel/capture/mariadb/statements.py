"""Statements that the log has as text, because they change no rows one by one: what they do to tables.

Only as much of SQL is read as that takes: the words at the beginning, and names. Names may be quoted in any way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from runnel.capture.tables import TableId


class Doing(Enum):
    EMPTIED = "emptied"
    GONE = "gone"
    CAME = "came"  # with rows of which the log does not tell, such as from under another name
    ALTERED = "altered"  # or made: what it looks like is told when its rows are
    UNSEEN = "unseen"  # rows came or went, as with a partition, and the log does not tell which


class Effect(NamedTuple):
    doing: Doing
    table: TableId


_TOKEN: Final = re.compile(
    r"""\s+ | /\*(?!M?!).*?\*/ | /\*M?!\d* | \*/ | --(?=\s|$)[^\n]* | \#[^\n]*
    | (?P<quoted>`(?:[^`]|``)*` | "(?:[^"\\]|""|\\.)*") | (?P<text>'(?:[^'\\]|''|\\.)*')
    | (?P<word>[\w$@]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_ROWS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH"})
# What takes rows out of a table or puts them in, a partition or a file at once. Nothing else is in the same statement.
_PARTITIONS: Final = frozenset(
    {
        *((each, "PARTITION") for each in ("DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "IMPORT")),
        ("CONVERT", "TABLE"),
        ("IMPORT", "TABLESPACE"),
    }
)


class _Form(NamedTuple):
    """Of a statement that writes to one table: the words around its name. With others it may write to several."""

    modifiers: frozenset[str]
    before: str
    must_have: bool  # the word before
    behind: frozenset[str]
    may_end: bool  # with the name


_INSERT: Final = _Form(
    frozenset({"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE"}),
    "INTO",
    False,
    frozenset({"(", "VALUES", "VALUE", "SET", "SELECT", "WITH", "PARTITION"}),
    False,
)
_DELETED: Final = frozenset({"WHERE", "ORDER", "LIMIT", "RETURNING"})
_WRITING: Final = {
    "INSERT": _INSERT,
    "REPLACE": _INSERT,
    "UPDATE": _Form(frozenset({"LOW_PRIORITY", "IGNORE"}), "", False, frozenset({"SET"}), False),
    "DELETE": _Form(frozenset({"LOW_PRIORITY", "QUICK", "IGNORE"}), "FROM", True, _DELETED, True),
}


class Word(NamedTuple):
    text: str
    is_name: bool  # it was quoted: no word of the language

    @property
    def upper(self) -> str:
        return "" if self.is_name else self.text.upper()


def words_of(sql: str) -> list[Word]:
    """Words, names and signs, without comments; of a long statement only the beginning is looked at."""
    found = []
    for match in _TOKEN.finditer(sql[:100_000]):
        if match["quoted"]:
            quote = match["quoted"][0]
            found.append(Word(match["quoted"][1:-1].replace(quote * 2, quote), True))
        elif match["word"] or match["sign"]:
            found.append(Word(match["word"] or match["sign"], False))
        elif match["text"]:
            found.append(Word("''", True))
    return found


def _without_settings(words: list[Word]) -> list[Word]:
    """What is done under settings of its own: SET STATEMENT max_statement_time = 60 FOR ..., as drivers ask for it."""
    while [word.upper for word in words[:2]] == ["SET", "STATEMENT"]:
        depth = 0
        for place, word in enumerate(words):
            depth += (word.upper == "(") - (word.upper == ")")
            if word.upper == "FOR" and not depth:
                words = words[place + 1 :]
                break
        else:
            return []
    return words


def changes_rows(sql: str) -> bool:
    """Whether a statement changes rows which the log does not have."""
    words = _without_settings(words_of(sql))
    return bool(words) and words[0].upper in _ROWS


def calls_function(sql: str) -> bool:
    """Whether a statement calls a function that writes: of no other SELECT does the log tell."""
    return [word.upper for word in _without_settings(words_of(sql))[:1]] == ["SELECT"]


def filled_by(sql: str, schema: str) -> TableId | None:
    """The table that a statement makes with rows which the log does not have: of those that it has, the server writes
    the CREATE without its SELECT.
    """
    reading = _Reading(_without_settings(words_of(sql)), schema)
    made = list(_created(reading)) if reading.next() == "CREATE" else []
    return made[-1].table if made and "SELECT" in reading.rest() else None


def begins_history(sql: str) -> bool:
    """Whether a statement lets a table keep its former rows: from there on the log has those as new ones."""
    words = [word.upper for word in words_of(sql)]
    return any(
        words[at : at + 2] == ["SYSTEM", "VERSIONING"] and words[at - 1] in ("ADD", "WITH")
        for at in range(1, len(words))
    )


def mentions(sql: str, name: str) -> bool:
    return any(word.text.lower() == name.lower() for word in words_of(sql))


def written_by(sql: str, schema: str) -> TableId | None:
    """The one table whose rows a statement changes, whatever others it reads. None where that is not sure: several
    tables, a way to write it that is not known here, words that only some servers read, letters that are not.
    """
    reading = _Reading(words_of(sql), schema)
    form = _WRITING.get(reading.next())
    if form is None or "/*!" in sql or "/*M!" in sql:
        return None
    while reading.peek() in form.modifiers:
        reading.next()
    if form.before and not reading.skip(form.before) and form.must_have:
        return None
    table = reading.name() if reading.is_at_name else None
    is_sure = reading.peek() in form.behind or (reading.is_over and form.may_end)
    return table if is_sure and table is not None and "\ufffd" not in f"{table.schema}{table.name}" else None


def effects_of(sql: str, schema: str) -> list[Effect]:
    """`schema` is the one that names without one are in. A whole schema that is gone has a table without a name."""
    reading = _Reading(_without_settings(words_of(sql)), schema)
    match reading.next():
        case "TRUNCATE":
            reading.skip("TABLE")
            return [Effect(Doing.EMPTIED, reading.name())]
        case "DROP":
            return list(_dropped(reading))
        case "RENAME":
            return list(_renamed(reading))
        case "ALTER":
            return list(_altered(reading))
        case "CREATE":
            return list(_created(reading))
    return []


class _Reading:
    def __init__(self, words: list[Word], schema: str) -> None:
        self._words = words
        self._schema = schema
        self.at = 0

    def peek(self) -> str:
        return self._words[self.at].upper if self.at < len(self._words) else ""

    def next(self) -> str:
        found = self.peek()
        self.at += 1
        return found

    def skip(self, *words: str) -> bool:
        """These words, if they are next, all of them."""
        following = [word.upper for word in self._words[self.at : self.at + len(words)]]
        if following != list(words):
            return False
        self.at += len(words)
        return True

    @property
    def is_at_name(self) -> bool:
        """A word that may be a name, as signs are not."""
        word = Word("", False) if self.is_over else self._words[self.at]
        return word.is_name or word.text[:1].isalnum() or word.text[:1] in ("_", "$")

    def name(self) -> TableId:
        first = self._text()
        if self.peek() == ".":
            self.at += 1
            return TableId(first, self._text())
        return TableId(self._schema, first)

    def _text(self) -> str:
        found = self._words[self.at].text if self.at < len(self._words) else ""
        self.at += 1
        return found

    @property
    def is_over(self) -> bool:
        return self.at >= len(self._words)

    def rest(self) -> list[str]:
        return [word.upper for word in self._words[self.at :]]


def _dropped(reading: _Reading) -> Iterator[Effect]:
    if reading.skip("DATABASE") or reading.skip("SCHEMA"):
        reading.skip("IF", "EXISTS")
        yield Effect(Doing.GONE, TableId(reading.name().name, ""))
        return
    if not reading.skip("TABLE"):
        return
    reading.skip("IF", "EXISTS")
    yield Effect(Doing.GONE, reading.name())
    while reading.skip(","):
        yield Effect(Doing.GONE, reading.name())


def _renamed(reading: _Reading) -> Iterator[Effect]:
    if not (reading.skip("TABLE") or reading.skip("TABLES")):
        return
    reading.skip("IF", "EXISTS")
    while True:
        old = reading.name()
        if reading.skip("WAIT"):
            reading.next()
        reading.skip("NOWAIT")
        if not reading.skip("TO"):
            return
        yield Effect(Doing.GONE, old)
        yield Effect(Doing.CAME, reading.name())
        if not reading.skip(","):
            return


def _altered(reading: _Reading) -> Iterator[Effect]:
    is_ignoring = False  # then rows go that do not fit
    while reading.peek() in ("ONLINE", "IGNORE"):
        is_ignoring = reading.next() == "IGNORE" or is_ignoring
    if not reading.skip("TABLE"):
        return
    reading.skip("IF", "EXISTS")
    table = reading.name()
    if any(pair in _PARTITIONS for pair in pairwise(reading.rest())):
        yield Effect(Doing.UNSEEN, table)
        yield from _beside(reading)
        return
    new = _new_name(reading)
    if new is not None:
        yield Effect(Doing.GONE, table)
        yield Effect(Doing.CAME, new)
    else:
        yield Effect(Doing.UNSEEN if is_ignoring else Doing.ALTERED, table)


def _beside(reading: _Reading) -> Iterator[Effect]:
    """The other table, with which a partition is exchanged, or which becomes one, or was one."""
    while not reading.is_over:
        if reading.skip("WITH", "TABLE"):
            yield Effect(Doing.UNSEEN, reading.name())
        elif reading.skip("CONVERT", "TABLE"):
            yield Effect(Doing.GONE, reading.name())
        elif reading.skip("TO", "TABLE"):
            yield Effect(Doing.CAME, reading.name())
        else:
            reading.next()


def _new_name(reading: _Reading) -> TableId | None:
    """Of ALTER TABLE ... RENAME TO; columns and indexes are renamed by other words."""
    depth = 0
    while not reading.is_over:
        word = reading.next()
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
        elif word == "RENAME" and not depth and reading.peek() not in ("COLUMN", "INDEX", "KEY"):
            for each in ("TO", "AS", "="):
                reading.skip(each)
            return reading.name()
    return None


def _created(reading: _Reading) -> Iterator[Effect]:
    is_replaced = reading.skip("OR", "REPLACE")
    if not reading.skip("TABLE"):
        return
    reading.skip("IF", "NOT", "EXISTS")
    table = reading.name()
    if is_replaced:
        yield Effect(Doing.GONE, table)
    yield Effect(Doing.ALTERED, table)
