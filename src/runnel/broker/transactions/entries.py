"""Between the state and its journal: each entry is the newest state of one transactional id, or a tombstone."""

from __future__ import annotations

from runnel.broker.transactions.records import read_key, read_value, write_key, write_value
from runnel.broker.transactions.state import Transaction, TransactionsState
from runnel.replay import Entry


def entry_of(now: int, transactional_id: str, transaction: Transaction | None) -> Entry:
    """None: the id is forgotten."""
    return Entry(write_key(transactional_id), None if transaction is None else write_value(transaction), now)


def replay(state: TransactionsState, entry: Entry) -> None:
    transactional_id = read_key(entry.key or b"")
    if entry.value is None:
        state.by_id.pop(transactional_id, None)
    else:
        state.by_id[transactional_id] = read_value(entry.value)
