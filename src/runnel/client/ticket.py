"""What a writer needs to write into a transaction that somebody else begins and ends, and what the two share.

A ticket is a plain value: the one who begins the transaction hands it to writers in other processes. It is good for one
transaction, because every transaction has a producer epoch of its own: a writer that comes too late is refused.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

from runnel.client.metadata import Place
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

# Somebody else has a newer epoch of the same transactional id.
FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
# The transaction is not what the writer takes it for: it has ended, or does not know the writer's partition or batch.
LOST = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class Generation(IntEnum):
    """Of Kafka's transactions: in the second one (KIP-890) the end of each gives the producer a new epoch.

    A request says by its version of which one its client is.
    """

    FIRST = 1
    SECOND = 2

    def most(self, api: Api) -> int | None:
        """The newest version of this generation, where that is not simply the newest one."""
        return NEWEST_OF_FIRST.get(api) if self is Generation.FIRST else None


NEWEST_OF_FIRST = {Api.PRODUCE: 11, Api.END_TXN: 4}


class Ticket(NamedTuple):
    """For one transaction: whose it is, and the partitions that are part of it. From `deadline` on, in seconds since
    1970, the cluster may abort it.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    generation: Generation
    places: frozenset[Place]
    deadline: float = math.inf
