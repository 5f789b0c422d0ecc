"""The broker's settings as they are now: given at the start, and changed at run time.

A change for all brokers wins over what was given at the start, and one for this broker over both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runnel.broker.cluster import ConfigResource
from runnel.broker.configs.catalogue import BROKER
from runnel.broker.configs.settings import BrokerSettings
from runnel.errors import InvalidSetting

Stored = Mapping[ConfigResource, Mapping[str, str]]

logger = logging.getLogger(__name__)


def live_settings(static: Mapping[str, Any], stored: Stored) -> BrokerSettings:
    """What is in force. A stored change that does not fit what the broker was started with is left out with a line."""
    settings, _ = BrokerSettings.from_names(static)
    taken: dict[str, dict[str, str]] = {}
    merged = dict(static)
    for broker, changes in _changes(settings, stored):
        for name, value in changes.items():
            try:
                settings, _ = BrokerSettings.from_names({**merged, name: value})
            except InvalidSetting as refused:
                logger.warning("a configuration that was stored earlier is left out: %s", refused)
            else:
                merged[name] = value
                taken.setdefault(broker, {})[name] = value
    return replace(settings, changes=taken)


def changed_settings(static: Mapping[str, Any], stored: Stored) -> BrokerSettings:
    """The same for a change that is asked for: InvalidSetting if it does not fit."""
    settings, _ = BrokerSettings.from_names(static)
    changes = dict(_changes(settings, stored))
    merged = dict(static)
    for change in changes.values():
        merged |= change
    return replace(BrokerSettings.from_names(merged)[0], changes=changes)


def _changes(settings: BrokerSettings, stored: Stored) -> Iterator[tuple[str, Mapping[str, str]]]:
    """By the name of the broker; what wins comes last."""
    for name in ("", str(settings.node_id)):
        changes = stored.get(ConfigResource(BROKER, name))
        if changes:
            yield name, changes
