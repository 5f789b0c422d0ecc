"""Regular expressions that describe topics (see `broker/expressions.py`), the broker's own among them, as in Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runnel.broker.expressions import compile_expression


def topic_filter(expression: str) -> Callable[[str], bool]:
    """Whether a topic's name is described. Refusal with INVALID_REGULAR_EXPRESSION if it is no expression."""
    return compile_expression(expression, "SubscribedTopicRegex")


def described_topics(expression: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that an expression describes, in order."""
    return tuple(sorted(filter(topic_filter(expression), names)))
