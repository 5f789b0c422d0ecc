"""The groups' own configurations as they are now: what is set for a group wins over the broker's `group.` defaults.

node.group_configs.of("billing")  # {"consumer.session.timeout.ms": "50000"}
"""

from __future__ import annotations

from collections.abc import Mapping

from runnel.broker.cluster import ConfigResource
from runnel.broker.configs.catalogue import GROUP
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting

NOTHING: Mapping[str, str] = {}


class GroupConfigs:
    def __init__(self, stored: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        self._by_name = {each.name: configs for each, configs in stored.items() if each.kind == GROUP}

    def of(self, group: str) -> Mapping[str, str]:
        return self._by_name.get(group, NOTHING)

    def put(self, group: str, configs: Mapping[str, str]) -> None:
        """What is set for the group now, and durable."""
        if configs:
            self._by_name[group] = configs
        else:
            self._by_name.pop(group, None)


def check_group_configs(settings: BrokerSettings, configs: Mapping[str, str]) -> None:
    """InvalidSetting if a value is not within the broker's bounds."""
    for name, least, most in (
        (
            "consumer.session.timeout.ms",
            settings.group_consumer_min_session_timeout_ms,
            settings.group_consumer_max_session_timeout_ms,
        ),
        (
            "consumer.heartbeat.interval.ms",
            settings.group_consumer_min_heartbeat_interval_ms,
            settings.group_consumer_max_heartbeat_interval_ms,
        ),
        (
            "consumer.assignment.interval.ms",
            settings.group_consumer_min_assignment_interval_ms,
            settings.group_consumer_max_assignment_interval_ms,
        ),
    ):
        if name in configs and not least <= int(configs[name]) <= most:
            raise InvalidSetting(name, configs[name], f"from {least:,} to {most:,}: the broker's bounds for groups")
    session = int(configs.get("consumer.session.timeout.ms", settings.group_consumer_session_timeout_ms))
    interval = int(configs.get("consumer.heartbeat.interval.ms", settings.group_consumer_heartbeat_interval_ms))
    if configs and interval >= session:
        raise InvalidSetting(
            "consumer.heartbeat.interval.ms", interval, f"less than consumer.session.timeout.ms, which is {session:,}"
        )
