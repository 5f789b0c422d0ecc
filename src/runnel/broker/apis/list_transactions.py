"""ListTransactions (66), versions 0 to 2: all transactional ids, or those that fit.

- Filters: states by name (unknown names are told back and fit nothing), producer ids, from version 1 how long they have
  been open at least, in milliseconds, from version 2 a regular expression for the whole id, which is one of RE2.
  One that does not compile is INVALID_REGULAR_EXPRESSION. While the disk is ill: COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runnel.broker.expressions import compile_expression
from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import Status, Transaction
from runnel.errors import Transient
from runnel.protocol.error_codes import ErrorCode

NAMES = {status.kafka_name for status in Status}


def handle(node: Node, request: Request) -> Body:
    body = request.body
    try:
        pattern = body["transactional_id_pattern"]
        fits: Callable[[str], bool] = compile_expression(pattern, "TransactionalIdPattern") if pattern else bool
        known = node.transactions.all()
    except Refusal as refusal:
        node.refused(request, refusal.code, refusal)  # the answer has no room for the reason
        return _answer(refusal.code)
    except Transient:
        return _answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    states, producers = set(body["state_filters"]), set(body["producer_id_filters"])
    now = node.clock.now()
    found = [
        {
            "transactional_id": name,
            "producer_id": transaction.producer_id,
            "transaction_state": transaction.status.kafka_name,
        }
        for name, transaction in known.items()
        if (not states or transaction.status.kafka_name in states)
        and (not producers or transaction.producer_id in producers)
        and _is_old(transaction, body["duration_filter"], now)
        and fits(name)
    ]
    return _answer(ErrorCode.NONE, sorted(states - NAMES), found)


def _answer(
    error: ErrorCode, unknown: Sequence[str] = (), found: Sequence[dict[str, object]] = ()
) -> dict[str, object]:
    return {
        "throttle_time": 0,
        "error_code": error,
        "unknown_state_filters": unknown,
        "transaction_states": found,
    }


def _is_old(known: Transaction, duration: int, now: int) -> bool:
    return duration < 0 or (known.started >= 0 and now - known.started >= duration)
