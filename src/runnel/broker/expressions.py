"""Regular expressions that clients send: RE2's, so that none of them takes longer than the text is long.

All of a text must match.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode

LONGEST = 1_000  # of an expression, as much as is shown of it


def compile_expression(expression: str, field: str) -> Callable[[str], bool]:
    """Whether a text matches. Refusal with INVALID_REGULAR_EXPRESSION, in which the request's `field` is named."""
    # Loaded only here: few need it, and a start shall not pay for it.
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    try:
        matches = re2.compile(expression, options).fullmatch
    except re2.error as error:
        reason = error.args[0] if error.args else error
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{field} `{expression[:LONGEST]}` is not a valid regular expression: {told}.",
        ) from error
    return lambda text: matches(text) is not None
