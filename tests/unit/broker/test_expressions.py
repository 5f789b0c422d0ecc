"""Regular expressions that clients send."""

from __future__ import annotations

import pytest

from runnel.broker.expressions import LONGEST, compile_expression
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(("text", "matches"), [("a", True), ("bc", True), ("b", False), ("abc", False), ("", False)])
def test_all_of_a_text_must_match(text: str, matches: bool) -> None:
    assert compile_expression("a|b.", "Pattern")(text) is matches


@pytest.mark.parametrize("field", ["SubscribedTopicRegex", "TransactionalIdPattern"])
def test_a_refusal_names_the_field_the_expression_and_the_reason(field: str) -> None:
    with pytest.raises(Refusal) as refused:
        compile_expression("(a", field)
    assert str(refused.value) == f"{field} `(a` is not a valid regular expression: missing ): (a."
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_of_a_long_expression_the_beginning_is_shown() -> None:
    with pytest.raises(Refusal) as refused:
        compile_expression("(" * 5_000, "Pattern")
    assert f"`{'(' * LONGEST}`" in str(refused.value)


def test_an_expression_that_python_would_take_for_ever_is_done_at_once() -> None:
    assert not compile_expression("(a*)*b", "Pattern")("a" * 10_000)
