"""What the log tells of a table before it tells of its rows.

With binlog_row_metadata=FULL that is all a reader needs: the names of the columns, which numbers are unsigned, the
collations, the words of enums and sets, and the primary key, all as they were then. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from runnel.capture.mariadb.reading import Reading

Value = TypeVar("Value")

AT: Final = 19 + 8  # behind the event's header, the table's number and its flags


class LoggedColumn(NamedTuple):
    name: str
    type: int
    meta: int  # what follows the type, as a number; what it means is the type's
    is_nullable: bool
    is_unsigned: bool
    collation: int | None
    labels: tuple[bytes, ...]
    shape: int


SEQUENCE: Final = (
    "next_not_cached_value",
    "minimum_value",
    "maximum_value",
    "start_value",
    "increment",
    "cache_size",
    "cycle_option",
    "cycle_count",
)


class TableMap(NamedTuple):
    schema: str
    name: str
    columns: tuple[LoggedColumn, ...]
    key: tuple[int, ...]

    @property
    def is_sequence(self) -> bool:
        """By its columns, which a sequence has in any server: what the catalog says of it may be of another one."""
        return tuple(column.name for column in self.columns) == SEQUENCE


class Type(IntEnum):
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


NUMBERS: Final = frozenset(
    {Type.TINY, Type.SHORT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.LONGLONG, Type.INT24, Type.NEWDECIMAL, Type.YEAR}
)
# Those of which the log tells a collation, beside enums and sets: also of bytes, and of a place, which is bytes.
COLLATED: Final = frozenset(
    {
        Type.VARCHAR,
        Type.VAR_STRING,
        Type.STRING,
        Type.BLOB,
        Type.BLOB_COMPRESSED,
        Type.VARCHAR_COMPRESSED,
        Type.GEOMETRY,
    }
)
_META: Final[dict[int, int]] = {
    **dict.fromkeys((Type.FLOAT, Type.DOUBLE, Type.BLOB, Type.BLOB_COMPRESSED, Type.GEOMETRY), 1),
    **dict.fromkeys((Type.TIMESTAMP2, Type.DATETIME2, Type.TIME2), 1),
    **dict.fromkeys((Type.VARCHAR, Type.VAR_STRING, Type.VARCHAR_COMPRESSED, Type.BIT), 2),
    **dict.fromkeys((Type.NEWDECIMAL, Type.STRING, Type.ENUM, Type.SET), 2),
}


class Option(IntEnum):
    """The parts of a table map that binlog_row_metadata adds."""

    SIGNEDNESS = 1
    DEFAULT_COLLATION = 2
    COLLATIONS = 3
    NAMES = 4
    SET_LABELS = 5
    ENUM_LABELS = 6
    SHAPES = 7
    KEY = 8
    KEY_OF_PREFIXES = 9
    LABEL_DEFAULT_COLLATION = 10
    LABEL_COLLATIONS = 11


def table_map_of(data: bytes) -> TableMap:
    reading = Reading(data, AT)
    schema, name = (reading.take(reading.number(1) + 1)[:-1].decode() for _ in range(2))
    types = list(reading.take(reading.packed()))
    metas = _metas(types, Reading(reading.text()))
    nulls = int.from_bytes(reading.take((len(types) + 7) // 8), "little")
    options: dict[int, bytes] = {}
    while not reading.is_over:
        kind = reading.number(1)
        options[kind] = reading.text()
    columns = _columns(types, metas, nulls, options)
    return TableMap(schema, name, columns, _key(options))


def _metas(types: list[int], reading: Reading) -> list[int]:
    """The numbers behind the types. A column that looks like a text may be an enum or a set: then it becomes one."""
    found = []
    for place, each in enumerate(types):
        meta = reading.number(_META.get(each, 0))
        if each == Type.STRING:
            first, length = meta & 0xFF, meta >> 8
            if first in (Type.ENUM, Type.SET):
                types[place], meta = first, length
            else:  # two bits of the length are in the type, turned around
                meta = length | ((first & 0x30) ^ 0x30) << 4
        found.append(meta)
    return found


def _columns(types: list[int], metas: list[int], nulls: int, options: dict[int, bytes]) -> tuple[LoggedColumn, ...]:
    names = _texts(options.get(Option.NAMES, b""))
    unsigned = _spread(types, NUMBERS, _bits(options.get(Option.SIGNEDNESS, b"")))
    of_texts = _collations(types, COLLATED, options, Option.DEFAULT_COLLATION, Option.COLLATIONS)
    of_labels = _collations(
        types, frozenset({Type.ENUM, Type.SET}), options, Option.LABEL_DEFAULT_COLLATION, Option.LABEL_COLLATIONS
    )
    enums = _spread(types, frozenset({Type.ENUM}), _labels(options.get(Option.ENUM_LABELS, b"")))
    sets = _spread(types, frozenset({Type.SET}), _labels(options.get(Option.SET_LABELS, b"")))
    shapes = _spread(types, frozenset({Type.GEOMETRY}), _numbers(options.get(Option.SHAPES, b"")))
    return tuple(
        LoggedColumn(
            names[place].decode() if place < len(names) else "",
            kind,
            metas[place],
            bool(nulls >> place & 1),
            bool(unsigned.get(place, False)),
            of_labels.get(place, of_texts.get(place)),
            enums.get(place, sets.get(place, ())),
            shapes.get(place, 0),
        )
        for place, kind in enumerate(types)
    )


def _spread(types: list[int], wanted: frozenset[int], found: Sequence[Value]) -> dict[int, Value]:
    """What is told of some columns only, by their places among all."""
    places = (place for place, kind in enumerate(types) if kind in wanted)
    return dict(zip(places, found, strict=False))


def _collations(
    types: list[int], wanted: frozenset[int], options: dict[int, bytes], default: int, each: int
) -> dict[int, int]:
    if each in options:
        return _spread(types, wanted, _numbers(options[each]))
    if default not in options:
        return {}
    usual, *rest = _numbers(options[default])
    count = sum(kind in wanted for kind in types)
    found = [usual] * count
    for place, collation in zip(rest[::2], rest[1::2], strict=True):
        found[place] = collation
    return _spread(types, wanted, found)


def _key(options: dict[int, bytes]) -> tuple[int, ...]:
    if Option.KEY in options:
        return tuple(_numbers(options[Option.KEY]))
    return tuple(_numbers(options.get(Option.KEY_OF_PREFIXES, b""))[::2])


def _bits(data: bytes) -> list[bool]:
    """The highest bit first."""
    return [bool(byte >> shift & 1) for byte in data for shift in range(7, -1, -1)]


def _numbers(data: bytes) -> list[int]:
    reading = Reading(data)
    found = []
    while not reading.is_over:
        found.append(reading.packed())
    return found


def _texts(data: bytes) -> list[bytes]:
    reading = Reading(data)
    found = []
    while not reading.is_over:
        found.append(reading.text())
    return found


def _labels(data: bytes) -> list[tuple[bytes, ...]]:
    reading = Reading(data)
    found = []
    while not reading.is_over:
        found.append(tuple(reading.text() for _ in range(reading.packed())))
    return found
