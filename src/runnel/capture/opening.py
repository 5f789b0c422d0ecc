"""A source by its address: `sqlite:PATH` or the path of a file alone, `postgresql://USER@HOST/DATABASE`,
`mariadb://USER@HOST/DATABASE`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from runnel.capture.errors import ModeUnknown, OptionUnknown, TableMissing, UnknownAddress
from runnel.capture.forms import Binary, Decimals
from runnel.capture.names import check_name
from runnel.capture.selection import Selection
from runnel.capture.source import Source, check_key
from runnel.capture.sqlite import SqliteSource
from runnel.capture.tables import TableId

Chosen: TypeAlias = Callable[[TableId], bool]


def open_source(
    address: str,
    name: str,
    selection: Selection,
    *,
    chosen: Chosen | None = None,
    binary: Binary = Binary.BYTES,
    own: Mapping[str, str] | None = None,
) -> Source:
    """As `source_of`. Raises if a table that is asked for is not there."""
    source = source_of(address, name, selection, chosen=chosen, binary=binary, own=own)
    try:
        _check(source, selection)
    except BaseException:
        source.close()
        raise
    return source


def _check(source: Source, selection: Selection) -> None:
    tables = source.tables()
    for expression in selection.unmatched(tables):
        raise TableMissing(expression, source.database, [str(table) for table in source.known()])
    described = [source.table(table) for table in tables]
    selection.check(described)
    for table in described:
        key = selection.of(table).key  # raises if a column of it is not there
        check_key(source, table, [column.name for _, column in key])


def source_of(
    address: str,
    name: str,
    selection: Selection,
    *,
    chosen: Chosen | None = None,
    binary: Binary = Binary.BYTES,
    own: Mapping[str, str] | None = None,
) -> Source:
    """`chosen` says which tables are captured where that may change, such as `Choice.has`; else it is the selection.
    `own` are options that not every kind of database has, see OPTIONS, as people type them."""
    check_name("name", name)
    scheme, _, place = address.partition(":")
    if scheme not in SCHEMES:
        if "://" in address or _is_mistyped(address):
            raise UnknownAddress(scheme, sorted(SCHEMES))
        scheme, place = "sqlite", address
    _check_options(scheme, own or {})
    return SCHEMES[scheme](place, name, chosen or selection.has, binary, **(own or {}))


def kind_of(address: str) -> str:
    """The scheme that it stands for; what has none that is known is a file of SQLite's, if anything."""
    scheme = address.partition(":")[0]
    return scheme if scheme in SCHEMES else "sqlite"


def _is_mistyped(address: str) -> bool:
    """A URL without its scheme is no file, and is not to be shown as one: it may have a password in it."""
    return ":" in address.partition("@")[0] and "@" in address and not os.path.exists(address)


def _check_options(scheme: str, own: Mapping[str, str]) -> None:
    known = OPTIONS.get(scheme, ())
    for option in own:
        if option not in known:
            raise OptionUnknown(scheme, option, list(known))


def _sqlite(place: str, name: str, chosen: Chosen, binary: Binary) -> Source:
    return SqliteSource(place.removeprefix("//"), name, chosen, binary=binary)


def _postgres(place: str, name: str, chosen: Chosen, binary: Binary, **own: Any) -> Source:
    # who has SQLite need not wait for psycopg
    from runnel.capture.postgres.forms import Times  # noqa: PLC0415
    from runnel.capture.postgres.source import open_source  # noqa: PLC0415

    options = _with_modes("PostgreSQL", own, {"decimals": Decimals, "times": Times})
    return open_source(f"postgresql:{place}", name, chosen, binary=binary, **options)


def _mariadb(place: str, name: str, chosen: Chosen, binary: Binary, **own: Any) -> Source:
    # who has SQLite need not wait for PyMySQL
    from runnel.capture.mariadb.forms import Times  # noqa: PLC0415
    from runnel.capture.mariadb.source import open_source  # noqa: PLC0415

    options = _with_modes("MariaDB", own, {"decimals": Decimals, "times": Times})
    return open_source(f"mariadb:{place}", name, chosen, binary=binary, **options)


def _with_modes(kind: str, own: Mapping[str, str], modes: Mapping[str, type[Enum]]) -> dict[str, Any]:
    return {option: _mode(kind, option, given, modes) for option, given in own.items()}


def _mode(kind: str, option: str, given: str, modes: Mapping[str, type[Enum]]) -> Enum | str:
    if option not in modes:
        return given
    known = [mode.value for mode in modes[option]]
    if given not in known:
        raise ModeUnknown(kind, option, given, known)
    return modes[option](given)


# What only some kinds of databases have; a value is as people type it.
OF_POSTGRES: Final = ("decimals", "times", "slot", "publication", "in_progress")
OF_MARIADB: Final = ("decimals", "times")
OPTIONS: Final = {"postgresql": OF_POSTGRES, "postgres": OF_POSTGRES, "mariadb": OF_MARIADB, "mysql": OF_MARIADB}
SCHEMES: Final[dict[str, Callable[..., Source]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "mariadb": _mariadb,
    "mysql": _mariadb,
}
