"""Checks what a program gives the clients, before librdkafka does: it speaks of C's types, or ends the process."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import TopicPartition

from runnel.client.errors import InvalidArgument, InvalidTopicName, UnknownPartition
from runnel.client.texts import is_name
from runnel.settings import INT32_MAX, INT64_MAX

PAIRS = 'pairs of a name and a value, such as ("shop", b"north")'
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


def seconds(argument: str, given: object, most: int) -> float:
    # NaN is not more than 0, either.
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= most:
        raise InvalidArgument(argument, given, f"a number of seconds, more than 0 and at most {most:,}")
    return float(given)


def integer(argument: str, given: object) -> int:
    number = _whole(given)
    if number is None:
        raise InvalidArgument(argument, given, "a whole number")
    return number


def whole(argument: str, given: object, least: int, most: int | None = None) -> int:
    number = _whole(given)
    if number is None or number < least or (most is not None and number > most):
        expected = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InvalidArgument(argument, given, f"a whole number {expected}")
    return number


def offset(given: object) -> int:
    return whole("offset", given, 0, INT64_MAX)


def timestamp(given: object) -> int:
    """Of a record. librdkafka writes the present for 0."""
    return whole("timestamp", given, 1, INT64_MAX)


def partition(topic: str, given: object) -> int:
    """One that can be; whether it is there, the cluster knows."""
    number = integer("partition", given)
    if not 0 <= number <= INT32_MAX:
        raise UnknownPartition(topic, number)
    return number


def place(topic: str, number: int) -> TopicPartition:
    """A partition, for librdkafka."""
    return TopicPartition(topic_name(topic), partition(topic, number))


def position(topic: str, number: int, at: int) -> TopicPartition:
    """An offset in a partition, for librdkafka."""
    return TopicPartition(topic_name(topic), partition(topic, number), offset(at))


def headers(given: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Of a record. A name of two letters alone would be taken for a name and its value."""
    found: Any = given
    if isinstance(found, Mapping) or not isinstance(found, Iterable):
        raise InvalidArgument("headers", given, f"a list of {PAIRS}")
    pairs = list(found)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgument("header of a record", pair, f"one of {PAIRS}")
    return [(name("name of a header", each), value) for each, value in pairs]


def configs(given: Mapping[str, str] | None, unset: Iterable[str] = ()) -> dict[str, str]:
    """Of a topic. A name or a value with half a character would end the process, a NUL would cut it off."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgument("configs", given, 'names and values, such as {"retention.ms": "60000"}')
    for each in unset:
        name("name of a config", each)
    return {name("name of a config", each): name(f"value of {each}", value) for each, value in (given or {}).items()}


def _whole(given: object) -> int | None:
    try:
        return None if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None
