"""A source by its address: `sqlite:PATH` or the path of a file alone, `postgresql://USER@HOST/DATABASE`,
`mariadb://USER@HOST/DATABASE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from runnel.capture.errors import InvalidName, TableMissing, UnknownAddress
from runnel.capture.forms import Binary
from runnel.capture.selection import Selection
from runnel.capture.signals import SUFFIX
from runnel.capture.source import Source
from runnel.capture.sqlite import SqliteSource

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


def open_source(address: str, name: str, selection: Selection, *, binary: Binary = Binary.BYTES) -> Source:
    """Raises if a table that is asked for is not there."""
    check_name("name", name)
    scheme, _, place = address.partition(":")
    if scheme not in SCHEMES:
        if "://" in address:
            raise UnknownAddress(scheme, sorted(SCHEMES))
        scheme, place = "sqlite", address
    source = SCHEMES[scheme](place, name, selection, binary)
    tables = source.tables()
    for expression in selection.unmatched(tables):
        raise TableMissing(expression, source.database, [str(table) for table in source.known()])
    for table in tables:
        selection.of(source.table(table))  # raises if a column of a key is not there
    return source


def check_name(what: str, name: str) -> None:
    """That it can be part of the name of a topic, and that the topic is not that of another capture's signals."""
    if not NAME.fullmatch(name) or name.endswith(SUFFIX):
        raise InvalidName(what, name)


def _sqlite(place: str, name: str, selection: Selection, binary: Binary) -> Source:
    return SqliteSource(place.removeprefix("//"), name, selection.has, binary=binary)


def _postgres(place: str, name: str, selection: Selection, binary: Binary) -> Source:
    # who has SQLite need not wait for psycopg
    from runnel.capture.postgres.source import open_source  # noqa: PLC0415

    return open_source(f"postgresql:{place}", name, selection.has, binary=binary)


def _mariadb(place: str, name: str, selection: Selection, binary: Binary) -> Source:
    # who has SQLite need not wait for PyMySQL
    from runnel.capture.mariadb.source import open_source  # noqa: PLC0415

    return open_source(f"mariadb:{place}", name, selection.has, binary=binary)


SCHEMES: Final[dict[str, Callable[[str, str, Selection, Binary], Source]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "mariadb": _mariadb,
    "mysql": _mariadb,
}
