"""What PostgreSQL's plugin pgoutput writes of its log: bytes into messages, and nothing else.

It reads protocol versions 1 to 4 without streaming and without two phases, as `replication` asks for them: transactions
come whole, in the order of their commits, and all versions write them alike. The format is in PostgreSQL's manual,
chapter "Logical Replication Message Formats". A value is its text, None, or UNCHANGED.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from runnel.capture.tables import UNCHANGED, Row
from runnel.errors import Permanent

EPOCH: Final = 946_684_800_000_000  # PostgreSQL counts microseconds from the year 2000, we from 1970

_BEGIN: Final = Struct(">QqI").unpack_from
_COMMIT: Final = Struct(">QQq").unpack_from
_UNSIGNED: Final = Struct(">I").unpack_from
_LONG: Final = Struct(">Q").unpack_from
_SHORT: Final = Struct(">H").unpack_from
_TRUNCATE: Final = Struct(">IB").unpack_from
_COLUMN: Final = Struct(">Ii").unpack_from

_NULL, _UNCHANGED, _TEXT = b"nut"
_OLD_ROW, _OLD_KEY, _NEW = b"OKN"
_KEY_COLUMN = 1
_TRANSACTIONAL = 1


class UnreadableMessage(Permanent):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the server sent a message of its log that cannot be read: {reason}",
            hint="a newer version of Runnel may know it; nothing was confirmed to the server",
        )
        self.reason = reason


class Begin(NamedTuple):
    commit_lsn: int
    micros: int
    transaction: int


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int
    micros: int


class RelationColumn(NamedTuple):
    name: str
    type: int
    modifier: int
    is_key: bool


class Relation(NamedTuple):
    """A table as it was when the changes after this message were made. `identity` is d, n, f or i."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class TypeName(NamedTuple):
    oid: int
    schema: str
    name: str


class Origin(NamedTuple):
    lsn: int
    name: str


class Insert(NamedTuple):
    relation: int
    row: Row


class Update(NamedTuple):
    """`old` is the whole row, or with `is_key` a row of which only the columns of its identity are known."""

    relation: int
    old: Row | None
    is_key: bool
    row: Row


class Delete(NamedTuple):
    relation: int
    old: Row
    is_key: bool


class Truncate(NamedTuple):
    relations: tuple[int, ...]


class Emitted(NamedTuple):
    """What pg_logical_emit_message wrote."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Decoded: TypeAlias = Begin | Commit | Relation | TypeName | Origin | Insert | Update | Delete | Truncate | Emitted


def decode(data: bytes, start: int = 0) -> Decoded:
    """The message that begins at `start` and ends with the data."""
    try:
        return _READERS[data[start]](data, start + 1)
    except KeyError:
        raise UnreadableMessage(f"its kind is {chr(data[start])!r}") from None
    except (IndexError, ValueError, struct.error) as error:
        raise UnreadableMessage(f"{data[start : start + 40]!r}: {error}") from error


def _begin(data: bytes, at: int) -> Begin:
    commit_lsn, micros, transaction = _BEGIN(data, at)
    return Begin(commit_lsn, micros + EPOCH, transaction)


def _commit(data: bytes, at: int) -> Commit:
    commit_lsn, end_lsn, micros = _COMMIT(data, at + 1)
    return Commit(commit_lsn, end_lsn, micros + EPOCH)


def _relation(data: bytes, at: int) -> Relation:
    (oid,) = _UNSIGNED(data, at)
    schema, at = _text(data, at + 4)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _SHORT(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, modifier = _COLUMN(data, at)
        columns.append(RelationColumn(column, type_oid, modifier, bool(flags & _KEY_COLUMN)))
        at += 8
    # pg_catalog is sent as an empty name
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _type_name(data: bytes, at: int) -> TypeName:
    (oid,) = _UNSIGNED(data, at)
    schema, at = _text(data, at + 4)
    return TypeName(oid, schema or "pg_catalog", _text(data, at)[0])


def _origin(data: bytes, at: int) -> Origin:
    return Origin(_LONG(data, at)[0], _text(data, at + 8)[0])


def _insert(data: bytes, at: int) -> Insert:
    _expect(data, at + 4, _NEW)
    return Insert(_UNSIGNED(data, at)[0], _row(data, at + 5)[0])


def _update(data: bytes, at: int) -> Update:
    (relation,) = _UNSIGNED(data, at)
    kind = data[at + 4]
    if kind == _NEW:
        return Update(relation, None, False, _row(data, at + 5)[0])
    _expect(data, at + 4, _OLD_ROW, _OLD_KEY)
    old, at = _row(data, at + 5)
    _expect(data, at, _NEW)
    return Update(relation, old, kind == _OLD_KEY, _row(data, at + 1)[0])


def _delete(data: bytes, at: int) -> Delete:
    _expect(data, at + 4, _OLD_ROW, _OLD_KEY)
    return Delete(_UNSIGNED(data, at)[0], _row(data, at + 5)[0], data[at + 4] == _OLD_KEY)


def _truncate(data: bytes, at: int) -> Truncate:
    count, _ = _TRUNCATE(data, at)
    return Truncate(tuple(_UNSIGNED(data, at + 5 + 4 * place)[0] for place in range(count)))


def _emitted(data: bytes, at: int) -> Emitted:
    (lsn,) = _LONG(data, at + 1)
    prefix, begin = _text(data, at + 9)
    (length,) = _UNSIGNED(data, begin)
    content = data[begin + 4 : begin + 4 + length]
    if len(content) != length:
        raise ValueError("it is cut off")
    return Emitted(bool(data[at] & _TRANSACTIONAL), lsn, prefix, content)


def _row(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = _SHORT(data, at)
    at += 2
    values: list[object] = []
    append = values.append
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            begin = at + 5
            at = begin + _UNSIGNED(data, at + 1)[0]
            append(data[begin:at].decode())
        elif kind == _NULL:
            append(None)
            at += 1
        elif kind == _UNCHANGED:
            append(UNCHANGED)
            at += 1
        else:
            raise ValueError(f"a value of the kind {chr(kind)!r}")
    if at > len(data):
        raise ValueError("it is cut off")
    return tuple(values), at


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _expect(data: bytes, at: int, *kinds: int) -> None:
    if data[at] not in kinds:
        raise ValueError(f"a row of the kind {chr(data[at])!r}")


_READERS: Final[dict[int, Callable[[bytes, int], Decoded]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("Y"): _type_name,
    ord("O"): _origin,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _emitted,
}
