"""How near a group is to losing records: the formulas."""

from __future__ import annotations

import pytest

from runnel.client import Config, Lag, Retention
from runnel.client.lag import with_shares

PLACE = ("orders", 0)
NOW = 1_000_000


def lag(committed=40, start=0, end=100):
    return Lag(*PLACE, committed, start, end)


def shares(each, retention, *, time=None, size=None):
    found = with_shares(
        each, retention, {} if time is None else {PLACE: time}, {} if size is None else {PLACE: size}, NOW
    )
    return found.used_time, found.used_bytes


def config(name, value):
    return Config(name, value, "DYNAMIC_TOPIC_CONFIG", False)


def test_lag_is_counted_from_what_is_still_there():
    assert (lag().lag, lag().lost) == (60, 0)
    assert (lag(start=70).lag, lag(start=70).lost) == (30, 30)
    assert (lag(committed=100).lag, lag(committed=100).lost) == (0, 0)
    assert lag(committed=105).lag == 0  # the topic was made again


def test_what_is_held_back_begins_at_the_last_stable_offset_or_at_what_is_done():
    assert lag().held == 0
    assert lag()._replace(stable=70).held == 30
    assert lag(committed=80)._replace(stable=70).held == 20  # its own commits can be ahead of it
    assert lag(start=90)._replace(stable=70).held == 10
    assert lag(committed=120)._replace(stable=70).held == 0


def test_by_time_it_is_the_age_of_the_first_unread_record():
    assert shares(lag(), Retention(1_000), time=NOW - 600) == (0.6, None)


def test_a_record_of_the_future_has_no_age():
    assert shares(lag(), Retention(1_000), time=NOW + 600) == (0.0, None)


def test_by_bytes_it_is_the_share_of_the_unread_records():
    assert shares(lag(), Retention(bytes=2_000), size=1_000) == (None, 0.3)
    assert shares(lag(start=20), Retention(bytes=2_000), size=1_000) == (None, 0.375)


def test_without_a_limit_nothing_is_used():
    assert shares(lag(), Retention(), time=0, size=1_000) == (None, None)


def test_what_is_unknown_is_not_guessed():
    assert shares(lag(), Retention(1_000, 1_000)) == (None, None)
    assert shares(lag(), Retention(1_000, 1_000), time=-1) == (None, None)


def test_without_lag_nothing_is_used():
    assert shares(lag(committed=100), Retention(1_000, 1_000), time=0, size=1_000) == (None, None)


def test_the_larger_share_counts():
    assert lag()._replace(used_time=0.2, used_bytes=0.7).used == 0.7
    assert lag()._replace(used_time=0.2).used == 0.2
    assert lag().used is None


@pytest.mark.parametrize(
    ("each", "near"),
    [
        (lag()._replace(used_time=0.5), True),
        (lag()._replace(used_time=0.49), False),
        (lag()._replace(used_bytes=3.0), True),
        (lag(), False),
        (lag(start=41), True),
    ],
)
def test_near_loss_begins_at_the_alert_or_with_a_loss(each, near):
    assert each.is_near_loss(0.5) is near


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ({"retention.ms": "5", "retention.bytes": "6", "cleanup.policy": "delete"}, Retention(5, 6)),
        ({"retention.ms": "5", "retention.bytes": "6", "cleanup.policy": "compact,delete"}, Retention(5, 6)),
        ({"retention.ms": "5", "retention.bytes": "6", "cleanup.policy": "compact"}, Retention(-1, -1)),
        ({"retention.ms": "5", "retention.bytes": "6", "cleanup.policy": ""}, Retention(-1, -1)),
        ({"retention.ms": "5"}, Retention(5, -1)),
        ({}, Retention(-1, -1)),
    ],
)
def test_the_retention_of_a_topic(configs, retention):
    assert Retention.of(config(*each) for each in configs.items()) == retention
