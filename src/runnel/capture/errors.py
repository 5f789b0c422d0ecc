"""What can go wrong between a database and its topics.

Transient
├── DatabaseBusy          the database is locked by somebody else
└── DiskFull              the database has no room to write
Permanent
├── DatabaseMissing       there is no such database
├── NotADatabase          what is there is something else
├── DatabaseUnusable      it is there, and cannot be read or written
├── TableMissing          a table that is to be captured is not there
├── CannotCapture         a table is of a kind that has no changes to be seen
├── SameTopic             two tables whose names make the name of one topic
├── PositionLost          the database's log does not have the place where reading was to go on
├── OtherCapture          the topics of this name were written from another database
├── OtherDatabase         a database of the right kind that is not the one that was read
├── ChosenOtherwise       fewer tables are chosen, in the middle of a transaction
├── UnknownAddress        of no kind of database that we know
├── NothingCaptured       no capture of that name has written anything
├── InvalidName           a name that cannot be part of the names of topics
├── InvalidFilter         a condition for rows that the database does not understand, or takes too long for
├── NoKey                 a table that cannot be read by chunks, because nothing tells its rows apart
├── TooLongWithoutKey     a table that must be read at once, and takes longer than a transaction may
├── BrokenSignal          a record of the signals' topic that says nothing that we know
├── PartsLeft             a table is removed whose partitions would be captured instead
├── InvalidChoice         an expression or a column of a selection that fits nothing
├── InvalidCondition      a condition on rows that cannot be understood
├── OptionUnknown         an option that this kind of database does not have
└── ModeUnknown           a value of an option that this kind of database does not have
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.errors import Permanent, Transient

ANY_SCHEMA = r".*\."  # before a name that was given without one


class DatabaseBusy(Transient):
    def __init__(self, database: str, seconds: float) -> None:
        super().__init__(
            f"database {database} is locked: somebody else has been writing to it for {seconds:g} s",
            hint="see which program keeps a transaction open; `PRAGMA journal_mode=WAL` lets readers and a writer pass",
        )
        self.database = database


class DiskFull(Transient):
    def __init__(self, database: str) -> None:
        super().__init__(
            f"database {database} cannot grow: its disk is full",
            hint="make room on the disk, or raise the database's max_page_count if it has one",
        )
        self.database = database


class DatabaseMissing(Permanent):
    def __init__(self, database: str) -> None:
        super().__init__(f"there is no database {database}", hint="give the path of a file that is there")
        self.database = database


class NotADatabase(Permanent):
    def __init__(self, database: str, kind: str) -> None:
        super().__init__(f"{database} is no {kind} database", hint="give the path of another file")
        self.database = database


class DatabaseUnusable(Permanent):
    def __init__(self, database: str, reason: str, *, hint: str) -> None:
        super().__init__(f"database {database} {reason}", hint=hint)
        self.database = database
        self.reason = reason


class TableMissing(Permanent):
    def __init__(self, wanted: str, database: str, known: list[str]) -> None:
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        super().__init__(
            f'database {database} has no table "{_as_typed(wanted)}"',
            hint=f"it has {shown}" if known else "it has no tables: make them first",
        )
        self.wanted = wanted
        self.database = database


class CannotCapture(Permanent):
    def __init__(self, table: str, reason: str, *, hint: str) -> None:
        super().__init__(f'table "{table}" cannot be captured: {reason}', hint=hint)
        self.table = table
        self.reason = reason


class SameTopic(Permanent):
    def __init__(self, table: str, other: str, topic: str) -> None:
        super().__init__(
            f'table "{table}" cannot be captured beside "{other}": the topic of both would be {topic}',
            hint="rename one of them, or leave one out with --without-tables",
        )
        self.tables = (table, other)
        self.topic = topic


class PositionLost(Permanent):
    def __init__(self, database: str, reason: str) -> None:
        super().__init__(
            f"changes of {database} are lost: {reason}",
            hint="`runnel capture remove` forgets how far the capture was; the next run begins with a new snapshot",
        )
        self.database = database
        self.reason = reason


class OtherCapture(Permanent):
    def __init__(
        self, name: str, connector: str, found: str, *, hint: str = "give this capture a name of its own"
    ) -> None:
        super().__init__(f'capture "{name}" has read from {found} before, and this is {connector}', hint=hint)
        self.name = name


class OtherDatabase(Permanent):
    def __init__(self, name: str, database: str, reason: str) -> None:
        super().__init__(
            f'{database} is not the database that capture "{name}" reads: {reason}',
            hint="give the one that it reads; a file that was moved or copied with its change log will do. If that log "
            f"is lost, `runnel capture remove {name} {database} --force` forgets how far the capture was",
        )
        self.name = name
        self.database = database
        self.reason = reason


class ChosenOtherwise(Permanent):
    def __init__(self, name: str, tables: list[str]) -> None:
        super().__init__(
            f'capture "{name}" is in the middle of a transaction, and {", ".join(tables)} is not chosen any more:'
            " it could not tell what of it was written",
            hint="run it with the tables as they were until it is through, and choose others then",
        )
        self.tables = tables


class UnknownAddress(Permanent):
    def __init__(self, scheme: str, known: list[str]) -> None:
        super().__init__(
            f'"{scheme}" is no kind of database that can be captured',
            hint=f"expected {', '.join(f'{each}:...' for each in known)}, or the path of a file of SQLite's",
        )
        self.scheme = scheme


class NothingCaptured(Permanent):
    def __init__(self, name: str) -> None:
        super().__init__(f'there is no capture "{name}"', hint="`runnel capture run` begins one")
        self.name = name


class InvalidName(Permanent):
    def __init__(self, what: str, name: str) -> None:
        super().__init__(
            f'"{name}" cannot be the {what} of a capture',
            hint="expected letters, digits, dots, underscores and hyphens, at most 100 of them",
        )
        self.name = name


class InvalidChoice(Permanent):
    def __init__(self, what: str, given: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f'{what} "{_as_typed(given)}" cannot be used: {reason}', hint=hint)
        self.given = given


class InvalidFilter(Permanent):
    def __init__(
        self,
        table: str,
        where: str,
        reason: str,
        *,
        hint: str = "give a condition as it could stand behind WHERE in this database's SQL, such as id > 10",
    ) -> None:
        super().__init__(f'rows of "{table}" cannot be chosen by "{where}": {reason}', hint=hint)
        self.table = table
        self.where = where
        self.reason = reason


class NoKey(Permanent):
    def __init__(self, table: str) -> None:
        super().__init__(
            f'table "{table}" cannot be read by chunks: it has no primary key',
            hint="give it one, leave it out with --without-tables, or read the tables with --snapshot initial",
        )
        self.table = table


class TooLongWithoutKey(Permanent):
    """A table with a key is read by pieces, each a transaction. `--key` is of records: rows are found by their own."""

    def __init__(self, tables: list[str], seconds: float) -> None:
        super().__init__(
            f"reading {', '.join(tables)} has taken more than {seconds:g} s twice: without a primary key, and of an "
            "outbox, all rows are one transaction, and a cluster aborts one that lasts longer",
            hint="give the table a primary key, so that it is read by pieces; delete what an outbox has sent; or leave "
            "the table out with --without-tables, or, if it was added while the capture ran, with "
            f"`runnel capture tables NAME{''.join(f' --remove {each}' for each in tables)}`",
        )
        self.tables = tables
        self.seconds = seconds


class BrokenSignal(Permanent):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a signal cannot be heeded: {reason}",
            hint="`runnel capture snapshot`, `pause`, `resume`, `stop` and `tables` write signals as they must be",
        )
        self.reason = reason


class PartsLeft(Permanent):
    """What is hidden of the table would leave by its partitions: the name of a column there is another one."""

    def __init__(self, removed: Sequence[str], parts: Sequence[str]) -> None:
        shown = ", ".join(parts[:10]) + (", ..." if len(parts) > 10 else "")
        expressions = [*removed, *(part.replace(".", r"\.") for part in parts[:3])]
        options = " ".join(f"--remove '{each}'" for each in expressions) + (" ..." if len(parts) > 3 else "")
        super().__init__(
            f"{', '.join(removed)} cannot be removed alone: its partitions {shown} would be captured instead",
            hint=f"name them, too: {options}",
        )
        self.parts = parts


class InvalidCondition(Permanent):
    def __init__(self, given: str, reason: str) -> None:
        super().__init__(
            f'condition "{given}" cannot be used: {reason}',
            hint="expected one such as city = 'Graz' and (total >= 100 or paid is null)",
        )
        self.given = given


class OptionUnknown(Permanent):
    def __init__(self, kind: str, option: str, known: list[str]) -> None:
        super().__init__(
            f'a capture of {kind} has no option "{option}"',
            hint=f"it has {', '.join(known)}" if known else "leave it out",
        )
        self.option = option


class ModeUnknown(Permanent):
    def __init__(self, kind: str, option: str, given: str, known: list[str]) -> None:
        super().__init__(f'a capture of {kind} has no {option} "{given}"', hint=f"it has {', '.join(known)}")
        self.option = option
        self.given = given


def _as_typed(expression: str) -> str:
    """A name without a schema is looked for in any: who typed it did not type that."""
    return expression.removeprefix(ANY_SCHEMA)
