"""A topic's configuration: what was set for it, and for the rest what the broker gives every topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runnel.broker.configs.catalogue import TOPIC, find
from runnel.broker.configs.describing import view_of
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting
from runnel.settings import INT64_MAX, TopicSettings

if TYPE_CHECKING:
    from runnel.broker.node import Node


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """InvalidSetting if a name is unknown, or a value cannot be or would be a promise that is not kept."""
    for name, value in configs.items():
        find(TOPIC, name, value).check(value)
    shortest, longest = configs.get("min.compaction.lag.ms"), configs.get("max.compaction.lag.ms")
    if shortest is not None and longest is not None and int(shortest) > int(longest):
        raise InvalidSetting("min.compaction.lag.ms", shortest, f"at most max.compaction.lag.ms, which is {longest}")
    topic_settings(BrokerSettings(), configs)  # has its own ranges


def topic_settings(broker: BrokerSettings, configs: Mapping[str, str]) -> TopicSettings:
    """What the log is told of a topic; the configurations have been checked."""
    told: dict[str, Any] = broker.topic_defaults()
    told |= {name: value for name, value in configs.items() if name in told}
    told["segment.bytes"] = configs.get("internal.segment.bytes", told["segment.bytes"])
    told["retention.bytes"] = max(-1, int(told["retention.bytes"]))  # Kafka takes all below 0, which is no limit
    for name in ("flush.messages", "flush.ms"):
        # Kafka's "never" leaves it to us, and we sync before we answer.
        if int(told[name]) >= INT64_MAX:
            del told[name]
    return TopicSettings.from_names(told)


def described_topic_configs(node: Node, configs: Mapping[str, str]) -> list[dict[str, Any]]:
    """What a topic with these configurations has, as CreateTopics tells it."""
    return [described.as_fields() for described in view_of(node).topic(configs)]
