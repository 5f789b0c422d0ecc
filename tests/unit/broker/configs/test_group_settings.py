"""The broker's settings for consumer groups: what does not go together is refused."""

from __future__ import annotations

import pytest

from runnel.broker.configs.catalogue import BROKER, configs
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting


@pytest.mark.parametrize(
    ("names", "blamed"),
    [
        ({"group.consumer.session.timeout.ms": "1000"}, "group.consumer.session.timeout.ms"),
        ({"group.consumer.min.session.timeout.ms": "70000"}, "group.consumer.min.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": "20000"}, "group.consumer.heartbeat.interval.ms"),
        ({"group.consumer.max.heartbeat.interval.ms": "4000"}, "group.consumer.min.heartbeat.interval.ms"),
        ({"group.consumer.assignment.interval.ms": "20000"}, "group.consumer.assignment.interval.ms"),
        (
            {"group.consumer.max.heartbeat.interval.ms": "90000", "group.consumer.heartbeat.interval.ms": "60000"},
            "group.consumer.heartbeat.interval.ms",
        ),
        ({"group.consumer.assignors": "mine"}, "group.consumer.assignors"),
        ({"group.consumer.assignors": ""}, "group.consumer.assignors"),
        ({"group.consumer.migration.policy": "maybe"}, "group.consumer.migration.policy"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "group.coordinator.rebalance.protocols"),
    ],
)
def test_what_does_not_go_together_is_refused(names: dict[str, str], blamed: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings.from_names(names)
    assert refused.value.name == blamed


def test_a_policy_may_be_written_as_one_likes() -> None:
    settings, _ = BrokerSettings.from_names({"group.consumer.migration.policy": "Upgrade"})
    assert settings.group_consumer_migration_policy == "upgrade"


@pytest.mark.parametrize("name", [name for name in configs(BROKER) if name.startswith("group.consumer.")])
def test_the_defaults_are_kafkas(name: str) -> None:
    assert BrokerSettings().shown(name) == configs(BROKER)[name].default
