"""InitProducerId (22), versions 0 to 6: an id and an epoch for an idempotent or a transactional producer.

- Without a transactional id each answer is a new id with epoch 0, durable before it is given out. Kafka does the same
  when such a producer brings its old one: there is nothing to fence.
- With one, the producer gets its id and the next epoch: every earlier producer with the same transactional id is
  fenced, and its open transaction is aborted before the answer. Kafka answers CONCURRENT_TRANSACTIONS then, and the
  client asks again; here that is the answer only if the abort takes longer than five seconds.
- From version 3 on a producer may bring its id and epoch, to get the next epoch for itself: PRODUCER_FENCED
  (INVALID_PRODUCER_EPOCH before version 4) if somebody else was initialised in between.
- An epoch that cannot be raised any more leads to a new producer id.
- Two-phase commit (version 6) is off, as it is by default in Kafka: TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

Errors: INVALID_REQUEST (an empty id, one of more than 32,767 bytes, or half of a producer),
INVALID_TRANSACTION_TIMEOUT, COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.groups.records import fits
from runnel.broker.mistakes import Refusal, code_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import ProducerEpoch
from runnel.broker.transactions.mistakes import refuse
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

FENCED_SINCE = 4
NONE = ProducerEpoch(-1, -1)


async def handle(node: Node, request: Request) -> Body:
    body = request.body
    name = body["transactional_id"]
    try:
        if name is None:
            return _answer(ErrorCode.NONE, ProducerEpoch(await node.producer_ids.next(), 0))
        return _answer(ErrorCode.NONE, await _initialised(node, body))
    except Refusal as refusal:
        return _answer(refuse(node, request, refusal, knows_fenced=request.version >= FENCED_SINCE))
    except RunnelError as error:
        return _answer(code_of(error) if name is None else refuse(node, request, error))


async def _initialised(node: Node, body: dict[str, Any]) -> ProducerEpoch:
    brought = ProducerEpoch(body["producer_id"], body["producer_epoch"])
    if not body["transactional_id"] or (brought.producer_id == -1) != (brought.epoch == -1):
        raise Refusal(ErrorCode.INVALID_REQUEST, "an empty transactional id, or a producer id without its epoch")
    if not fits(body["transactional_id"]):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a transactional id that is longer than its record can hold")
    if body["enable2_pc"] or body["keep_prepared_txn"]:
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is off")
    expected = None if brought == NONE else brought
    return await node.transactions.initialise(body["transactional_id"], body["transaction_timeout"], expected)


def _answer(error: ErrorCode, producer: ProducerEpoch = NONE) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "error_code": error,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "ongoing_txn_producer_id": -1,
        "ongoing_txn_producer_epoch": -1,
    }
