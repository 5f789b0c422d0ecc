"""Errors of librdkafka and of brokers, told in our words."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from runnel.client import (
    Busy,
    GroupActive,
    InvalidConfig,
    InvalidTopicName,
    RecordTooLarge,
    Refused,
    TimedOut,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
    Unreachable,
)
from runnel.client.errors import told
from runnel.errors import Permanent, Transient


def error(code: int, text: str = "") -> KafkaError:
    return KafkaError(code, text)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopic),
        (KafkaError._UNKNOWN_TOPIC, UnknownTopic),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicExists),
        (KafkaError.TOPIC_EXCEPTION, InvalidTopicName),
        (KafkaError.INVALID_CONFIG, InvalidConfig),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordTooLarge),
        (KafkaError.RECORD_LIST_TOO_LARGE, RecordTooLarge),
        (KafkaError.GROUP_ID_NOT_FOUND, UnknownGroup),
        (KafkaError.NON_EMPTY_GROUP, GroupActive),
        (KafkaError.UNKNOWN_MEMBER_ID, GroupActive),
        (KafkaError._TRANSPORT, Unreachable),
        (KafkaError._ALL_BROKERS_DOWN, Unreachable),
        (KafkaError._RESOLVE, Unreachable),
        (KafkaError._TIMED_OUT, TimedOut),
        (KafkaError._MSG_TIMED_OUT, TimedOut),
        (KafkaError.REQUEST_TIMED_OUT, TimedOut),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused),
    ],
)
def test_a_code_has_its_error(code, kind):
    found = told(error(code), "here:9092", "asking", topic="t", group="g")
    assert type(found) is kind
    assert isinstance(found, Transient | Permanent)


def test_the_brokers_own_topic_is_told_as_that():
    refused = told(
        error(KafkaError.INVALID_REQUEST, "Broker: Invalid request"), "here", "x", topic="__consumer_offsets"
    )
    assert (refused.what, refused.hint) == (
        "x failed: it is the broker's own topic",
        "let it be: the broker keeps its state there",
    )
    other = told(error(KafkaError.INVALID_REQUEST, "Broker: Invalid request"), "here", "x", topic="t")
    assert other.what == "x failed: Invalid request"


def test_an_error_that_may_pass_is_transient():
    assert isinstance(told(KafkaError(KafkaError.NOT_CONTROLLER, "x", retriable=True), "here", "asking"), Busy)


def test_an_exception_is_told_by_the_error_in_it():
    assert isinstance(told(KafkaException(error(KafkaError._TRANSPORT)), "here:9092", "asking"), Unreachable)
    assert str(told(KafkaException("odd"), "here:9092", "asking")) == "asking failed: odd"


def test_where_no_topic_is_known_the_reason_is_told():
    assert str(told(error(KafkaError.INVALID_CONFIG, "too blue"), "here:9092", "asking")) == "asking failed: too blue"


def test_a_reason_is_one_line_without_what_stands_before_it():
    reason = told(error(KafkaError.INVALID_CONFIG, "Broker: a\n  b"), "here:9092", "asking", topic="t")
    assert reason.reason == "a b"


def test_an_error_without_text_is_told_by_its_name():
    assert "INVALID_REQUEST" in str(told(error(KafkaError.INVALID_REQUEST, " "), "here:9092", "asking"))
