"""What a producer is told of a transaction that cannot go on: one of Kafka's error codes, as its version knows them.

The answers have no room for the reason, so it is told in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.broker.mistakes import Refusal, code_of
from runnel.errors import RunnelError, Transient
from runnel.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from runnel.broker.node import Node
    from runnel.broker.request import Request


def refuse(
    node: Node,
    request: Request,
    error: BaseException,
    *,
    knows_fenced: bool = True,
    knows_abortable: bool = True,
    unstored: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE,
    where: str = "",
) -> ErrorCode:
    """What the producer is told, and a line in the log with the reason."""
    code = told_as(error, knows_fenced=knows_fenced, knows_abortable=knows_abortable, unstored=unstored)
    node.refused(request, code, f"{where}: {error}" if where else error)
    return code


def told_as(
    error: BaseException,
    *,
    knows_fenced: bool = True,
    knows_abortable: bool = True,
    unstored: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE,
) -> ErrorCode:
    """`knows_fenced` and `knows_abortable`: the version of the request has PRODUCER_FENCED, TRANSACTION_ABORTABLE.
    `unstored` is what the disk did not take.
    """
    if isinstance(error, Transient):
        return unstored  # clients try again
    code = code_of(error) if isinstance(error, RunnelError | Refusal) else ErrorCode.UNKNOWN_SERVER_ERROR
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
