"""Transactions: records in several partitions, and a group's offsets, that take effect together or not at all.

    transactions = open_transactions(node)
    transactions.start()

Durable is where each transactional id stands (`state`, `records`); what may happen next is decided by functions of that
state alone (`deciding`). `ending` writes the markers that end a transaction, `endings` are all that are on their way;
`coordinator` brings these together, and ends those that last too long.
"""

from runnel.broker.transactions.coordinator import Transactions, open_transactions
from runnel.broker.transactions.ending import OFFSETS
from runnel.broker.transactions.state import ProducerEpoch, Status, TopicPartition, Transaction

__all__ = [
    "OFFSETS",
    "ProducerEpoch",
    "Status",
    "TopicPartition",
    "Transaction",
    "Transactions",
    "open_transactions",
]
