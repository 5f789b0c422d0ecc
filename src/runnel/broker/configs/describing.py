"""Configurations as clients are shown them: value, where it comes from, and what else had a say.

A value comes from the first that has one: the thing itself (a topic, a group), a change for this broker, a change for
all brokers, what the broker was started with, the default. A topic's configuration has synonyms among the broker's, and
some of the broker's have others in a coarser unit. What is ignored is shown too, as Kafka's tools expect it; the
documentation says that it is ignored, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from runnel.broker.configs.catalogue import BROKER, CLIENT_METRICS, GROUP, TOPIC, Config, Treatment, configs
from runnel.broker.configs.settings import BrokerSettings
from runnel.broker.configs.values import as_text
from runnel.settings import TopicSettings

if TYPE_CHECKING:
    from runnel.broker.node import Node


class Source(IntEnum):
    """As on the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    config: Config
    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def documentation(self) -> str:
        treated = "" if self.config.treatment is Treatment.HONOURED else f"{self.config.treatment}: "
        return treated + self.config.text

    def as_fields(self) -> dict[str, Any]:
        """As on the wire."""
        return {
            "name": self.config.name,
            "value": self.value,
            "read_only": self.read_only,
            "config_source": self.source,
            "is_sensitive": self.config.is_sensitive,
            "synonyms": (),
            "config_type": self.config.type,
            "documentation": None,
        }


@dataclass(frozen=True, slots=True)
class View:
    """All that says something about a broker's configuration."""

    settings: BrokerSettings  # what is in force
    static: Mapping[str, str]  # what the broker was started with
    data: str  # the data directory

    # --- by resource

    def broker(self) -> Iterator[Described]:
        for config in configs(BROKER).values():
            synonyms = self._broker_synonyms(config.name)
            if not config.internal and (synonyms or config.name not in ONLY_DYNAMIC):
                own = [synonym for synonym in synonyms if synonym.name == config.name]
                value = own[0].value if own else None
                yield self._described(config, value, synonyms, read_only=not config.is_dynamic)

    def all_brokers(self) -> Iterator[Described]:
        """What was changed for all brokers; nothing else is known of them."""
        for name, value in sorted(self.settings.changes.get("", {}).items()):
            config = configs(BROKER)[name]
            synonym = Synonym(name, value, Source.DYNAMIC_DEFAULT_BROKER)
            yield self._described(config, value, [synonym], read_only=not config.is_dynamic)

    def topic(self, own: Mapping[str, str]) -> Iterator[Described]:
        defaults = self.settings.topic_defaults()
        for config in configs(TOPIC).values():
            if config.internal and config.name not in own:
                continue
            synonyms = self._inherited(config.synonyms)
            if config.name in own:
                synonyms.insert(0, Synonym(config.name, own[config.name], Source.TOPIC))
                value: str | None = own[config.name]
            elif config.name in defaults:
                value = as_text(defaults[config.name])
            else:
                value = synonyms[0].value if synonyms else config.default
            yield self._described(config, value, synonyms, read_only=False)

    def own_topic(self, settings: TopicSettings) -> Iterator[Described]:
        """One of the broker's own, which has settings of its own that nobody can change."""
        defaults = self.settings.topic_defaults()
        in_force = {name: as_text(value) for name, value in settings.by_name().items() if value is not None}
        own = {name: text for name, text in in_force.items() if text and text != as_text(defaults[name])}
        return (described._replace(read_only=True) for described in self.topic(own))

    def group(self, own: Mapping[str, str]) -> Iterator[Described]:
        for config in configs(GROUP).values():
            inherited = f"group.{config.name}"
            synonyms = self._inherited((inherited,) if inherited in configs(BROKER) else ())
            if not synonyms and config.default is not None:
                synonyms = [Synonym(config.name, config.default, Source.DEFAULT)]
            if config.name in own:
                synonyms.insert(0, Synonym(config.name, own[config.name], Source.GROUP))
            value = synonyms[0].value if synonyms else None
            yield self._described(config, value, synonyms, read_only=False)

    def client_metrics(self) -> Iterator[Described]:
        for config in configs(CLIENT_METRICS).values():
            yield self._described(config, config.default, [], read_only=False)

    # --- parts

    def _described(self, config: Config, value: str | None, synonyms: list[Synonym], *, read_only: bool) -> Described:
        source = synonyms[0].source if synonyms else Source.DEFAULT
        if config.is_sensitive:
            value = None
            synonyms = [synonym._replace(value=None) for synonym in synonyms]
        return Described(config, value, source, read_only, tuple(synonyms))

    def _broker_synonyms(self, name: str) -> list[Synonym]:
        return self._inherited(coarser_names().get(name, (name,)))

    def _inherited(self, names: tuple[str, ...]) -> list[Synonym]:
        """Each value that these settings of the broker have, the one that wins first."""
        return [synonym for name in names for synonym in self._layers(name)]

    def _layers(self, name: str) -> Iterator[Synonym]:
        layers: tuple[tuple[Source, Callable[[str], str | None]], ...] = (
            (Source.DYNAMIC_BROKER, self.settings.changes.get(str(self.settings.node_id), {}).get),
            (Source.DYNAMIC_DEFAULT_BROKER, self.settings.changes.get("", {}).get),
            (Source.STATIC_BROKER, self._given),
            (Source.DEFAULT, self._default),
        )
        for source, look_up in layers:
            value = look_up(name)
            if value is not None:
                yield Synonym(name, str(value), source)

    def _given(self, name: str) -> str | None:
        return self.data if name == "log.dirs" else self.static.get(name)

    def _default(self, name: str) -> str | None:
        config = configs(BROKER)[name]
        return None if config.name in ONLY_DYNAMIC else config.default


# These cannot be given at the start, so there is nothing to show until they are set.
ONLY_DYNAMIC = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def view_of(node: Node) -> View:
    return View(node.settings, node.static_configs, node.log.path)


@cache
def coarser_names() -> dict[str, tuple[str, ...]]:
    """Settings of the broker that have others in a coarser unit: each with those that count when it is not given."""
    found: dict[str, tuple[str, ...]] = {}
    for config in configs(TOPIC).values():
        if len(config.synonyms) > 1:
            found |= {name: config.synonyms[place:] for place, name in enumerate(config.synonyms)}
    return found
