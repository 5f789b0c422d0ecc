"""EndTxn (26), versions 0 to 5: commit or abort the transaction.

- Answered when the outcome is durable, as in Kafka; the markers are written meanwhile. Whatever the producer begins
  next waits for them, where Kafka answers CONCURRENT_TRANSACTIONS and the client tries again. So does a reader of
  committed records (see Fetch and ListOffsets): whoever hears of a commit can read it.
- Version 5 is the second generation: the answer has a new epoch, and now and then a new producer id.
- The same end again is no error: its answer may have been lost. Another end, or one without a transaction, is
  INVALID_TXN_STATE; from version 5 on a producer may abort though nothing was written, and gets a new epoch.

Errors: INVALID_REQUEST (no transactional id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (INVALID_PRODUCER_EPOCH
before version 2), CONCURRENT_TRANSACTIONS (the markers of the last end take longer than five seconds),
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import logging
from typing import Any

from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Answer, Later, Request
from runnel.broker.transactions import ProducerEpoch
from runnel.broker.transactions.mistakes import refuse
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

FENCED_SINCE = 2
SECOND_GENERATION_SINCE = 5
NONE = ProducerEpoch(-1, -1)
NO_ERROR = ErrorCode.NONE  # a name of the module is found in a tenth of the time that a member of an enum takes

logger = logging.getLogger(__name__)


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    if not body["transactional_id"]:
        return _answer(ErrorCode.INVALID_REQUEST)
    producer = ProducerEpoch(body["producer_id"], body["producer_epoch"])
    version = 2 if request.version >= SECOND_GENERATION_SINCE else 1
    answer = Later()

    def tell(after: ProducerEpoch | None, error: Exception | None) -> None:
        if after is not None:
            answer.give(_answer(NO_ERROR, after))
        else:
            answer.give(_refusal(node, request, error))

    node.transactions.end(body["transactional_id"], producer, version, tell, committed=body["committed"])
    return answer


def _refusal(node: Node, request: Request, error: Exception | None) -> dict[str, Any]:
    if not isinstance(error, Refusal | RunnelError):
        logger.error("a transaction could not be ended", exc_info=error)
        return _answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    return _answer(refuse(node, request, error, knows_fenced=request.version >= FENCED_SINCE))


def _answer(error: ErrorCode, producer: ProducerEpoch = NONE) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "error_code": error,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
    }
