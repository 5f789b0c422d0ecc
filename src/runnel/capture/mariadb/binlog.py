"""The binary log's events, from bytes to values. No I/O.

    header  time u32, kind u8, server u32, length u32, end u32, flags u16
    body    by kind; the checksum behind it is taken off before

What a table looked like is told before its rows (see `table_maps`). Rows are decoded by that, never by what the catalog
says now.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from runnel.capture.mariadb.gtids import Gtid
from runnel.capture.mariadb.reading import Reading

HEADER: Final = 19
IGNORABLE: Final = 0x80
ARTIFICIAL: Final = 0x20
STANDALONE, GROUP_ID, PREPARED, COMPLETED = 0x01, 0x02, 0x40, 0x80  # flags of a transaction's beginning
START_ALTER, ROLLBACK_ALTER = 0x02, 0x08  # further flags of it, of servers from 10.8 on
NO_TABLE: Final = 0xFFFFFF


class Event(IntEnum):
    QUERY = 2
    ROTATE = 4
    XID = 16
    LOAD = 18
    TABLE_MAP = 19
    INCIDENT = 26
    HEARTBEAT = 27
    XA_PREPARE = 38
    GTID = 162
    QUERY_COMPRESSED = 165


WRITES: Final = frozenset({23, 30, 166, 169})
UPDATES: Final = frozenset({24, 31, 167, 170})
DELETES: Final = frozenset({25, 32, 168, 171})
ROWS: Final = WRITES | UPDATES | DELETES
WITH_EXTRA: Final = frozenset({30, 31, 32, 169, 170, 171})
COMPRESSED: Final = frozenset({166, 167, 168, 169, 170, 171})
STATEMENTS: Final = frozenset({Event.QUERY, Event.QUERY_COMPRESSED, Event.LOAD})
# Nothing in them is for us: the end of a file, what a statement loads, numbers and variables of statements, formats,
# checkpoints, keys.
PASSED: Final = frozenset({3, 5, 9, 11, 13, 14, 15, 17, 28, 29, 160, 161, 163, 164})
# Of a statement: the catalog's name, the client's letters; and the lengths of flags, modes, and steps of numbers.
CATALOG: Final = 6
CLIENT: Final = 4
VARIABLES: Final = {0: 4, 1: 8, 3: 4}
OF_FILE: Final = 13  # bytes of a statement that loads a file: the file's number, and where its name stands

_HEADER: Final = Struct("<IBIIIH").unpack_from


class Header(NamedTuple):
    seconds: int
    kind: int
    server: int
    length: int
    end: int  # the place behind it in its file, without what is above 4 GiB
    flags: int


def header_of(data: bytes) -> Header:
    return Header(*_HEADER(data))


# --- transactions


class Beginning(NamedTuple):
    gtid: Gtid
    flags: int
    transaction: bytes | None  # the name of an XA transaction
    takes_effect: bool = True  # not so an ALTER in two phases as it begins, or is rolled back


def beginning_of(data: bytes, server: int) -> Beginning:
    reading = Reading(data, HEADER)
    number, domain, flags = reading.number(8), reading.number(4), reading.number(1)
    name = None
    if flags & GROUP_ID:
        reading.take(8)
    if flags & (PREPARED | COMPLETED):
        form, first, second = reading.number(4), reading.number(1), reading.number(1)
        name = xa_name(form, first, reading.take(first + second))
    extra = 0 if reading.is_over else reading.number(1)
    return Beginning(Gtid(domain, server, number), flags, name, not extra & (START_ALTER | ROLLBACK_ALTER))


class Prepare(NamedTuple):
    is_commit: bool  # at once, in one phase
    transaction: bytes


def prepare_of(data: bytes) -> Prepare:
    reading = Reading(data, HEADER)
    is_commit = bool(reading.number(1))
    form, first, second = (reading.number(4) for _ in range(3))
    return Prepare(is_commit, xa_name(form, first, reading.take(first + second)))


def xa_name(form: int, first: int, parts: bytes) -> bytes:
    return b"%d:%d:" % (form, first) + parts


def shown_name(name: bytes) -> str:
    """As it stands behind XA COMMIT."""
    form, first, parts = name.split(b":", 2)
    return f"x'{parts[: int(first)].hex()}',x'{parts[int(first) :].hex()}',{int(form)}"


class Query(NamedTuple):
    schema: str
    data: bytes  # the statement, in the letters of who sent it
    collation: int | None  # which tells those letters

    @property
    def text(self) -> str:
        """With U+FFFD for what is in other letters. The server's own statements are all in these."""
        return self.data.decode("utf-8", "replace")


def query_of(data: bytes, kind: int) -> Query:
    reading = Reading(data, HEADER + 8)
    schema, _, variables = reading.number(1), reading.number(2), reading.number(2)
    if kind == Event.LOAD:
        reading.take(OF_FILE)
    collation = _client_of(Reading(reading.take(variables)))
    name = reading.take(schema + 1)[:-1]
    statement = inflated(reading.rest()) if kind == Event.QUERY_COMPRESSED else reading.rest()
    return Query(name.decode("utf-8", "replace"), statement, collation)


def _client_of(variables: Reading) -> int | None:
    """Its collation is among the variables of a statement, behind few others, which have these lengths."""
    while not variables.is_over:
        kind = variables.number(1)
        if kind == CLIENT:
            return variables.number(2)
        if kind == CATALOG:
            variables.take(variables.number(1))
        elif kind in VARIABLES:
            variables.take(VARIABLES[kind])
        else:
            break
    return None


def rotated_to(data: bytes) -> tuple[str, int]:
    reading = Reading(data, HEADER)
    place = reading.number(8)
    return reading.rest().decode(), place


def incident_of(data: bytes) -> str:
    """Why changes are missing in the log, by the server's own words."""
    reading = Reading(data, HEADER + 2)
    return reading.take(reading.number(1)).decode("utf-8", "replace")


def beat_of(data: bytes) -> str:
    """The file at whose end the server waits."""
    return data[HEADER:].decode("utf-8", "replace")


def inflated(data: bytes) -> bytes:
    """The first byte's lowest bits say how many bytes tell the length, which we do not need."""
    return zlib.decompress(data[1 + (data[0] & 0x07) :])


# --- rows


def table_number(data: bytes) -> int:
    return int.from_bytes(data[HEADER : HEADER + 6], "little")


class Rows(NamedTuple):
    """`before` and `after` are the places of the columns that the rows have; the rows begin at `at` of `data`."""

    before: tuple[int, ...] | None
    after: tuple[int, ...] | None
    data: bytes
    at: int


def rows_of(data: bytes, kind: int) -> Rows:
    reading = Reading(data, HEADER + 8)
    if kind in WITH_EXTRA:
        reading.take(reading.number(2) - 2)
    width = reading.packed()
    present = [_places(reading.take((width + 7) // 8), width) for _ in range(2 if kind in UPDATES else 1)]
    before = None if kind in WRITES else present[0]
    after = None if kind in DELETES else present[-1]
    if kind in COMPRESSED:
        return Rows(before, after, inflated(reading.rest()), 0)
    return Rows(before, after, data, reading.at)


def _places(bits: bytes, width: int) -> tuple[int, ...]:
    found = int.from_bytes(bits, "little")
    return tuple(place for place in range(width) if found >> place & 1)
