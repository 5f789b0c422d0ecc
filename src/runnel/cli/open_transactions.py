"""A transaction that is open in a partition, as JSON and in a cell of a table."""

from __future__ import annotations

from typing import Any

from runnel.client import OpenTransaction


def open_object(found: OpenTransaction) -> dict[str, Any]:
    """A transaction that is open in a partition. `since` is unknown of one that hangs."""
    return {
        "topic": found.producer.topic,
        "partition": found.producer.partition,
        "offset": found.first_offset,
        "producer_id": found.producer.producer_id,
        "epoch": found.producer.epoch,
        "last_timestamp": found.producer.last_timestamp,
        "transaction": found.known.id if found.known is not None else None,
        "since": found.since,
        "listed": found.is_listed,
    }


def open_text(found: dict[str, Any] | None) -> str | None:
    """Whose it is, from the object."""
    if found is None:
        return None
    return f"producer {found['producer_id']}" if found["transaction"] is None else str(found["transaction"])
