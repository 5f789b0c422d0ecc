"""The columns that a declared view has in its table, and which types they can be of.

The same rules hold for every store, so that an app can move from one to the other: names of at most 63 bytes that
differ in more than case, times of microseconds in the years 1 to 9999, keys whose equality nobody doubts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from runnel.views.changes import CHANGE, POSITION
from runnel.views.errors import InvalidDeclaration
from runnel.views.store import Declared

MOST_NAME_BYTES = 63  # PostgreSQL cuts longer names off
MOST_COLUMNS = 1_598  # a table of PostgreSQL's has 1,600 at most, and the change log two of its own
OUR_PREFIXES = ("runnel_", "sqlite_")
OUR_COLUMNS = "_runnel_"  # what stands beside a batch's own begins so
START, END = "start", "end"

TIMESTAMP = pa.timestamp("us", "UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")
DURATION = pa.duration("us")
EXACT = {
    pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.float32(), pa.float64(),
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """The table of a view: its columns in order, and those that are its key."""

    name: str
    key: tuple[str, ...]
    schema: pa.Schema

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are not in the key."""
        return tuple(name for name in self.schema.names if name not in self.key)


def layout(declared: Declared) -> Layout:
    """The table of a declaration. InvalidDeclaration if it cannot have one."""
    _check_names(declared)
    fields = [part.with_type(_kept(declared.name, part)) for field in declared.schema for part in parts(field)]
    _check_columns(declared.name, fields)
    key = tuple(part.name for name in declared.key for part in parts(declared.schema.field(name)))
    schema = pa.schema([field.with_nullable(field.nullable and field.name not in key) for field in fields])
    for name in key:
        _check_key(declared.name, schema.field(name))
    return Layout(declared.name, key, schema)


def parts(field: pa.Field) -> list[pa.Field]:
    """The columns that a declared one becomes: two of a window, itself of any other."""
    if not is_window(field.type):
        return [pa.field(field.name, field.type, field.nullable)]
    return [pa.field(f"{field.name}_{part}", field.type.field(part).type, field.nullable) for part in (START, END)]


def is_window(kind: pa.DataType) -> bool:
    """Whether it is a struct of two times, `start` and `end`, as Spark's windows are."""
    if not types.is_struct(kind) or [field.name for field in kind] != [START, END]:
        return False
    return bool(types.is_timestamp(kind.field(START).type) and kind.field(START).type == kind.field(END).type)


def plain(kind: pa.DataType) -> pa.DataType | None:
    """The type as which a store keeps it, whatever Arrow's layout of it; None if none does."""
    if kind in EXACT:
        return kind
    for fits, make in _PLAIN:
        if fits(kind):
            return make(kind)
    return None


def is_nested(kind: pa.DataType) -> bool:
    return bool(types.is_nested(kind))


def _time(local: pa.DataType, aware: pa.DataType) -> Callable[[Any], pa.DataType | None]:
    return lambda kind: None if kind.unit == "ns" else aware if getattr(kind, "tz", None) else local


def _decimal(kind: Any) -> pa.DataType | None:
    return pa.decimal128(kind.precision, kind.scale) if 0 <= kind.scale <= kind.precision <= 38 else None


def _list(kind: Any) -> pa.DataType | None:
    inner = plain(kind.value_type)
    return pa.list_(inner) if inner is not None else None


def _map(kind: Any) -> pa.DataType | None:
    key, item = plain(kind.key_type), plain(kind.item_type)
    if key is None or item is None or is_nested(key) or types.is_floating(key):
        return None
    return pa.map_(key, item)


def _struct(kind: Any) -> pa.DataType | None:
    fields = [(field.name, plain(field.type)) for field in kind]
    once = len({name for name, _ in fields}) == len(fields)
    return pa.struct(fields) if once and all(inner is not None for _, inner in fields) else None


_PLAIN: Sequence[tuple[Callable[[Any], bool], Callable[[Any], pa.DataType | None]]] = (
    (types.is_timestamp, _time(LOCAL_TIMESTAMP, TIMESTAMP)),
    (types.is_duration, _time(DURATION, DURATION)),
    (types.is_decimal, _decimal),
    (types.is_date, lambda _: pa.date32()),
    (types.is_large_string, lambda _: pa.string()),
    (types.is_string_view, lambda _: pa.string()),
    (types.is_large_binary, lambda _: pa.binary()),
    (types.is_binary_view, lambda _: pa.binary()),
    (types.is_dictionary, lambda kind: plain(kind.value_type)),
    (types.is_list, _list),
    (types.is_large_list, _list),
    (types.is_map, _map),
    (types.is_struct, _struct),
)


def _kept(view: str, field: pa.Field) -> pa.DataType:
    kept = plain(field.type)
    if kept is None:
        raise InvalidDeclaration(
            view, f"column {field.name!r} is of type {field.type}, which no store keeps", hint="cast it to another type"
        )
    return kept


def _check_names(declared: Declared) -> None:
    view = declared.name
    _check_name(view, view, "the name")
    if view.lower().startswith(OUR_PREFIXES):
        raise InvalidDeclaration(
            view, f"names that begin with {' or '.join(OUR_PREFIXES)} are taken", hint="give it another name"
        )
    if not declared.key:
        raise InvalidDeclaration(
            view, "it has no key", hint='name the columns that tell its rows apart: key=["window", "page"]'
        )
    for name in declared.key:
        if name not in declared.schema.names:
            there = ", ".join(declared.schema.names)
            raise InvalidDeclaration(
                view, f"the key's {name!r} is no column of it", hint=f"its function returns: {there}"
            )
    if len(set(declared.key)) < len(declared.key):
        raise InvalidDeclaration(view, "a column is in its key twice", hint="name it once")


def _check_columns(view: str, fields: Sequence[pa.Field]) -> None:
    if len(fields) > MOST_COLUMNS:
        raise InvalidDeclaration(
            view, f"it has {len(fields):,} columns", hint=f"a view has {MOST_COLUMNS:,} at most: put some into a struct"
        )
    others: dict[str, str] = {}
    for field in fields:
        _check_name(view, field.name, "a column")
        if field.name.lower() in (CHANGE, POSITION) or field.name.lower().startswith(OUR_COLUMNS):
            raise InvalidDeclaration(view, f"a column cannot be called {field.name!r}", hint="rename it")
        other = others.get(field.name.lower())
        if other is not None:
            raise InvalidDeclaration(
                view, f"two columns are called {other!r} and {field.name!r}", hint="rename one of them"
            )
        others[field.name.lower()] = field.name


def _check_name(view: str, name: str, which: str) -> None:
    size = len(name.encode(errors="surrogatepass"))
    if not name or "\0" in name or size > MOST_NAME_BYTES or not name.isprintable():
        raise InvalidDeclaration(
            view,
            f"{which} is {name!r}",
            hint=f"a name has 1 to {MOST_NAME_BYTES} bytes of UTF-8 that can be printed",
        )


def _check_key(view: str, field: pa.Field) -> None:
    kind = field.type
    if is_nested(kind) or types.is_floating(kind):
        remedy = "a decimal, a long or text" if types.is_floating(kind) else "text, or take its parts as columns"
        raise InvalidDeclaration(
            view, f"column {field.name!r} is of type {kind}, which cannot be in a key", hint=f"cast it to {remedy}"
        )
