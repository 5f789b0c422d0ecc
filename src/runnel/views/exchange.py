"""Two copies of a view change places, in one transaction: whoever reads sees the one or the other, whole.

A copy is a view of its own, under a name that nobody else can have. If both have the same columns, the difference is
applied to the view's table as if it were a batch: it stands in the change log, and whoever watches goes on and sees
what became of each row. If they do not, the tables change their names, and the change log begins anew, behind all
positions that anybody may have: a watcher is told to read the view as it is.

Either way the marker goes with its rows, and every writer from before is fenced.
"""

from __future__ import annotations

import hashlib
import logging
from itertools import count

import pyarrow as pa

from runnel.durable import durable
from runnel.views.catalog import Catalog, make_catalog
from runnel.views.changes import DELETE, INSERT, UPDATE
from runnel.views.database import Database
from runnel.views.declaration import Kept
from runnel.views.errors import UnknownView
from runnel.views.layout import Layout
from runnel.views.statements import COPIES, Statements, log_table, quoted

logger = logging.getLogger(__name__)

LEFT = "runnel_left_"  # what the names of tables begin with that others use


def copy_of(view: str) -> str:
    """What the copy of a view is called."""
    return COPIES + hashlib.sha256(view.encode()).hexdigest()[:16]


def exchange(database: Database, view: str, *, is_logged: bool, now: int) -> None:
    """A view and its copy. Where there is no change log, it begins behind the difference."""
    make_catalog(database)
    with database.making():
        catalog = Catalog(database)
        shown, copy = catalog.find(view, hold=True), catalog.find(copy_of(view), hold=True)
        if shown is None or copy is None:
            raise UnknownView(database.store, view if shown is None else f"{view} (its copy)", catalog.names())
        if _have_the_same_columns(shown.layout(), copy.layout()):
            _exchange_rows(database, catalog, shown, copy, is_logged, now)
        else:
            _exchange_tables(database, catalog, shown, copy)
        with durable("view.exchange"):
            database.commit()


def drop(database: Database, view: str) -> bool:
    """The copy of a view; False if there is none. What others use of it stays, under a name that is in nobody's way."""
    with database.making():
        catalog = Catalog(database)
        copy = catalog.find(copy_of(view), hold=True) if catalog.is_there() else None
        if copy is None:
            return False
        users = {table: database.drop_table(table) for table in (copy.name, log_table(copy.number))}
        left = {_set_aside(database, table): used for table, used in users.items() if used}
        catalog.remove(copy)
        with durable("view.drop"):
            database.commit()
    for table, used in left.items():
        logger.warning(
            "%s: the old table stays, as %s, and is no longer written: others use it (%s); let them use %s, and then "
            "DROP TABLE %s",
            *(view, table, used, view, database.schema + quoted(table)),
        )
    return True


def _have_the_same_columns(one: Layout, other: Layout) -> bool:
    """In any order: a column that came later stands at the end of its table, and elsewhere in a copy."""
    names = sorted(one.columns)
    return one.key == other.key and names == sorted(other.columns) and _picked(one, names) == _picked(other, names)


def _picked(layout: Layout, names: list[str]) -> list[pa.Field]:
    return [layout.schema.field(name) for name in names]


def _set_aside(database: Database, table: str) -> str:
    """What it is called from now on."""
    left = next(name for number in count(1) if database.table_like(name := f"{LEFT}{number}") is None)
    database.run(f"ALTER TABLE {database.schema}{quoted(table)} RENAME TO {quoted(left)}")
    return left


def _exchange_rows(database: Database, catalog: Catalog, shown: Kept, copy: Kept, is_logged: bool, now: int) -> None:
    statements = Statements(shown.layout(), shown.number, database.dialect(shown.layout()))
    for statement in (*statements.create_batch(), *statements.stage(copy.name), statements.touch()):
        database.run(statement)
    counts = {kind: int(count) for kind, count in database.run(statements.count())}
    inserted, updated, deleted = (counts.get(kind, 0) for kind in (INSERT, UPDATE, DELETE))
    log_rows = inserted + 2 * updated + deleted
    if is_logged:
        database.run(statements.log_before(shown.next_position))
        database.run(statements.log_after(shown.next_position))
    for statement in (*statements.refill(copy.name), statements.remove(), statements.upsert()):
        database.run(statement)
    following = shown.next_position + inserted + updated + deleted
    if log_rows and is_logged:
        catalog.add_commit(shown, following, log_rows, copy.batch or 0, now)
    elif log_rows:
        catalog.trim(shown, following)
    catalog.take_marker(shown.name, copy, next_position=following, log=shown.log_id())
    catalog.take_marker(copy.name, shown, next_position=copy.next_position, log=copy.log_id())


def _exchange_tables(database: Database, catalog: Catalog, shown: Kept, copy: Kept) -> None:
    schema, between = database.schema, f"{copy.name}_"
    database.hand_on(shown.name, copy.name)
    database.hand_on(log_table(shown.number), log_table(copy.number))
    for table, name in ((shown.name, between), (copy.name, shown.name), (between, copy.name)):
        database.run(f"ALTER TABLE {schema}{quoted(table)} RENAME TO {quoted(name)}")
    database.run(f"DELETE FROM {schema}{quoted(log_table(copy.number))}")
    catalog.exchange(shown, copy, position=shown.next_position + 1)
