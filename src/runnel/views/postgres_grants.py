"""What others were granted on a table of PostgreSQL's, and what was said of it, is handed on to the one that follows.

Who could read the old one can read the new one, and nobody else; a grant or a comment on a column goes to the column of
the same name. Policies of row security are not handed on: a table that has some hands on no grants either, or all rows
would be shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from runnel.views.statements import quoted

logger = logging.getLogger(__name__)

Run = Callable[..., list[tuple[Any, ...]]]

# All take the table as the first value. A grantee is NULL for everybody, a column for the whole table.
GRANTED = """
SELECT granted.privilege_type, held.name, role.rolname, granted.is_grantable
FROM (
    SELECT oid, relowner, NULL AS name, relacl AS rights FROM pg_catalog.pg_class WHERE oid = $1::text::regclass
    UNION ALL
    SELECT shown.oid, shown.relowner, own.attname, own.attacl
    FROM pg_catalog.pg_class AS shown JOIN pg_catalog.pg_attribute AS own ON own.attrelid = shown.oid
    WHERE shown.oid = $1::text::regclass AND NOT own.attisdropped
) AS held
CROSS JOIN LATERAL aclexplode(held.rights) AS granted
LEFT JOIN pg_catalog.pg_roles AS role ON role.oid = granted.grantee
WHERE granted.grantee <> held.relowner
"""
COMMENTS = """
SELECT own.attname, quote_literal(said.description)
FROM pg_catalog.pg_description AS said
LEFT JOIN pg_catalog.pg_attribute AS own ON own.attrelid = said.objoid AND own.attnum = said.objsubid AND own.attnum > 0
WHERE said.classoid = 'pg_catalog.pg_class'::regclass AND said.objoid = $1::text::regclass
"""
COLUMNS = """
SELECT attname FROM pg_catalog.pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
"""
IS_SECURED = "SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = $1::text::regclass"


def hand_on(run: Run, old: str, new: str) -> None:
    """From one table to the other; both are named with their schema, and quoted."""
    columns = {None, *(name for (name,) in run(COLUMNS, new))}
    for column, text in run(COMMENTS, old):
        if column in columns:
            on = f"TABLE {new}" if column is None else f"COLUMN {new}.{quoted(column)}"
            run(f"COMMENT ON {on} IS {text}")
    for grantee in {_who(role) for _, _, role, _ in run(GRANTED, new)}:
        run(f"REVOKE ALL ON {new} FROM {grantee} CASCADE")
    granted = run(GRANTED, old)
    if granted and run(IS_SECURED, old)[0][0]:
        logger.warning("%s has policies of row security: make them anew over the new table, and grant it anew", old)
        return
    for privilege, column, role, is_grantable in granted:
        if column in columns:
            part = "" if column is None else f" ({quoted(column)})"
            option = " WITH GRANT OPTION" if is_grantable else ""
            run(f"GRANT {privilege}{part} ON {new} TO {_who(role)}{option}")


def _who(role: str | None) -> str:
    return "PUBLIC" if role is None else quoted(role)
