"""A topic's configuration: what was set for it, and for the rest what the broker gives every topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.broker.configs.catalogue import TOPIC, find
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting
from runnel.settings import INT64_MAX, TopicSettings


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
    told: dict[str, Any] = broker_defaults(broker)
    told |= {name: value for name, value in configs.items() if name in told}
    told["segment.bytes"] = configs.get("internal.segment.bytes", told["segment.bytes"])
    for name in ("flush.messages", "flush.ms"):
        # Kafka's "never" leaves it to us, and we sync before we answer.
        if int(told[name]) >= INT64_MAX:
            del told[name]
    return TopicSettings.from_names(told)


def broker_defaults(broker: BrokerSettings) -> dict[str, Any]:
    """What the broker's settings say for each topic configuration that is honoured."""
    return {
        "cleanup.policy": ",".join(broker.log_cleanup_policy),
        "flush.messages": broker.log_flush_interval_messages,
        "flush.ms": broker.flush_ms,
        "index.interval.bytes": broker.log_index_interval_bytes,
        "max.message.bytes": broker.message_max_bytes,
        "message.timestamp.after.max.ms": broker.log_message_timestamp_after_max_ms,
        "message.timestamp.before.max.ms": broker.log_message_timestamp_before_max_ms,
        "message.timestamp.type": broker.log_message_timestamp_type,
        "retention.bytes": broker.log_retention_bytes,
        "retention.ms": broker.retention_ms,
        "segment.bytes": broker.log_segment_bytes,
        "segment.jitter.ms": broker.segment_jitter_ms,
        "segment.ms": broker.segment_ms,
    }
