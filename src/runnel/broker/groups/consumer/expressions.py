"""Regular expressions that describe topics: RE2's, so that none of them takes longer than the names are long.

A name is described if all of it matches. The broker's own topics are described by none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode

LONGEST = 1_000  # of an expression, as much as is shown of it


def compile_expression(expression: str) -> Any:
    """Refusal with INVALID_REGULAR_EXPRESSION if it is none."""
    # Loaded only here: few need it, and a start shall not pay for it.
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression[:LONGEST]}` is not a valid regular expression: {told}.",
        ) from error


def described_topics(expression: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that an expression describes, in order."""
    matches = compile_expression(expression).fullmatch
    return tuple(sorted(name for name in names if matches(name) is not None))
