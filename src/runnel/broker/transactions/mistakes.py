"""What a producer is told of a transaction that cannot go on: one of Kafka's error codes, as its version knows them."""

from __future__ import annotations

from runnel.broker.mistakes import Refusal, code_of
from runnel.errors import RunnelError, Transient
from runnel.protocol.error_codes import ErrorCode


def told_as(error: BaseException, *, knows_fenced: bool = True, knows_abortable: bool = True) -> ErrorCode:
    """`knows_fenced` and `knows_abortable`: the version of the request has PRODUCER_FENCED, TRANSACTION_ABORTABLE."""
    if isinstance(error, Transient):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients try again
    code = code_of(error) if isinstance(error, RunnelError | Refusal) else ErrorCode.UNKNOWN_SERVER_ERROR
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
