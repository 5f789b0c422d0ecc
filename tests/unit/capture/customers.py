"""A table of customers, and a source of changes that is none."""

from typing import Any

from runnel.capture.forms import INT32, STRING
from runnel.capture.tables import Column, Table, TableId

CUSTOMERS = Table(
    TableId("public", "customers"),
    (Column("id", INT32, optional=False), Column("first_name", STRING, optional=False), Column("email", STRING)),
    (0,),
)
LOOSE = Table(TableId("public", "loose"), CUSTOMERS.columns, ())


class NoSource:
    connector = "postgresql"
    has_schemas = True
    database = "shop"
    fields: tuple[dict[str, Any], ...] = (
        {"type": "int64", "optional": True, "field": "txId"},
        {"type": "int64", "optional": True, "field": "lsn"},
    )
