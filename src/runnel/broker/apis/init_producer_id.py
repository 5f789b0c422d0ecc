"""InitProducerId (22), versions 0 to 6: an id for an idempotent producer.

- Each answer is a new id with epoch 0, durable before it is given out. Kafka does the same when a producer without a
  transactional id brings its old one: there is nothing to fence.
- Transactions are not served yet: a transactional id is answered with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.mistakes import code_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode


async def handle(node: Node, request: Request) -> Body:
    transactional_id = request.body["transactional_id"]
    if transactional_id is not None:
        return _answer(ErrorCode.UNSUPPORTED_VERSION if transactional_id else ErrorCode.INVALID_REQUEST)
    try:
        return _answer(ErrorCode.NONE, await node.producer_ids.next(), 0)
    except RunnelError as error:
        return _answer(code_of(error))


def _answer(error: ErrorCode, producer_id: int = -1, epoch: int = -1) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "error_code": error,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "ongoing_txn_producer_id": -1,
        "ongoing_txn_producer_epoch": -1,
    }
