"""The broker's settings as they are now: given at the start, and changed at run time.

A change for all brokers wins over what was given at the start, and one for this broker over both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from runnel.broker.cluster import ConfigResource
from runnel.broker.configs.catalogue import BROKER, configs
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting

ALL_BROKERS = ConfigResource(BROKER, "")

Stored = Mapping[ConfigResource, Mapping[str, str]]

logger = logging.getLogger(__name__)


def live_settings(static: Mapping[str, Any], stored: Stored) -> BrokerSettings:
    """What is in force. A stored change that no longer fits what the broker was started with is left out with a line."""
    settings, _ = BrokerSettings.from_names(static)
    merged = dict(static)
    for resource in (ALL_BROKERS, this_broker(settings)):
        for name, value in stored.get(resource, {}).items():
            try:
                settings, _ = BrokerSettings.from_names({**merged, name: value})
            except InvalidSetting as refused:
                logger.warning("a configuration that was stored earlier is left out: %s", refused)
            else:
                merged[name] = value
    return settings


def changed_settings(static: Mapping[str, Any], stored: Stored) -> BrokerSettings:
    """The same for a change that is asked for: InvalidSetting if it does not fit."""
    settings, _ = BrokerSettings.from_names(static)
    changes = (stored.get(resource, {}) for resource in (ALL_BROKERS, this_broker(settings)))
    merged = dict(static)
    for change in changes:
        merged |= change
    return BrokerSettings.from_names(merged)[0]


def this_broker(settings: BrokerSettings) -> ConfigResource:
    return ConfigResource(BROKER, str(settings.node_id))


def dynamic_names() -> Iterator[str]:
    """What can be changed at run time."""
    return (name for name, config in configs(BROKER).items() if config.is_dynamic)
