"""What the shop's views and its stream must hold, by DuckDB over the rows of the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa

TIMES = ("at", "ordered_at", "paid_at")
MOMENT = pa.timestamp("us")  # in UTC
COLUMNS = {
    "clicks": {"page": pa.string(), "customer_id": pa.int64(), "seconds": pa.int32(), "at": MOMENT},
    "orders": {
        "order_id": pa.int64(),
        "customer_id": pa.int64(),
        "product": pa.string(),
        "cents": pa.int64(),
        "ordered_at": MOMENT,
    },
    "payments": {"order_id": pa.int64(), "paid_at": MOMENT},
    "paid_orders": {
        "order_id": pa.int64(),
        "customer_id": pa.int64(),
        "product": pa.string(),
        "cents": pa.int64(),
        "paid_at": MOMENT,
    },
}
# By the name of the output, over tables with the names of the inputs.
QUESTIONS = {
    "clicks_per_minute": """
        SELECT time_bucket(INTERVAL 1 MINUTE, "at"), page, count(*) FROM clicks GROUP BY ALL""",
    "paid_orders": """
        SELECT order_id, customer_id, product, cents, paid_at FROM orders JOIN payments USING (order_id)
        WHERE paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 MINUTES""",
    "income_per_minute": """
        SELECT time_bucket(INTERVAL 1 MINUTE, paid_at), product, count(*), sum(cents)::BIGINT FROM paid_orders
        GROUP BY ALL""",
}

Rows = Counter[tuple[Any, ...]]


def answer(output: str, inputs: Mapping[str, Iterable[bytes]]) -> Rows:
    """The rows that an output must have, of those that its inputs hold; each with how often."""
    with duckdb.connect() as database:
        for name, values in inputs.items():
            database.register(name, table(name, values))
        return Counter(database.execute(QUESTIONS[output]).fetchall())


def table(name: str, values: Iterable[bytes]) -> pa.Table:
    rows = [row(value) for value in values]
    schema = pa.schema(COLUMNS[name])
    return pa.Table.from_pylist([{column: each.get(column) for column in schema.names} for each in rows], schema)


def row(value: bytes) -> dict[str, Any]:
    """With its times as DuckDB compares them."""
    told = json.loads(value)
    return told | {name: moment(datetime.fromisoformat(told[name])) for name in TIMES if name in told}


def moment(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)


def is_whole(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
