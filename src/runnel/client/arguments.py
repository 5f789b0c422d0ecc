"""Checks what a program gives the clients, before librdkafka does: it speaks of C's types, or ends the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runnel.client.errors import InvalidArgument, InvalidTopicName
from runnel.client.texts import is_name

NOT_A_NAME = "text without half a character or a NUL"


def topic_name(given: str) -> str:
    if not given or not is_name(given):
        raise InvalidTopicName(given)
    return given


def name(argument: str, given: str) -> str:
    """Any text that librdkafka takes whole."""
    if not is_name(given):
        raise InvalidArgument(argument, given, NOT_A_NAME)
    return given


def configs(given: Mapping[str, str] | None, unset: Iterable[str] = ()) -> dict[str, str]:
    """Of a topic. A name or a value with half a character would end the process, a NUL would cut it off."""
    for each in unset:
        name("name of a config", each)
    return {name("name of a config", each): name(f"value of {each}", value) for each, value in (given or {}).items()}
