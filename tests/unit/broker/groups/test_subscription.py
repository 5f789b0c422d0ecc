"""What a consumer group subscribes to."""

from __future__ import annotations

import pytest

from runnel.broker.groups.subscription import subscribed_topics
from tests.unit.broker.groups.stage import subscription


def test_the_topics_of_all_members_count() -> None:
    metadata = [subscription("orders", "clicks"), subscription("clicks"), subscription()]
    assert subscribed_topics("consumer", metadata) == {"orders", "clicks"}


def test_a_group_without_members_subscribes_to_nothing() -> None:
    assert subscribed_topics("consumer", []) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x00\x00\x01",
        subscription("orders")[:9],
        b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xff",
    ],
)
def test_what_cannot_be_read_is_not_known(metadata: bytes) -> None:
    assert subscribed_topics("consumer", [subscription("orders"), metadata]) is None


def test_of_other_kinds_of_groups_nothing_is_known() -> None:
    assert subscribed_topics("connect", [subscription("orders")]) is None
    assert subscribed_topics(None, []) is None
