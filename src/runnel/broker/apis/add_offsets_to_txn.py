"""AddOffsetsToTxn (25), versions 0 to 4: the transaction will hold offsets of a group.

Producers of the first generation ask so before they send the offsets with TxnOffsetCommit. Those of the second need
not. As the offsets of all groups are in one partition, that is what joins.

Errors: INVALID_REQUEST (no transactional id), INVALID_GROUP_ID, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED
(INVALID_PRODUCER_EPOCH before version 2), CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import asyncio

from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import OFFSETS, ProducerEpoch
from runnel.broker.transactions.mistakes import refuse
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

FENCED_SINCE = 2
FIRST_GENERATION = 1


async def handle(node: Node, request: Request) -> Body:
    body = request.body
    name, producer = body["transactional_id"], ProducerEpoch(body["producer_id"], body["producer_epoch"])
    code = ErrorCode.NONE
    if not name:
        code = ErrorCode.INVALID_REQUEST
    elif not body["group_id"]:
        code = ErrorCode.INVALID_GROUP_ID
    else:
        try:
            added = node.transactions.add(name, producer, (OFFSETS,), FIRST_GENERATION)
            await asyncio.wrap_future(added, loop=node.loop)
        except (Refusal, RunnelError) as error:
            code = refuse(node, request, error, knows_fenced=request.version >= FENCED_SINCE)
    return {"throttle_time": 0, "error_code": code}
