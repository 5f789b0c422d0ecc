"""Between the state and its journal: each entry is the newest state of one transactional id, or a tombstone.

An entry is replayed as soon as it is decided, by whoever made it: what was written last need not be read again.
"""

from __future__ import annotations

from runnel.broker.transactions.records import read_key, read_value, write_key, write_value
from runnel.broker.transactions.state import Transaction, TransactionsState
from runnel.replay import Entry


class _Written:
    last: tuple[bytes, Transaction] | None = None  # replaced whole: threads may look at it


def entry_of(now: int, transactional_id: str, transaction: Transaction | None) -> Entry:
    """None: the id is forgotten."""
    if transaction is None:
        return Entry(write_key(transactional_id), None, now)
    value = write_value(transaction)
    _Written.last = value, transaction
    return Entry(write_key(transactional_id), value, now)


def replay(state: TransactionsState, entry: Entry) -> None:
    transactional_id = read_key(entry.key or b"")
    written = _Written.last
    if entry.value is None:
        state.by_id.pop(transactional_id, None)
    elif written is not None and entry.value is written[0]:
        state.by_id[transactional_id] = written[1]
    else:
        state.by_id[transactional_id] = read_value(entry.value)
